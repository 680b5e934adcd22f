"""friendshipkim/transformer-from-scratch: the tutorial's network with hand-written attention."""

from core.foreign.family import Names, Options, Plan, attention, signature
from core.foreign.seeds import plan
from core.foreign.weights import Weights

_PROJECTIONS = ("fc_q", "fc_k", "fc_v", "fc_concat")

NAMES = Names(
    layer="{side}.layers.{layer}",
    parts={
        **attention("self_attention", "self_attn", *_PROJECTIONS),
        **attention("cross_attention", "cross_attn", *_PROJECTIONS),
        "feed_forward.inner": "ffn.fc_1",
        "feed_forward.outer": "ffn.fc_2",
        **{f"norm{i}": f"norm{i}" for i in (1, 2, 3)},
    },
    outside={
        "embeddings.source_table": "src_tok_emb.embedding",
        "embeddings.target_table": "tgt_tok_emb.embedding",
        "embeddings.classifier": "classifier",
        "encoder_norm": "encoder.norm",
        "decoder_norm": "decoder.norm",
    },
)

SIGNATURE = signature(NAMES)


def read(weights: Weights, options: Options) -> Plan:
    """Return the plan for a state dict of friendshipkim's Transformer."""
    return plan(weights, options, NAMES, position_tables=("positional_encoding.encoding",))
