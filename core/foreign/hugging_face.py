"""Read folders saved by Hugging Face's transformers; shared by Marian and Pegasus."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.checkpoint.strict_json import read_small
from core.config import ModelConfig
from core.files import printable
from core.foreign.family import Names, Options, Plan
from core.foreign.pieces import read_tokenizers
from core.foreign.weights import Weights


def _attention(ours: str, theirs: str) -> dict[str, str]:
    parts = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
    return {f"{ours}.{part}": f"{theirs}.{name}" for part, name in parts.items()}


NAMES = Names(
    layer="model.{side}.layers.{layer}",
    parts={
        **_attention("self_attention", "self_attn"),
        **_attention("cross_attention", "encoder_attn"),
        "feed_forward.inner": "fc1",
        "feed_forward.outer": "fc2",
        "norm1": "self_attn_layer_norm",
        "norm2": "encoder_attn_layer_norm",
        "norm3": "final_layer_norm",
    },
    encoder_parts={"norm2": "final_layer_norm"},
    outside={
        "embeddings.source_table": "model.shared",
        "embeddings.target_table": "model.decoder.embed_tokens",
        "embeddings.classifier": "lm_head",
        "encoder_norm": "model.encoder.layer_norm",
        "decoder_norm": "model.decoder.layer_norm",
    },
)
_SEPARATE = {**NAMES.outside, "embeddings.source_table": "model.encoder.embed_tokens"}

ACTIVATIONS = {"relu": "relu", "silu": "silu", "swish": "silu"}

# Settings that change nothing in a forward pass without dropout, or are read elsewhere.
_HARMLESS = frozenset(
    """_name_or_path _num_labels activation_dropout activation_function add_bias_logits
    architectures attention_dropout bad_words_ids bos_token_id classif_dropout
    classifier_dropout d_model decoder_attention_heads decoder_ffn_dim decoder_layerdrop
    decoder_layers decoder_start_token_id decoder_vocab_size dropout dtype
    encoder_attention_heads encoder_ffn_dim encoder_layerdrop encoder_layers eos_token_id
    extra_pos_embeddings forced_eos_token_id gradient_checkpointing id2label init_std
    label2id length_penalty max_length max_position_embeddings model_type num_beams
    num_hidden_layers output_attentions output_hidden_states pad_token_id return_dict
    scale_embedding share_encoder_decoder_embeddings task_specific_params
    tie_word_embeddings tokenizer_class torch_dtype transformers_version unk_token_id
    use_cache vocab_size""".split()
)


@dataclass(frozen=True)
class Kind:
    """A family's settings that no file holds, and `fixed`: flags that must have these values."""

    family: str
    norm_first: bool
    final_norm: bool
    fixed: dict[str, Any]


def read(weights: Weights, options: Options, kind: Kind) -> Plan:
    """Return the plan of a saved folder. Raises ValueError for unknown or unsupported settings."""
    folder = weights.source
    config, settings = _settings(folder, kind)
    source_size = settings["vocab_size"]
    shared = config.get("share_encoder_decoder_embeddings", True)
    target_size = source_size if shared else config.get("decoder_vocab_size", source_size)
    ids = (settings["pad_token_id"], settings["decoder_start_token_id"], settings["eos_token_id"])
    tied = config.get("tie_word_embeddings", True)
    vocabularies = read_tokenizers(folder, options, (source_size, target_size), ids, shared)
    d_model = settings["d_model"]
    ours = ModelConfig(
        source_vocab_size=len(vocabularies[0].rows),
        target_vocab_size=len(vocabularies[1].rows),
        d_model=d_model,
        num_heads=_same(folder, settings, "encoder_attention_heads", "decoder_attention_heads"),
        num_encoder_layers=settings["encoder_layers"],
        num_decoder_layers=settings["decoder_layers"],
        dim_feedforward=_same(folder, settings, "encoder_ffn_dim", "decoder_ffn_dim"),
        norm_first=kind.norm_first,
        final_norm=kind.final_norm,
        max_length=settings["max_position_embeddings"],
        share_embeddings=shared,
        tie_classifier=tied,
        tied_bias=tied,
        scale_embeddings=config.get("scale_embedding", False),
        activation=ACTIVATIONS[config["activation_function"]],  # ty: ignore[invalid-argument-type]
    )
    bias = "embeddings.tied_bias" if tied else "embeddings.classifier.bias"
    names = NAMES if shared else Names(NAMES.layer, NAMES.parts, _SEPARATE, {}, NAMES.encoder_parts)
    if shared and "model.shared.weight" not in weights:  # some versions save only its copies
        names = Names(NAMES.layer, NAMES.parts, _SEPARATE, {}, NAMES.encoder_parts)
    return Plan(
        ours,
        names,
        *vocabularies,
        features=interleaved(d_model),
        biases={bias: "final_logits_bias"},
        skipped=_copies(weights, names, shared, tied),
        position_tables=(
            "model.encoder.embed_positions.weight",
            "model.decoder.embed_positions.weight",
        ),
    )


