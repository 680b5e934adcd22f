"""Read folders saved by Hugging Face's transformers; shared by Marian and Pegasus."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np

from core.config import ModelConfig
from core.files import MAX_CONFIG_BYTES, printable
from core.foreign.family import Names, Options, Plan, Reader, attention, signature
from core.foreign.pieces import read_tokenizers
from core.foreign.refusals import refusal
from core.foreign.sources import naming, read_json, shown
from core.foreign.weights import Weights
from core.typed import typed

_CONFIG = "config.json"


_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")

NAMES = Names(
    layer="model.{side}.layers.{layer}",
    parts={
        **attention("self_attention", "self_attn", *_PROJECTIONS),
        **attention("cross_attention", "encoder_attn", *_PROJECTIONS),
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
    """_attn_implementation _attn_implementation_autoset _attn_implementation_internal
    _commit_hash _name_or_path _num_labels activation_dropout activation_function
    add_bias_logits architectures attention_dropout attn_implementation 
    classif_dropout classifier_dropout cross_attention_hidden_size d_model
    decoder_attention_heads decoder_ffn_dim decoder_layerdrop decoder_layers decoder_vocab_size
    dropout dtype encoder_attention_heads encoder_ffn_dim encoder_layerdrop encoder_layers
    extra_pos_embeddings finetuning_task gradient_checkpointing id2label init_std label2id
    max_position_embeddings model_type num_hidden_layers output_attentions
    output_hidden_states output_past problem_type return_dict save_step scale_embedding
    share_encoder_decoder_embeddings task_specific_params tf_legacy_loss
    tie_word_embeddings tokenizer_class torch_dtype torchscript
    transformers_version transformers_weights use_bfloat16 use_cache vocab_size""".split()
)
# Settings of `generate`, which change the original's search but no forward pass.
_OF_SEARCH = frozenset(
    """bad_words_ids begin_suppress_tokens bos_token_id decoder_start_token_id diversity_penalty
    do_sample early_stopping encoder_no_repeat_ngram_size encoder_repetition_penalty
    eos_token_id epsilon_cutoff eta_cutoff exponential_decay_length_penalty
    forced_eos_token_id length_penalty max_length max_new_tokens max_time min_length
    min_new_tokens min_p no_repeat_ngram_size num_beam_groups num_beams num_return_sequences
    output_logits output_scores pad_token_id penalty_alpha prefix remove_invalid_values
    renormalize_logits repetition_penalty return_dict_in_generate sep_token_id
    suppress_tokens temperature top_k top_p typical_p unk_token_id""".split()
)
_CHANGES_TRANSLATIONS = {  # and the values with which they change nothing
    "begin_suppress_tokens": ([],),
    "do_sample": (False,),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1,),
    "exponential_decay_length_penalty": (),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "no_repeat_ngram_size": (0,),
    "prefix": ("",),
    "repetition_penalty": (1,),
    "suppress_tokens": ([],),
}
_FIXED = {
    "normalize_embedding": False,
    "static_position_embeddings": True,
    "is_encoder_decoder": True,
    "is_decoder": False,
    "forced_bos_token_id": None,
    "force_bos_token_to_be_generated": False,
    "chunk_size_feed_forward": 0,
    "pruned_heads": {},
    "tie_encoder_decoder": False,
}
"""Settings of every family, and of the library unless something was changed by hand."""
_FLAGS = ("scale_embedding", "share_encoder_decoder_embeddings", "tie_word_embeddings")


class _Activation(TypedDict):
    activation_function: Literal["relu", "silu", "swish"]


class _Settings(TypedDict):
    """The settings of config.json that are read, but for the network's family and activation."""

    vocab_size: int
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    max_position_embeddings: int
    pad_token_id: int
    eos_token_id: int
    decoder_start_token_id: int
    decoder_vocab_size: NotRequired[int]
    scale_embedding: NotRequired[bool]
    share_encoder_decoder_embeddings: NotRequired[bool]
    tie_word_embeddings: NotRequired[bool]


