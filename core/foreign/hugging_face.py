"""Read folders saved by Hugging Face's transformers; shared by Marian and Pegasus."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import numpy as np

from core.config import Activation, ModelConfig
from core.files import MAX_CONFIG_BYTES, printable
from core.foreign import vocabularies
from core.foreign.family import (
    Names,
    Options,
    Plan,
    Reader,
    Vocabulary,
    attention,
    signature,
)
from core.foreign.pieces import read_tokenizers
from core.foreign.refusals import refusal
from core.foreign.sources import naming, read_json, shown
from core.foreign.weights import Weights
from core.kinds import SIDES
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
        "embeddings.source_positions": "model.encoder.embed_positions",
        "embeddings.target_positions": "model.decoder.embed_positions",
        "embeddings.source_norm": "model.encoder.layernorm_embedding",
        "embeddings.target_norm": "model.decoder.layernorm_embedding",
        "encoder_norm": "model.encoder.layer_norm",
        "decoder_norm": "model.decoder.layer_norm",
    },
)
_TABLES = ("embeddings.source_table", "embeddings.target_table", "embeddings.classifier")
FSMT_NAMES = replace(
    NAMES,
    outside=NAMES.outside
    | {
        "embeddings.source_table": "model.encoder.embed_tokens",
        "embeddings.classifier": "model.decoder.output_projection",
    },
)

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}

# Settings that change nothing in a forward pass without dropout, or are read elsewhere.
HARMLESS = frozenset(
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
OF_SEARCH = frozenset(
    """bad_words_ids begin_suppress_tokens bos_token_id decoder_start_token_id diversity_penalty
    do_sample early_stopping encoder_no_repeat_ngram_size encoder_repetition_penalty
    eos_token_id epsilon_cutoff eta_cutoff exponential_decay_length_penalty
    force_bos_token_to_be_generated forced_bos_token_id forced_eos_token_id length_penalty
    max_length max_new_tokens max_time min_length
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
    "is_encoder_decoder": True,
    "is_decoder": False,
    "chunk_size_feed_forward": 0,
    "pruned_heads": {},
    "tie_encoder_decoder": False,
}
"""Settings of every family, and of the library unless something was changed by hand."""
_FLAGS = ("scale_embedding", "share_encoder_decoder_embeddings", "tie_word_embeddings")


class _Settings(TypedDict):
    """The settings of config.json that are read, but for the network's family."""

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
    activation_function: str
    bos_token_id: NotRequired[int]
    forced_bos_token_id: NotRequired[int]
    force_bos_token_to_be_generated: NotRequired[bool]
    decoder_vocab_size: NotRequired[int]
    scale_embedding: NotRequired[bool]
    share_encoder_decoder_embeddings: NotRequired[bool]
    tie_word_embeddings: NotRequired[bool]


_CLASSES = {"MarianMTModel": "marian", "PegasusForConditionalGeneration": "pegasus"}
_CLASSES |= {f"{name}ForConditionalGeneration": name.lower() for name in ("Bart", "MBart", "FSMT")}
_CLASSES |= {"M2M100ForConditionalGeneration": "m2m_100"}
_CLASSES |= {f"{name}ForConditionalGeneration": name.lower() for name in ("T5", "MT5")}

_Vocabularies = tuple[Vocabulary, Vocabulary]


class Tables(NamedTuple):
    """What a folder says about its vocabularies; `ids` are `pad`, `start` and `end`.

    `shared` is whether one vocabulary serves both sides, `forced` the first id of every target.
    """

    folder: Path
    options: Options
    sizes: tuple[int, int]
    ids: dict[str, int]
    shared: bool
    forced: int | None


