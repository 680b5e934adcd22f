"""T5 (Raffel et al. 2020) as Hugging Face saves it: T5 1.0 and 1.1, Flan-T5 and mT5."""

from typing import Any, NotRequired, TypedDict

from core.config import ModelConfig
from core.foreign.family import Names, Options, Plan, Reader, attention, signature
from core.foreign.hugging_face import (
    HARMLESS,
    OF_SEARCH,
    activation_of,
    check_settings,
    equal,
    of_search,
    read_settings,
)
from core.foreign.sources import naming
from core.foreign.vocabularies import sentencepiece
from core.foreign.weights import Weights

_KNOWN = (
    HARMLESS
    | OF_SEARCH
    | set(
        """d_ff d_kv dense_act_fn dropout_rate feed_forward_proj
    initializer_factor is_gated_act layer_norm_epsilon n_positions num_decoder_layers num_heads
    num_layers relative_attention_max_distance relative_attention_num_buckets
    scale_decoder_outputs""".split()
    )
)
_FIXED = {"is_encoder_decoder": True, "is_decoder": False, "forced_bos_token_id": None}


class _Settings(TypedDict):
    vocab_size: int
    d_model: int
    d_kv: int
    d_ff: int
    num_layers: int
    num_heads: int
    pad_token_id: int
    eos_token_id: int
    num_decoder_layers: NotRequired[int]
    decoder_start_token_id: NotRequired[int]
    layer_norm_epsilon: NotRequired[float]
    feed_forward_proj: NotRequired[str]
    n_positions: NotRequired[int]
    relative_attention_num_buckets: NotRequired[int]
    relative_attention_max_distance: NotRequired[int]
    scale_decoder_outputs: NotRequired[bool]
    tie_word_embeddings: NotRequired[bool]


def _names(gated: bool) -> Names:
    inner, last = ("wi_0" if gated else "wi"), {"encoder": 1, "decoder": 2}
    layers = {
        side: {
            "feed_forward.inner": f"{n}.DenseReluDense.{inner}",
            "feed_forward.gate": f"{n}.DenseReluDense.wi_1",
            "feed_forward.outer": f"{n}.DenseReluDense.wo",
        }
        for side, n in last.items()
    }
    attentions = attention("self_attention", "0.SelfAttention", *"qkvo")
    attentions |= attention("cross_attention", "1.EncDecAttention", *"qkvo")
    norms = {f"norm{n + 1}": f"{n}.layer_norm" for n in range(3)}
    bias = "{}.block.0.layer.0.SelfAttention.relative_attention_bias"
    outside = {"embeddings.source_table": "shared", "embeddings.classifier": "lm_head"}
    for side in last:
        outside |= {f"{side}_norm": f"{side}.final_layer_norm", f"{side}_bias": bias.format(side)}
    return Names(
        "{side}.block.{layer}.layer",
        attentions | layers["decoder"] | norms,
        outside,
        encoder_parts=layers["encoder"],
    )


_SHAPE: dict[str, Any] = {
    "norm_first": True,
    "qkv_bias": False,
    "linear_bias": False,
    "scale_scores": False,
}
_SHAPE |= {"norm": "rms", "position_table": "none", "scale_embeddings": False}


def _read(weights: Weights, options: Options) -> Plan:
    """Return the plan of a saved folder. Raises ValueError for unknown or unsupported settings."""
    folder = weights.source
    config = read_settings(folder, "t5", ("t5", "mt5"), _KNOWN, _FIXED)
    is_mt5 = config.get("model_type") == "mt5"  # never scales its output
    config = check_settings(_Settings, folder, config)
    ids = {"pad": config["pad_token_id"], "end": config["eos_token_id"]}
    ids["start"] = config.get("decoder_start_token_id", ids["pad"])
    both = sentencepiece("t5", folder, options, config["vocab_size"], ids)
    says_tied, projection = config.get("tie_word_embeddings", True), config.get("feed_forward_proj")
    gated, _, activation = ("-" + (projection or "relu")).rpartition("-")
    tied = "lm_head.weight" not in weights or equal(weights, "lm_head.weight", "shared.weight")
    with naming(folder / "config.json"):
        ours = ModelConfig(
            source_vocab_size=len(both.rows),
            target_vocab_size=len(both.rows),
            d_model=config["d_model"],
            num_heads=config["num_heads"],
            head_size=config["d_kv"],
            num_encoder_layers=config["num_layers"],
            num_decoder_layers=config.get("num_decoder_layers", config["num_layers"]),
            dim_feedforward=config["d_ff"],
            layer_norm_eps=config.get("layer_norm_epsilon", 1e-6),
            activation=activation_of("gelu_new" if projection == "gated-gelu" else activation),
            gated=gated == "-gated",
            max_length=config.get("n_positions", 512),
            relative_buckets=config.get("relative_attention_num_buckets", 32),
            relative_distance=config.get("relative_attention_max_distance", 128),
            share_embeddings=True,
            tie_classifier=tied,
            tied_bias=tied,
            scale_output=config.get("scale_decoder_outputs", says_tied and not is_mt5),
            **_SHAPE,
        )
    copies = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
    copies += ["lm_head.weight"] * tied
    same = {
        n: "equal to shared" for n in copies if n in weights and equal(weights, n, "shared.weight")
    }
    unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    bias = "embeddings.tied_bias" if tied else "embeddings.classifier.bias"
    return Plan(
        *(ours, _names(ours.gated), both, both),
        skipped=same | {unused: "not used: there is no bias between target and source"},
        zeros=frozenset({bias}),
        remarks=of_search(config),
    )


T5 = Reader(
    signature(_names(False), tied=True, relative_buckets=4, **_SHAPE)
    - {name for name in signature(_names(False), tied=True, **_SHAPE) if ".wi." in name},
    _read,
)
