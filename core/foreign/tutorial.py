"""PyTorch's tutorial "Language Translation with nn.Transformer and torchtext"."""

from core.foreign.family import Names, Options, Plan, attention, signature
from core.foreign.seeds import plan
from core.foreign.weights import Weights

_PROJECTIONS = ("in_proj[0]", "in_proj[1]", "in_proj[2]", "out_proj")

NAMES = Names(
    layer="transformer.{side}.layers.{layer}",
    parts={
        **attention("self_attention", "self_attn", *_PROJECTIONS),
        **attention("cross_attention", "multihead_attn", *_PROJECTIONS),
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
    return plan(weights, options, NAMES, position_tables=("positional_encoding.pos_embedding",))