_CLASSES = {"MarianMTModel": "marian", "PegasusForConditionalGeneration": "pegasus"}


def signature_of(final_norm: bool) -> frozenset[str]:
    """Return the names by which a family's weights are recognised, whichever tables are tied."""
    tables = {f"{name}.weight" for name in NAMES.outside.values() if "norm" not in name}
    return (signature(NAMES, tied=True, final_norm=final_norm) - tables) | {"final_logits_bias"}


@dataclass(frozen=True)
class Kind:
    """A family's settings that no file holds."""

    family: str
    norm_first: bool
    final_norm: bool

    @property
    def fixed(self) -> dict[str, Any]:
        """The settings that must have these values."""
        own = {"normalize_before": self.norm_first, "add_final_layer_norm": self.final_norm}
        return _FIXED | own


def read(weights: Weights, options: Options, *, kind: Kind) -> Plan:
    """Return the plan of a saved folder. Raises ValueError for unknown or unsupported settings."""
    folder = weights.source
    config = _settings(folder, kind)
    source_size = config["vocab_size"]
    shared = config.get("share_encoder_decoder_embeddings", True)
    target_size = source_size if shared else config.get("decoder_vocab_size", source_size)
    ids = {"pad": "pad_token_id", "start": "decoder_start_token_id", "end": "eos_token_id"}
    tied = config.get("tie_word_embeddings", True)
    vocabularies = read_tokenizers(
        folder,
        options,
        (source_size, target_size),
        {role: config[name] for role, name in ids.items()},
        shared,
    )
    d_model = config["d_model"]
    one_table = shared and (tied or not _are_untied(weights))
    with naming(folder / _CONFIG):
        ours = ModelConfig(
            source_vocab_size=len(vocabularies[0].rows),
            target_vocab_size=len(vocabularies[1].rows),
            d_model=d_model,
            num_heads=_same(config, "encoder_attention_heads", "decoder_attention_heads"),
            num_encoder_layers=config["encoder_layers"],
            num_decoder_layers=config["decoder_layers"],
            dim_feedforward=_same(config, "encoder_ffn_dim", "decoder_ffn_dim"),
            norm_first=kind.norm_first,
            final_norm=kind.final_norm,
            max_length=config["max_position_embeddings"],
            share_embeddings=one_table,
            tie_classifier=tied,
            tied_bias=tied,
            scale_embeddings=config.get("scale_embedding", False),
            activation=ACTIVATIONS[config["activation_function"]],  # ty: ignore[invalid-argument-type]
        )
    bias = "embeddings.tied_bias" if tied else "embeddings.classifier.bias"
    names = NAMES
    if not one_table or "model.shared.weight" not in weights:  # some versions save only its copies
        names = Names(NAMES.layer, NAMES.parts, _SEPARATE, {}, NAMES.encoder_parts)
    skipped = _copies(weights, names, one_table, tied)
    if not one_table:
        skipped["model.shared.weight"] = "not used: each side has a table of its own"
    return Plan(
        ours,
        names,
        *vocabularies,
        features=interleaved(d_model),
        biases={bias: "final_logits_bias"},
        skipped=skipped,
        position_tables=(
            "model.encoder.embed_positions.weight",
            "model.decoder.embed_positions.weight",
        ),
        remarks=_of_search(config),
    )


