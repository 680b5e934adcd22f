"""Marian, the networks of OPUS-MT: norms after each sub-layer, SiLU, decoding from <pad>."""

from core.foreign import hugging_face
from core.foreign.family import Options, Plan
from core.foreign.weights import Weights

SIGNATURE = hugging_face.signature_of(final_norm=False)


def read(weights: Weights, options: Options) -> Plan:
    """Return the plan for the folder of a MarianMTModel."""
    kind = hugging_face.Kind("marian", norm_first=False, final_norm=False)
    return hugging_face.read(weights, options, kind)
