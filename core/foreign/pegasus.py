"""Pegasus: norms before each sub-layer and after each stack, as in this project's own networks."""

from core.foreign import hugging_face
from core.foreign.family import Options, Plan
from core.foreign.weights import Weights

SIGNATURE = hugging_face.signature_of(final_norm=True)


def read(weights: Weights, options: Options) -> Plan:
    """Return the plan for the folder of a PegasusForConditionalGeneration."""
    kind = hugging_face.Kind("pegasus", norm_first=True, final_norm=True)
    return hugging_face.read(weights, options, kind)