def _are_untied(weights: Weights) -> bool:
    """Return whether both sides' tables are saved and differ from the shared one, or it is missing.

    Without `tie_word_embeddings`, transformers 5 uses each side's own table, earlier versions one.
    """
    sides = [f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    if not all(name in weights for name in sides):
        return False
    shared = "model.shared.weight"
    first = shared if shared in weights else sides[0]
    return any(not _equal(weights, name, first) for name in sides)


def _equal(weights: Weights, first: str, second: str) -> bool:
    """Return whether two tensors are equal; different shapes are not read."""
    if weights.shape(first) != weights.shape(second):
        return False
    both = (weights.take(name).numpy() for name in (first, second))
    return np.array_equal(*both, equal_nan=True)


def _of_search(config: dict[str, Any]) -> tuple[str, ...]:
    """Return a sentence for the settings that change the original's translations, if any."""
    given = [
        f"{name} {printable(repr(config[name]))[:40]}"
        for name, neutral in _CHANGES_TRANSLATIONS.items()
        if name in config and config[name] not in neutral
    ]
    if not given:
        return ()
    return (f"Settings of the original's search are not applied here: {', '.join(given)[:300]}.",)


def interleaved(d_model: int) -> np.ndarray:
    """Return the original's feature index for each of ours; the original has all sines first.

    The order of the residual stream's features is arbitrary: reordering changes no score.
    """
    half = np.arange(d_model // 2)
    return np.stack((half, half + d_model // 2), axis=1).ravel()


def _settings(folder: Path, kind: Kind) -> dict[str, Any]:
    """Return the settings of config.json. Raises ValueError for unsupported settings."""
    file = folder / _CONFIG
    where = shown(file)
    if not folder.is_dir():
        raise ValueError(
            f"{shown(folder)} is one file, but --from {kind.family} needs a folder: put it, as "
            "model.safetensors, beside config.json, source.spm, target.spm and vocab.json, and "
            "give that folder"
        )
    config = read_json(Mapping[str, Any], file, MAX_CONFIG_BYTES, MAX_CONFIG_BYTES)
    _check_family(where, config, kind.family)
    config = {n: value for n, value in config.items() if value is not None or n in _FLAGS}
    if unknown := sorted(set(config) - _HARMLESS - _OF_SEARCH - set(kind.fixed)):
        raise ValueError(
            f"{where} sets {printable(unknown[0])[:60]} to "
            f"{printable(repr(config[unknown[0]]))[:60]}, which this converter does not know: it "
            "may change what the network computes; if it does not, delete that line"
        )
    for name, value in kind.fixed.items():
        if config.get(name, value) != value:
            raise ValueError(
                f"{where} sets {name} to {printable(repr(config[name]))[:60]}: only "
                f"{value!r} can be converted"
            )
    with naming(file):
        typed(_Activation, config)
    try:
        return typed(_Settings, config)
    except ValueError as error:
        raise ValueError(f"{where}: {error}: get the folder again") from None


def _check_family(where: str, config: dict[str, Any], family: str) -> None:
    """Raise ValueError unless the network is of the family; folders of 2020 name only a class."""
    found, classes = config.get("model_type"), config.get("architectures")
    if found is None and isinstance(classes, list):
        known = [_CLASSES[name] for name in classes if isinstance(name, str) and name in _CLASSES]
        found = known[0] if known else None
    if found == family:
        return
    if found is None:
        raise ValueError(
            f"{where} names neither a model_type nor an architecture of {family}: get the folder "
            "again"
        )
    if not isinstance(found, str):
        found = repr(found)
    name = printable(found)[:40]
    why = refusal(name)
    remedy = f"use --from {name}" if name in _CLASSES.values() else "it cannot be converted"
    raise ValueError(f"{where} is of a {name!r} network, not --from {family}: {why or remedy}")


def _same(config: dict[str, Any], first: str, second: str) -> int:
    if config[first] != config[second]:
        raise ValueError(f"{first} {config[first]} and {second} {config[second]} differ")
    return config[first]


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
        if not _equal(weights, name, original):
            raise ValueError(
                f"{shown(weights.source)}: {name} differs from {original}, although "
                "config.json says that they are one table: get the folder again"
            )
    return {name: f"equal to {original}" for name, original in found.items()}


def _reader(family: str, norm_first: bool, final_norm: bool) -> Reader:
    kind = Kind(family, norm_first, final_norm)
    return Reader(signature_of(final_norm), partial(read, kind=kind))


MARIAN = _reader("marian", norm_first=False, final_norm=False)
"""The networks of OPUS-MT: norms after each sub-layer, SiLU, decoding from <pad>."""
PEGASUS = _reader("pegasus", norm_first=True, final_norm=True)
"""Norms before each sub-layer and after each stack, as in this project's own networks."""
