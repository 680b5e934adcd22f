"""hyunwoongko/transformer: no final norms, no √d_model on the embeddings, masked with −10,000."""

from core.config import ModelConfig
from core.foreign.family import Names, Options, Plan, signature
from core.foreign.seeds import plan
from core.foreign.weights import Weights


def _attention(ours: str, theirs: str) -> dict[str, str]:
    parts = {"query": "w_q", "key": "w_k", "value": "w_v", "output": "w_concat"}
    return {f"{ours}.{part}": f"{theirs}.{name}" for part, name in parts.items()}


NAMES = Names(
    layer="{side}.layers.{layer}",
    parts={
        **_attention("self_attention", "self_attention"),
        **_attention("cross_attention", "enc_dec_attention"),
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
    encoder_parts=_attention("self_attention", "attention"),
)

SIGNATURE = signature(NAMES, final_norm=False)


def read(weights: Weights, options: Options) -> Plan:
    """Return the plan for a state dict of hyunwoongko's Transformer."""
    return plan(
        weights,
        options,
        NAMES,
        ModelConfig(
            source_vocab_size=1,
            target_vocab_size=1,
            attention_dropout=0.0,
            layer_norm_eps=1e-12,
            mask_score=-10_000.0,
            scale_embeddings=False,
            final_norm=False,
        ),
        min_count=2,
        lower=True,
    )