@dataclass(frozen=True)
class Kind:
    """A family's settings that no file holds; `shape` are fields of ModelConfig.

    `fixed` are settings that must have these values, if config.json has them. Without `bias`, the
    classifier has none.
    """

    family: str
    norm_first: bool
    shape: dict[str, Any]
    vocabularies: Callable[[Tables], _Vocabularies]
    fixed: dict[str, Any]
    names: Names = NAMES
    bias: bool = True
    model_type: str = ""

    @property
    def fsmt(self) -> bool:
        """Whether this is FSMT, whose config.json has names of its own."""
        return self.names is FSMT_NAMES

    @property
    def signature(self) -> frozenset[str]:
        """The names by which a family's weights are recognised, whichever tables are tied."""
        tables = {f"{n}.weight" for o, n in self.names.outside.items() if o in _TABLES}
        own = signature(self.names, tied=True, **self.shape) - tables
        return own | {"final_logits_bias"} if self.bias else own

    @property
    def all_fixed(self) -> dict[str, Any]:
        """The settings that must have these values."""
        own = {"normalize_before": self.norm_first, "add_final_layer_norm": self.norm_first}
        own |= {"normalize_embedding": "embedding_norm" in self.shape}
        own["static_position_embeddings"] = "learned_positions" not in self.shape
        return _FIXED | own | self.fixed


def read(weights: Weights, options: Options, *, kind: Kind) -> Plan:
    """Return the plan of a saved folder. Raises ValueError for unknown or unsupported settings."""
    folder = weights.source
    config = _settings(folder, kind)
    shared = config.get("share_encoder_decoder_embeddings", True)
    source_size = config["vocab_size"]
    target_size = source_size if shared else config.get("decoder_vocab_size", source_size)
    ids = {"pad": "pad_token_id", "start": "decoder_start_token_id", "end": "eos_token_id"}
    roles = {role: config[name] for role, name in ids.items()}
    sizes = source_size, target_size
    forced = _forced(config)
    if forced is not None and not 0 <= forced < target_size:
        raise ValueError(
            f"{shown(folder / _CONFIG)}: forced_bos_token_id {forced} is not in the vocabulary of "
            f"{target_size:,}: get the folder again"
        )
    both = kind.vocabularies(Tables(folder, options, sizes, roles, shared, forced))
    one_table = shared and not _are_untied(weights)
    names = kind.names
    if not one_table or "model.shared.weight" not in weights:  # some versions save only its copies
        separate = names.outside | {"embeddings.source_table": "model.encoder.embed_tokens"}
        names = replace(names, outside=separate)
    target = names.outside[f"embeddings.{'source' if one_table else 'target'}_table"] + ".weight"
    classifier = names.outside["embeddings.classifier"] + ".weight"
    own_classifier = classifier in weights and not equal(weights, classifier, target)
    says_tied = config.get("tie_word_embeddings", True)
    tied = says_tied and not own_classifier
    with naming(folder / _CONFIG):
        ours = ModelConfig(
            source_vocab_size=len(both[0].rows),
            target_vocab_size=len(both[1].rows),
            d_model=config["d_model"],
            num_heads=config["encoder_attention_heads"],
            decoder_heads=_other(config, "decoder_attention_heads", "encoder_attention_heads"),
            num_encoder_layers=config["encoder_layers"],
            num_decoder_layers=config["decoder_layers"],
            dim_feedforward=config["encoder_ffn_dim"],
            decoder_feedforward=_other(config, "decoder_ffn_dim", "encoder_ffn_dim"),
            norm_first=kind.norm_first,
            max_length=config["max_position_embeddings"],
            share_embeddings=one_table,
            tie_classifier=tied,
            tied_bias=tied,
            scale_embeddings=config.get("scale_embedding", False),
            activation=activation_of(config["activation_function"]),
            **kind.shape,
        )
    bias = "embeddings.tied_bias" if tied else "embeddings.classifier.bias"
    skipped = _copies(weights, names, one_table, tied)
    if not one_table:
        skipped["model.shared.weight"] = "not used: each side has a table of its own"
    remarks = of_search(config)
    if says_tied and own_classifier and not kind.fsmt:
        remarks += (
            f"{classifier} differs from {target}, although config.json says that they are one "
            "table: it is read as a table of its own, as in transformers 5 (version 4 ignores it).",
        )
    fixed_table = "learned_positions" not in kind.shape
    leaves = ("weight", "weights")  # the latter in old folders of M2M100
    return Plan(
        ours,
        names,
        *both,
        features=interleaved(ours.d_model) if fixed_table else None,
        biases={bias: "final_logits_bias"} if kind.bias else {},
        zeros=frozenset() if kind.bias else frozenset({bias}),
        skipped=skipped,
        position_tables=tuple(
            f"model.{side}.embed_positions.{leaf}" for side in SIDES for leaf in leaves
        )
        if fixed_table
        else (),
        first_position=0 if ours.position_table == "paper" and fixed_table else 2,
        remarks=remarks,
    )


