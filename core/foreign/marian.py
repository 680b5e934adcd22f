"""Marian, the networks of OPUS-MT: norms after each sub-layer, SiLU, decoding from <pad>."""

from core.foreign import hugging_face
from core.foreign.family import Options, Plan
from core.foreign.weights import Weights

_FIXED = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "is_encoder_decoder": True,
    "is_decoder": False,
    "forced_bos_token_id": None,
    "force_bos_token_to_be_generated": False,
}

SIGNATURE = hugging_face.signature_of(final_norm=False)


def read(weights: Weights, options: Options) -> Plan:
    """Return the plan for the folder of a MarianMTModel."""
    kind = hugging_face.Kind("marian", norm_first=False, final_norm=False, fixed=_FIXED)
    return hugging_face.read(weights, options, kind)
