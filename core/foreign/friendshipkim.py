"""friendshipkim/transformer-from-scratch: the tutorial's network with hand-written attention."""

from core.config import ModelConfig
from core.foreign.family import Names, Options, Plan, signature
from core.foreign.seeds import plan
from core.foreign.weights import Weights


def _attention(ours: str, theirs: str) -> dict[str, str]:
    parts = {"query": "fc_q", "key": "fc_k", "value": "fc_v", "output": "fc_concat"}
    return {f"{ours}.{part}": f"{theirs}.{name}" for part, name in parts.items()}


NAMES = Names(
    layer="{side}.layers.{layer}",
    parts={
        **_attention("self_attention", "self_attn"),
        **_attention("cross_attention", "cross_attn"),
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
    return plan(
        weights,
        options,
        NAMES,
        ModelConfig(source_vocab_size=1, target_vocab_size=1),
        position_tables=("positional_encoding.encoding",),
    )
