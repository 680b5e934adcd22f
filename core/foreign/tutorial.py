"""PyTorch's tutorial "Language Translation with nn.Transformer and torchtext"."""

from core.config import ModelConfig
from core.foreign.family import Names, Options, Plan, signature
from core.foreign.seeds import plan
from core.foreign.weights import Weights

_LAYER = "transformer.{side}.layers.{layer}"


def _attention(ours: str, theirs: str) -> dict[str, str]:
    packed = {part: f"{theirs}.in_proj[{i}]" for i, part in enumerate(("query", "key", "value"))}
    named = {f"{ours}.{part}": name for part, name in packed.items()}
    return named | {f"{ours}.output": f"{theirs}.out_proj"}


NAMES = Names(
    layer=_LAYER,
    parts={
        **_attention("self_attention", "self_attn"),
        **_attention("cross_attention", "multihead_attn"),
        "feed_forward.inner": "linear1",
        "feed_forward.outer": "linear2",
        **{f"norm{i}": f"norm{i}" for i in (1, 2, 3)},
    },
    outside={
        "embeddings.source_table": "src_tok_emb.embedding",
        "embeddings.target_table": "tgt_tok_emb.embedding",
        "embeddings.classifier": "generator",
        "encoder_norm": "transformer.encoder.norm",
        "decoder_norm": "transformer.decoder.norm",
    },
)

SIGNATURE = signature(NAMES)


def read(weights: Weights, options: Options) -> Plan:
    """Return the plan for a state dict of the tutorial's Seq2SeqTransformer."""
    return plan(
        weights,
        options,
        NAMES,
        ModelConfig(source_vocab_size=1, target_vocab_size=1),
        position_tables=("positional_encoding.pos_embedding",),
    )
