"""T5 (Raffel et al. 2020) as Hugging Face saves it: T5 1.0 and 1.1, Flan-T5 and mT5."""

from typing import Any, NotRequired, TypedDict

from core.config import ModelConfig
from core.foreign import hugging_face as saved
from core.foreign.family import Names, Options, Plan, Reader, attention, signature
from core.foreign.sources import naming
from core.foreign.vocabularies import sentencepiece
from core.foreign.weights import Weights

_FIELDS = {
    "d_model": "d_model",
    "d_kv": "head_size",
    "d_ff": "dim_feedforward",
    "num_heads": "num_heads",
    "num_layers": "num_encoder_layers",
    "num_decoder_layers": "num_decoder_layers",
    "layer_norm_epsilon": "layer_norm_eps",
    "n_positions": "max_length",
    "relative_attention_num_buckets": "relative_buckets",
    "relative_attention_max_distance": "relative_distance",
}
"""Our name of each setting that is read as it is; ModelConfig checks its type and range."""
_USUAL: dict[str, Any] = {"layer_norm_epsilon": 1e-6, "n_positions": 512}
_USUAL |= {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}
_USUAL |= {"feed_forward_proj": "relu"}
_OTHERS = "dense_act_fn dropout_rate initializer_factor is_gated_act scale_decoder_outputs".split()
_KNOWN = saved.HARMLESS | saved.OF_SEARCH | set(_FIELDS) | set(_USUAL) | set(_OTHERS)
_FIXED = {"is_encoder_decoder": True, "is_decoder": False, "forced_bos_token_id": None}
_SHAPE: dict[str, Any] = {"norm_first": True, "norm": "rms", "position_table": "none"}
_SHAPE |= dict.fromkeys(("qkv_bias", "linear_bias", "scale_scores", "scale_embeddings"), False)


class _Settings(TypedDict):
    vocab_size: int
    pad_token_id: int
    eos_token_id: int
    feed_forward_proj: str
    decoder_start_token_id: NotRequired[int]
    scale_decoder_outputs: NotRequired[bool]
    tie_word_embeddings: NotRequired[bool]


def _names(gated: bool) -> Names:
    parts = attention("self_attention", "0.SelfAttention", *"qkvo")
    parts |= attention("cross_attention", "1.EncDecAttention", *"qkvo")
    parts |= {f"norm{n + 1}": f"{n}.layer_norm" for n in range(3)}
    outside = {"embeddings.source_table": "shared", "embeddings.classifier": "lm_head"}
    feed, inner = {}, {"inner": "wi_0" if gated else "wi", "gate": "wi_1", "outer": "wo"}
    for side, n in (("encoder", 1), ("decoder", 2)):
        feed[side] = {f"feed_forward.{own}": f"{n}.DenseReluDense.{x}" for own, x in inner.items()}
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias"
        outside |= {f"{side}_norm": f"{side}.final_layer_norm", f"{side}_bias": bias}
    layer, parts = "{side}.block.{layer}.layer", parts | feed["decoder"]
    return Names(layer, parts, outside, encoder_parts=feed["encoder"])


def _read(weights: Weights, options: Options) -> Plan:
    """Return the plan of a saved folder. Raises ValueError for unknown or unsupported settings."""
    folder = weights.source
    config = _USUAL | saved.read_settings(folder, "t5", ("t5", "mt5"), _KNOWN, _FIXED)
    config.setdefault("num_decoder_layers", config.get("num_layers"))
    given = saved.check_settings(_Settings, folder, config)
    ids = {"pad": given["pad_token_id"], "end": given["eos_token_id"]}
    ids["start"] = given.get("decoder_start_token_id", ids["pad"])
    both = sentencepiece("t5", folder, options, given["vocab_size"], ids)
    gated, activation = saved.feed_forward_of(given["feed_forward_proj"])
    # mT5 never scales its output; T5 does, unless its tables were untied when it was trained.
    scales = given.get("tie_word_embeddings", True) and config.get("model_type") != "mt5"
    sizes: dict[str, Any] = {name: config.get(theirs) for theirs, name in _FIELDS.items()}
    copies = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"]
    same = [n for n in copies if n in weights and saved.equal(weights, n, "shared.weight")]
    tied = "lm_head.weight" in same or "lm_head.weight" not in weights
    with naming(folder / "config.json"):
        ours = ModelConfig(
            source_vocab_size=len(both.rows),
            target_vocab_size=len(both.rows),
            activation=activation,
            gated=gated,
            share_embeddings=True,
            tie_classifier=tied,
            tied_bias=tied,
            scale_output=given.get("scale_decoder_outputs", scales),
            **sizes,
            **_SHAPE,
        )
    unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    return Plan(
        *(ours, _names(gated), both, both),
        skipped=dict.fromkeys(same, "equal to shared") | {unused: "there is no such bias"},
        zeros=frozenset({f"embeddings.{'tied_bias' if tied else 'classifier.bias'}"}),
        remarks=saved.of_search(config),
    )


_NAMES = signature(_names(False), tied=True, relative_buckets=4, **_SHAPE)
T5 = Reader(frozenset(name for name in _NAMES if ".wi." not in name), _read)