def interleaved(d_model: int) -> np.ndarray:
    """Return the original's feature index for each of ours; the original has all sines first.

    The order of the residual stream's features is arbitrary: reordering changes no score.
    """
    half = np.arange(d_model // 2)
    return np.stack((half, half + d_model // 2), axis=1).ravel()


def _settings(folder: Path, kind: Kind) -> tuple[dict[str, Any], dict[str, int]]:
    """Return config.json and its whole numbers. Raises ValueError for unsupported settings."""
    file = folder / "config.json"
    where = printable(str(file))
    if not folder.is_dir() or not file.is_file():
        raise ValueError(f"{where} is missing: give the whole folder, as save_pretrained writes it")
    try:
        config = read_small(file)
    except ValueError as error:
        raise ValueError(f"{where} cannot be read ({error}): get the folder again") from None
    found = config.get("model_type") if isinstance(config, dict) else None
    if found != kind.family:
        raise ValueError(f"{where} is of a {str(found)[:40]!r} network, not --from {kind.family}")
    if unknown := sorted(set(config) - _HARMLESS - set(kind.fixed)):
        raise ValueError(
            f"{where} sets {printable(unknown[0])[:60]} to "
            f"{printable(repr(config[unknown[0]]))[:60]}, which this converter does not know: it "
            "may change what the network computes"
        )
    for name, value in kind.fixed.items():
        if config.get(name, value) != value:
            raise ValueError(
                f"{where} sets {name} to {printable(repr(config[name]))[:60]}: only "
                f"{value!r} can be converted"
            )
    if config.get("activation_function") not in ACTIVATIONS:
        raise ValueError(
            f"{where} sets activation_function to "
            f"{printable(repr(config.get('activation_function')))[:40]}: only "
            f"{', '.join(ACTIVATIONS)} can be converted"
        )
    needed = """vocab_size d_model encoder_layers decoder_layers encoder_attention_heads
        decoder_attention_heads encoder_ffn_dim decoder_ffn_dim max_position_embeddings
        pad_token_id eos_token_id decoder_start_token_id""".split()
    for name in needed:
        if type(config.get(name)) is not int:
            raise ValueError(f"{where}: {name} is not a whole number: get the folder again")
    return config, {name: config[name] for name in needed}


def _same(folder: Path, settings: dict[str, int], first: str, second: str) -> int:
    if settings[first] != settings[second]:
        raise ValueError(
            f"{printable(str(folder))}: {first} {settings[first]} and {second} {settings[second]} "
            "differ, which cannot be converted"
        )
    return settings[first]


def _copies(weights: Weights, names: Names, shared: bool, tied: bool) -> dict[str, str]:
    """Return the stored copies of tied tables, with the reason to skip each.

    Raises ValueError if a copy differs.
    """
    source = names.outside["embeddings.source_table"] + ".weight"
    target = source if shared else names.outside["embeddings.target_table"] + ".weight"
    copies = {}
    if shared:
        copies |= {f"model.{x}embed_tokens.weight": source for x in ("encoder.", "decoder.")}
    if tied:
        copies["lm_head.weight"] = target
    found = {n: of for n, of in copies.items() if n in weights and n != of}
    for name, original in found.items():
        if not np.array_equal(weights.take(name).numpy(), weights.take(original).numpy()):
            raise ValueError(
                f"{printable(str(weights.source))}: {name} differs from {original}, although "
                "config.json says that they are one table: get the folder again"
            )
    return {name: f"equal to {original}" for name, original in found.items()}
