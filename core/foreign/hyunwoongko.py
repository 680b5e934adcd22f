"""hyunwoongko/transformer: no final norms, no √d_model on the embeddings, masked with −10,000."""

from core.foreign.family import Names, Options, Plan, attention, signature
from core.foreign.seeds import plan
from core.foreign.weights import Weights

_PROJECTIONS = ("w_q", "w_k", "w_v", "w_concat")

NAMES = Names(
    layer="{side}.layers.{layer}",
    parts={
        **attention("self_attention", "self_attention", *_PROJECTIONS),
        **attention("cross_attention", "enc_dec_attention", *_PROJECTIONS),
        "feed_forward.inner": "ffn.linear1",
        "feed_forward.outer": "ffn.linear2",
        **{f"norm{i}": f"norm{i}" for i in (1, 2, 3)},
    },
    outside={
        "embeddings.source_table": "encoder.emb.tok_emb",
        "embeddings.target_table": "decoder.emb.tok_emb",
        "embeddings.classifier": "decoder.linear",
    },
    norm_leaves={"weight": "gamma", "bias": "beta"},
    encoder_parts=attention("self_attention", "attention", *_PROJECTIONS),
)

SIGNATURE = signature(NAMES, final_norm=False)


def read(weights: Weights, options: Options) -> Plan:
    """Return the plan for a state dict of hyunwoongko's Transformer."""
    return plan(
        weights,
        options,
        NAMES,
        min_count=2,
        lower=True,
        attention_dropout=0.0,
        layer_norm_eps=1e-12,
        mask_score=-10_000.0,
        scale_embeddings=False,
        final_norm=False,
    )