def _forced(config: dict[str, Any]) -> int | None:
    """Return the id with which the original begins every target, if it forces one."""
    if config.get("force_bos_token_to_be_generated"):  # of 2020
        config = {"forced_bos_token_id": config.get("bos_token_id")} | config
    return config.get("forced_bos_token_id")


def _other(config: dict[str, Any], decoder: str, encoder: str) -> int | None:
    """Return a size of the decoder, or None if it is the encoder's."""
    return None if config[decoder] == config[encoder] else config[decoder]


def activation_of(name: str) -> Activation:
    if name not in ACTIVATIONS:
        raise ValueError(
            f"activation_function is {printable(repr(name))[:40]}, which cannot be converted: only "
            f"{', '.join(ACTIVATIONS)} can"
        )
    return ACTIVATIONS[name]


def feed_forward_of(name: str) -> tuple[bool, Activation]:
    """Return whether T5's feed-forward layers are gated, and their activation."""
    if name == "gated-gelu":
        return True, "gelu_tanh"  # the approximate one
    gate, _, activation = name.rpartition("-")
    return gate == "gated", activation_of(activation if gate in ("", "gated") else name)


def _are_untied(weights: Weights) -> bool:
    """Return whether both sides' tables are saved and differ from the shared one, or it is missing.

    Without `tie_word_embeddings`, transformers 5 uses each side's own table, earlier versions one.
    """
    sides = [f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    if not all(name in weights for name in sides):
        return False
    shared = "model.shared.weight"
    first = shared if shared in weights else sides[0]
    return any(not equal(weights, name, first) for name in sides)


def equal(weights: Weights, first: str, second: str) -> bool:
    """Return whether two tensors are equal; different shapes are not read."""
    if weights.shape(first) != weights.shape(second):
        return False
    both = (weights.take(name).numpy() for name in (first, second))
    return np.array_equal(*both, equal_nan=True)


def of_search(config: dict[str, Any]) -> tuple[str, ...]:
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
    known = HARMLESS | OF_SEARCH | (_OF_FSMT if kind.fsmt else set())
    config = read_settings(folder, kind.family, (kind.model_type,), known, kind.all_fixed)
    if kind.fsmt:  # the classifier is always the target's table, whatever the flag says
        names = {"src_vocab_size": "vocab_size", "tgt_vocab_size": "decoder_vocab_size"}
        config = {names.get(n, n): value for n, value in config.items() if n != "vocab_size"}
        config |= {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": True}
        config.setdefault("decoder_start_token_id", config.get("eos_token_id"))
    return check_settings(_Settings, folder, config)


def check_settings(kind: type, folder: Path, config: dict[str, Any]) -> Any:
    """Return the settings of a TypedDict. Raises ValueError for a missing or wrong one."""
    try:
        return typed(kind, config)
    except ValueError as error:
        raise ValueError(f"{shown(folder / _CONFIG)}: {error}: get the folder again") from None


def read_settings(
    folder: Path, family: str, types: Sequence[str], known: Set[str], fixed: dict[str, Any]
) -> dict[str, Any]:
    """Return what config.json sets, for networks of one of these types.

    Raises ValueError for another family, for a setting that is neither `known` nor `fixed`, and for
    a fixed one with another value.
    """
    file = folder / _CONFIG
    where = shown(file)
    if not folder.is_dir():
        raise ValueError(
            f"{shown(folder)} is one file, but --from {family} needs a folder: put it, as "
            "model.safetensors, beside config.json and the files of the tokenizer, and give that "
            "folder"
        )
    config = read_json(Mapping[str, Any], file, MAX_CONFIG_BYTES, MAX_CONFIG_BYTES)
    _check_family(where, config, family, types)
    config = {n: value for n, value in config.items() if value is not None or n in _FLAGS}
    if unknown := sorted(set(config) - known - set(fixed)):
        raise ValueError(
            f"{where} sets {printable(unknown[0])[:60]} to "
            f"{printable(repr(config[unknown[0]]))[:60]}, which this converter does not know: it "
            "may change what the network computes; if it does not, delete that line"
        )
    for name, value in fixed.items():
        if config.get(name, value) != value:
            raise ValueError(
                f"{where} sets {name} to {printable(repr(config[name]))[:60]}: only "
                f"{value!r} can be converted"
            )
    return config


def _check_family(where: str, config: dict[str, Any], family: str, types: Sequence[str]) -> None:
    """Raise ValueError unless the network is of the family; folders of 2020 name only a class."""
    found, classes = config.get("model_type"), config.get("architectures")
    if found is None and isinstance(classes, list):
        known = [_CLASSES[name] for name in classes if isinstance(name, str) and name in _CLASSES]
        found = known[0] if known else None
    if found in types:
        return
    if found is None:
        raise ValueError(
            f"{where} names neither a model_type nor an architecture of {family}: get the folder "
            "again"
        )
    if not isinstance(found, str):
        found = repr(found)
    name = printable(found)[:40]
    why, other = refusal(name), name.replace("_", "").replace("mt5", "t5")
    is_known = name in _CLASSES.values()
    remedy = f"use --from {other}" if is_known else "it cannot be converted"
    raise ValueError(f"{where} is of a {name!r} network, not --from {family}: {why or remedy}")


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
        copies[names.outside["embeddings.classifier"] + ".weight"] = target
    found = {n: of for n, of in copies.items() if n in weights and n != of}
    for name, original in found.items():
        if not equal(weights, name, original):
            raise ValueError(
                f"{shown(weights.source)}: {name} differs from {original}, although "
                "config.json says that they are one table: get the folder again"
            )
    return {name: f"equal to {original}" for name, original in found.items()}


def _two_models(of: Tables) -> _Vocabularies:
    vocabularies.check_direction(of.folder, of.options)
    return read_tokenizers(of.folder, of.options, of.sizes, of.ids, of.shared)


def _one_model(of: Tables, family: Literal["mbart", "m2m100"]) -> _Vocabularies:
    both = vocabularies.sentencepiece(family, of.folder, of.options, of.sizes[0], of.ids)
    return both, both


def _bytes(of: Tables) -> _Vocabularies:
    both = vocabularies.byte_level(of.folder, of.sizes[0], of.ids, of.forced)
    return both, both


def _moses(of: Tables) -> _Vocabularies:
    return vocabularies.moses(of.folder, of.options, of.sizes, of.ids)


def _reader(family: str, *fields: Any, **more: Any) -> Reader:
    kind = Kind(family, *fields, **({"model_type": family} | more))
    return Reader(kind.signature, partial(read, kind=kind))


_UNFORCED = {"forced_bos_token_id": None, "force_bos_token_to_be_generated": False}
_LEARNED = {"learned_positions": True, "embedding_norm": True}
_FAIRSEQ = {"position_table": "fairseq"}
_OF_FSMT = frozenset("decoder langs src_vocab_size tgt_vocab_size".split())
_PAD = {"pad_token_id": 1}  # fairseq's positions begin after it

MARIAN = _reader("marian", False, {"final_norm": False}, _two_models, _UNFORCED)
"""The networks of OPUS-MT: norms after each sub-layer, SiLU, decoding from <pad>."""
PEGASUS = _reader("pegasus", True, {}, _two_models, _UNFORCED)
"""Norms before each sub-layer and after each stack, as in this project's own networks."""
BART = _reader("bart", False, {"final_norm": False} | _LEARNED, _bytes, {})
"""Norms after the embeddings and after each sub-layer, GELU (Lewis et al. 2020)."""
MBART = _reader("mbart", True, _LEARNED, partial(_one_model, family="mbart"), {})
"""As BART, with norms before each sub-layer and after each stack (Liu et al. 2020)."""
M2M100 = _reader(
    "m2m100",
    True,
    _FAIRSEQ,
    partial(_one_model, family="m2m100"),
    _PAD,
    bias=False,
    model_type="m2m_100",
)
"""M2M100 and NLLB: as Pegasus, with fairseq's positions and no bias on the logits."""
FSMT = _reader(
    "fsmt", False, {"final_norm": False} | _FAIRSEQ, _moses, _PAD, names=FSMT_NAMES, bias=False
)
"""fairseq's networks of WMT 2019 (Ng et al. 2019): a vocabulary and a table for each side."""
