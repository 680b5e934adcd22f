"""The TranslationRecord: one sentence's pass through a model, as frozen NumPy arrays.

Axes: L layers, H heads, S source tokens, T target tokens, D d_model, K alternatives.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

import numpy as np
from numpy.typing import ArrayLike

from core.config import DecodeConfig, ModelConfig
from core.files import write_atomic
from core.frozen import Bools, Floats, Frozen
from core.kinds import KINDS, Kind
from core.record.adapters.map_checks import NEED_WEIGHTS, ROW_LIMIT, imported_mask
from core.record.archive import Archive, archive, in_megabytes
from core.record.canonical import canonical_bytes
from core.record.card import card
from core.record.edits import Edits, Limits
from core.record.hidden_states import Activations
from core.record.limits import MAX_RECORD_MAPS, MAX_RECORD_TOKENS, MAX_RECORD_WEIGHTS
from core.record.parts import RecordCheck, RecordHypothesis, RecordToken
from core.record.softmax import unmasked_cells
from core.record.words import Words, group_words
from core.typed import characters, typed

if TYPE_CHECKING:
    import pandas as pd

_FORMAT = 2
_MAX_UNPACKED_BYTES = 256 << 20
_MAX_JSON_BYTES = 4 << 20
_HEADER = 256  # bytes, upper bound of a .npy header
# Axes of every array; each letter stands for one length throughout the record.
_AXES = {
    "encoder": "ehSS",  # the sides may have different numbers of heads
    "decoder": "dHTT",
    "cross": "dHTS",
    "encoder_mask": "SS",
    "decoder_mask": "TT",
    "cross_mask": "TS",
    "source_positions": "SD",
    "target_positions": "TD",
    "log_probs": "T",
    "alternative_log_probs": "TK",
}
# Axes of maps from another tool: layers and heads may differ by kind, and axes "0" are empty,
# because no network ran.
_IMPORTED_AXES = _AXES | {
    "encoder": "eESS",
    "decoder": "dDTT",
    "cross": "cCTS",
    "source_positions": "S0",
    "target_positions": "T0",
    "log_probs": "0",
    "alternative_log_probs": "T0",
}
_MAY_BE_EMPTY = {False: "K", True: "0eEdDcC"}  # key: whether the maps are imported
_FINITE = ("source_positions", "target_positions", "log_probs", "alternative_log_probs")
_ROUNDING = 1e-3  # nats by which rounding may lift a sum of log-probabilities above 0
_MAX_ALTERNATIVES = 100  # per step; the project records 5
_MAX_CHARACTERS = 1_000  # per token; the tokens of a tokenizer have at most 500
_NOT_JSON = {*_AXES, "activations"}
_MAX_ORIGIN = 60  # characters
_MAX_CREDIT = 1_100  # characters; an author and a licence of 500 each
_GIVEN_TARGET = "given target"
_EDITED = ", edited"


class _Checks(tuple[RecordCheck, ...]):
    """Checks together with `of`, the identity of the record that they belong to."""

    of: tuple[str, tuple[tuple[int, ...], ...]]


class Attention:
    """Attention weights by kind, layer and head, counted from 0; negative numbers count backwards.

    `attention["cross", 2, 0]` and `attention("cross", 2, 0)` are one head's [query, key];
    `attention["cross", 2]` is [head, query, key], and `attention["cross"]` all of a kind. Raises
    ValueError, in one line, for a kind, layer or head that does not exist.
    """

    def __init__(self, maps: dict[Kind, Floats]) -> None:
        self._maps = maps

    def __getitem__(self, where: str | tuple[Any, ...]) -> Floats:
        kind, *rest = where if isinstance(where, tuple) else (where,)
        weights = self._maps[_known(kind, KINDS, "kind")]
        if rest and not weights.size:
            raise ValueError(f"the record has no {kind} maps: they were not imported")
        for name, index, length in zip(("layer", "head"), rest, weights.shape, strict=False):
            if isinstance(index, int | np.integer) and not -length <= index < length:
                raise ValueError(
                    f"{kind} has no {name} {index}: counted from 0, they end at {length - 1}"
                )
        return weights[tuple(rest)]

    def __call__(self, kind: str, layer: int, head: int) -> Floats:
        return self[kind, layer, head]


def check_size(config: ModelConfig, source: int, target: int) -> None:
    """Raise ValueError, in one line, for more maps or weights than a record may hold.

    `source` and `target` are numbers of tokens.
    """
    decoder = config.num_decoder_layers * config.heads("decoder")
    encoder = config.num_encoder_layers * config.num_heads
    _check_size((encoder, decoder, decoder), source, target)


def _check_size(maps_by_kind: tuple[int, int, int], source: int, target: int) -> None:
    encoder, decoder, cross = maps_by_kind
    if (maps := sum(maps_by_kind)) > MAX_RECORD_MAPS:
        raise ValueError(f"{maps:,} maps are too many: the limit is {MAX_RECORD_MAPS:,}")
    weights = encoder * source**2 + decoder * target**2 + cross * target * source
    if weights > MAX_RECORD_WEIGHTS:
        raise ValueError(
            f"{maps:,} maps of {source} and {target} tokens hold {weights:,} weights: the limit is "
            f"{MAX_RECORD_WEIGHTS:,}, take a shorter sentence or a smaller network"
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class TranslationRecord(Frozen):
    """The result of one teacher-forced pass over (source, target), with read-only arrays.

    Maps are weights after softmax and before dropout, [layer, head, query, key]. Masks are [query,
    key], True = may attend. In decoder and cross-attention, row t is the query of target_in[t] and
    predicts target_out[t]. `alternatives[t]` are the most probable tokens at step t, best first.
    `decode` holds the settings of the search, or None for a given target. `edits` are the
    interventions on the pass and on the search before it; `lost_edits` marks a record from an older
    file that says that there were edits, but not which. `checks` are the results of
    core.record.checks; a modified copy of a checked record has none. `activations` are captured on
    request, and are neither saved nor part of `id`. Two records are equal if all parts that `id`
    covers are equal.

    `origin` names the tool that maps were imported from (`from_arrays` and the like), or is empty
    for a pass of this project's networks. An imported record may lack a kind (shape [0, 0, query,
    key]), and its kinds may differ in layers and heads. Its positions, log-probabilities,
    alternatives and hypotheses are empty. See `unchecked`.

    `credit` names the author and licence of weights that were not trained with this project;
    otherwise it is empty.

    Raises ValueError, in one line, for inconsistent axes, weights that are not probabilities, and
    non-finite numbers.
    """

    model: str
    weights_sha256: str
    source_language: str
    target_language: str
    decode: DecodeConfig | None
    source_text: str
    translation: str
    source: tuple[RecordToken, ...]
    target_in: tuple[RecordToken, ...]
    target_out: tuple[RecordToken, ...]
    encoder: Floats
    decoder: Floats
    cross: Floats
    encoder_mask: Bools
    decoder_mask: Bools
    cross_mask: Bools
    source_positions: Floats
    target_positions: Floats
    log_probs: Floats
    alternatives: tuple[tuple[RecordToken, ...], ...]
    alternative_log_probs: Floats
    hypotheses: tuple[RecordHypothesis, ...]
    checks: tuple[RecordCheck, ...] = ()
    activations: Activations | None = None
    edits: Edits = dataclasses.field(default_factory=Edits)
    lost_edits: bool = False
    origin: str = ""
    credit: str = ""

    @classmethod
    def from_arrays(
        cls,
        source: Sequence[str],
        target: Sequence[str],
        *,
        encoder: ArrayLike | None = None,
        decoder: ArrayLike | None = None,
        cross: ArrayLike | None = None,
        start: str = "<bos>",
        model: str = "",
        source_language: str = "Source",
        target_language: str = "Target",
    ) -> TranslationRecord:
        """Return a record of maps from another tool; see core.record.adapters.arrays."""
        from core.record.adapters.arrays import from_arrays

        maps: dict[Kind, Any] = {"encoder": encoder, "decoder": decoder, "cross": cross}
        languages = source_language, target_language
        return cls(**from_arrays(source, target, maps, start, model, languages))

    @classmethod
    def from_generate(
        cls,
        outputs: Any,
        tokenizer: Any,
        inputs: Any,
        *,
        index: int | None = None,
        source_tokenizer: Any = None,
        config: Any = None,
        model: str = "",
        source_language: str = "Source",
        target_language: str = "Target",
    ) -> TranslationRecord:
        """Return a record of a Hugging Face `generate` call; see core.record.adapters.generate."""
        from core.record.adapters.generate import from_generate

        languages = source_language, target_language
        given = outputs, tokenizer, inputs, index, source_tokenizer, config
        return cls(**from_generate(*given, model, languages))

    @classmethod
    def from_transformer_lens(
        cls,
        cache: Mapping[str, Any],
        tokens: tuple[Sequence[str], Sequence[str]],
        *,
        index: int | None = None,
        model: str = "",
        source_language: str = "Source",
        target_language: str = "Target",
    ) -> TranslationRecord:
        """Return a record of a TransformerLens cache; see core.record.adapters.transformer_lens."""
        from core.record.adapters.transformer_lens import from_transformer_lens

        languages = source_language, target_language
        return cls(**from_transformer_lens(cache, tokens, index, model, languages))

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check()
        of = getattr(self.checks, "of", None)
        if not self.checks or of == self._identity:
            return
        checks = _Checks(() if of else self.checks)
        checks.of = self._identity
        object.__setattr__(self, "checks", checks)

    def _check(self) -> None:
        self._check_axes()
        self._check_edits()
        for kind in KINDS:
            self._check_map(kind)
        self._check_values()
        if self.origin:
            self._check_imported()
            return
        shifted = [t.id for t in self.target_in[1:]] == [t.id for t in self.target_out[:-1]]
        if not shifted or self.target_in[0].piece != "<bos>":
            raise ValueError("target_in must be <bos> and target_out shifted right by one")
        if self.activations is not None:
            weights, masks = {k: self.maps(k) for k in KINDS}, {k: self.mask(k) for k in KINDS}
            self.activations.check(weights, masks, self.edits)

    def _check_axes(self) -> None:
        lengths = {"S": len(self.source), "T": len(self.target_in)}
        if not len(self.target_in) == len(self.target_out) == len(self.alternatives):
            raise ValueError("target_in, target_out and alternatives differ in length")
        lengths["0"] = 0
        may_be_empty = _MAY_BE_EMPTY[bool(self.origin)]
        for name, axes in (_IMPORTED_AXES if self.origin else _AXES).items():
            array = getattr(self, name)
            dtype = np.bool_ if name.endswith("mask") else np.float32
            if array.dtype != dtype or array.ndim != len(axes):
                raise ValueError(
                    f"{name} is {array.dtype} {array.shape}, not {dtype.__name__} {axes}"
                )
            for axis, length in zip(axes, array.shape, strict=True):
                if lengths.setdefault(axis, length) != length:
                    raise ValueError(f"{name} {array.shape}: axis {axis} should be {lengths[axis]}")
                if length == 0 and axis not in may_be_empty:
                    raise ValueError(f"{name} {array.shape}: axis {axis} is empty")
        for side, axis in (("source", "S"), ("target", "T")):
            if lengths[axis] > MAX_RECORD_TOKENS:
                raise ValueError(
                    f"{lengths[axis]} tokens of the {side} are too many: "
                    f"the limit is {MAX_RECORD_TOKENS}"
                )
        encoder, decoder, cross = (math.prod(self.maps(kind).shape[:2]) for kind in KINDS)
        _check_size((encoder, decoder, cross), lengths["S"], lengths["T"])
        alternatives = lengths.get("K", 0)
        if alternatives > _MAX_ALTERNATIVES:
            raise ValueError(
                f"{alternatives:,} alternatives at each step are too many: the limit is "
                f"{_MAX_ALTERNATIVES}"
            )
        if any(len(row) != alternatives for row in self.alternatives):
            raise ValueError(f"alternatives: axis K should be {alternatives} at each step")

    def _check_imported(self) -> None:
        """Check that nothing in the record needs a network, and that masks follow from maps."""
        for kind in KINDS:
            if not self.has(kind) and any(self.maps(kind).shape[:2]):
                raise ValueError(f"{kind} has layers without heads, or heads without layers")
            expected = imported_mask(kind, self.maps(kind))
            if not np.array_equal(self.mask(kind), expected):
                raise ValueError(f"{kind}_mask does not follow from its maps")
        if not any(map(self.has, KINDS)):
            raise ValueError("imported maps: there is no map of any kind")
        claims = (self.weights_sha256, self.hypotheses, self.decode, self.edited, self.activations)
        if any(claims):
            raise ValueError("imported maps cannot have a network, a search, edits or activations")
        if self.target_in[1:] != self.target_out[:-1]:
            raise ValueError("target_out must be target_in shifted by one token")

    def _check_edits(self) -> None:
        shape = len(self.encoder), len(self.decoder), self.encoder.shape[1]
        limits = Limits(
            *(*shape, MAX_RECORD_TOKENS, len(self.source)), decoder_heads=self.decoder.shape[1]
        )
        _, problems = self.edits.fitting(limits)
        if problems:
            raise ValueError(problems[0])

    def _check_map(self, kind: Kind) -> None:
        weights, mask = self.maps(kind), self.mask(kind)
        if not np.isfinite(weights).all() or weights.min(initial=0) < 0:
            raise ValueError(f"{kind} holds weights that are not probabilities")
        if np.any(weights[..., ~mask]):
            raise ValueError(f"{kind} has a masked cell that is not exactly 0")
        rows = unmasked_cells(weights.shape, mask, kind, self.edits).any(-1)
        limit = ROW_LIMIT if self.origin else 1e-5
        if np.abs(weights.sum(-1)[rows] - 1).max(initial=0) > limit:
            raise ValueError(f"{kind} has a row that does not sum to 1")

    def _check_values(self) -> None:
        for name in _FINITE:
            values = getattr(self, name)
            if not np.isfinite(values).all():
                raise ValueError(f"{name} holds a number that is not finite")
            if name.endswith("log_probs") and values.max(initial=0) > _ROUNDING:
                raise ValueError(f"{name} holds a value above 0, which is not a log-probability")
        for token in (*self.source, *self.target_in, *self.target_out, *chain(*self.alternatives)):
            if (length := max(len(token.piece), len(token.text))) > _MAX_CHARACTERS:
                raise ValueError(
                    f"a token of {length:,} characters is too long: the limit is "
                    f"{_MAX_CHARACTERS:,}"
                )
        for hypothesis in self.hypotheses:
            numbers = hypothesis.log_prob, hypothesis.score
            if not all(map(math.isfinite, numbers)) or hypothesis.log_prob > _ROUNDING:
                raise ValueError("a hypothesis has a log-probability or score out of range")

    @property
    def edited(self) -> bool:
        """Whether the pass ran under edits, even if an older file has lost them."""
        return self.lost_edits or self.edits != Edits()

    @property
    def search(self) -> str:
        """A label for the search, such as "greedy", "beam 5, edited" or "given target".

        For imported maps it names their origin.
        """
        if self.origin:
            return f"maps from {self.origin}"
        label = _GIVEN_TARGET if self.decode is None else self.decode.label
        return label + (_EDITED if self.edited else "")

    def __repr__(self) -> str:
        passed = sum(check.passed for check in self.checks)
        more = f", {len(self.unchecked)} need the weights" if self.origin else ""
        return (
            f"TranslationRecord({_short(self.source_text)} → {_short(self.translation)}, "
            f"{self._facts()}, checks: {passed} of {len(self.checks)} passed{more})"
        )

    def _repr_html_(self) -> str:
        """Show texts, model and checks in a notebook."""
        texts = ((self.source_language, self.source_text), (self.target_language, self.translation))
        checks = [(check.name, check.passed) for check in self.checks]
        return card(texts, self._facts(), checks, self.unchecked)

    def _facts(self) -> str:
        if self.origin:
            depths = (
                f"{kind} {layers} × {heads}" if self.has(kind) else f"no {kind}"
                for kind, (layers, heads) in ((k, self.maps(k).shape[:2]) for k in KINDS)
            )
            tokens = f"{len(self.source)} → {len(self.target_out)} tokens"
            named = [tokens, self.model_title, self.search[:60], *depths]
            return ", ".join(filter(None, named)) + " (layers × heads)"
        (encoder, heads), (decoder, others) = self.encoder.shape[:2], self.decoder.shape[:2]
        all_heads = f"{heads}" if heads == others else f"{heads} + {others}"
        return (
            f"{len(self.source)} → {len(self.target_out)} tokens, {self.model_title}, "
            f"{self.search[:60]}, {encoder} + {decoder} layers, {all_heads} heads"
        )

    @property
    def model_title(self) -> str:
        """The model's name, followed by the credit of imported weights in parentheses."""
        return f"{self.model[:80]} ({self.credit})" if self.credit else self.model[:80]

    def has(self, kind: str) -> bool:
        """Return whether the record has maps of a kind; only imported records may lack a kind.

        Raises ValueError for an unknown kind.
        """
        return self.maps(kind).size > 0

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The names of the checks that cannot run, because the maps came without the weights."""
        return NEED_WEIGHTS if self.origin else ()

    def maps(self, kind: str) -> Floats:
        """Return the weights of a kind, [layer, head, query, key].

        Raises ValueError for an unknown kind.
        """
        return getattr(self, _known(kind, KINDS, "kind"))

    @property
    def attention(self) -> Attention:
        """Weights by kind, layer and head: `attention["cross", 2, 0]` is [query, key].

        It can also be called: `attention("cross", 2, 0)`. See `Attention`.
        """
        return Attention({kind: self.maps(kind) for kind in KINDS})

    def words(self, side: str) -> Words:
        """Return the words of "source", "target_in" or "target": the positions of their tokens.

        Punctuation and special tokens are words by themselves. Raises ValueError for an unknown
        side.
        """
        return group_words(self._side(side))

    def entropy(self, kind: str) -> Floats:
        """Return the entropy of each row of attention weights, in bits: [layer, head, query].

        Raises ValueError for an unknown kind.
        """
        weights = self.maps(kind).astype(np.float64)
        logs = np.log2(weights, out=np.zeros_like(weights), where=weights > 0)
        return np.maximum(0, -(weights * logs).sum(-1)).astype(np.float32)

    def tokens(self, side: str) -> list[str]:
        """Return the displayed tokens of "source", "target_in" (fed in) or "target" (produced).

        Raises ValueError for an unknown side.
        """
        return [token.text for token in self._side(side)]

    def _side(self, side: str) -> tuple[RecordToken, ...]:
        sides = {"source": self.source, "target": self.target_out, "target_in": self.target_in}
        return sides[_known(side, tuple(sides), "side")]

    def to_dataframe(self, kind: str) -> pd.DataFrame:
        """Return one row per cell.

        Columns: layer head query key query_token produced_token key_token weight. Indices are
        counted from 0. `query_token` is the token fed in, `produced_token` the one that this row
        predicts, empty in the encoder. Masked cells are included with weight 0; see `mask`. Raises
        ValueError for an unknown kind.
        """
        import pandas as pd

        weights = self.maps(_known(kind, KINDS, "kind"))
        rows = self.tokens("source" if kind == "encoder" else "target_in")
        produced = [""] * len(rows) if kind == "encoder" else self.tokens("target")
        columns = self.tokens("target_in" if kind == "decoder" else "source")
        layer, head, query, key = (axis.ravel() for axis in np.indices(weights.shape))
        return pd.DataFrame(
            {
                "layer": layer,
                "head": head,
                "query": query,
                "key": key,
                "query_token": np.array(rows, object)[query],
                "produced_token": np.array(produced, object)[query],
                "key_token": np.array(columns, object)[key],
                "weight": weights.ravel(),
            }
        )

    def mask(self, kind: str) -> Bools:
        """Return the mask of a kind, [query, key], True = may attend.

        Raises ValueError for an unknown kind.
        """
        return getattr(self, f"{_known(kind, KINDS, 'kind')}_mask")

    @property
    def log_prob(self) -> float:
        """Log-probability of the whole target, in nats. Raises ValueError for imported maps."""
        if self.origin:
            raise ValueError("imported maps have no log-probabilities: these need the network")
        return float(self.log_probs.sum())

    @property
    def forced(self) -> int:
        """How many tokens at the start of the target the network did not choose: 0 or 1.

        A language's token or <s> is there by force; <eos>, <unk> and T5's <extra_id_0> are not.
        """
        first = self.target_out[0]
        named = first.text == "<s>" or not first.text.startswith("<")
        return int(not self.origin and first.special and named)

    @cached_property
    def id(self) -> str:
        """A hash of metadata and numbers, without check results, as 16 hexadecimal digits.

        It is the start of the SHA-256 of `canonical_bytes` of the metadata and each array's bytes.
        """
        return self._identity[0][:16]

    @cached_property
    def _identity(self) -> tuple[str, tuple[tuple[int, ...], ...]]:
        """The full SHA-256 behind `id`, and the shapes: two records are equal if these are."""
        metadata = {name: value for name, value in self._metadata().items() if name != "checks"}
        digest = hashlib.sha256(canonical_bytes(metadata))
        for name in _AXES:
            digest.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        return digest.hexdigest(), tuple(getattr(self, name).shape for name in _AXES)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TranslationRecord):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def _metadata(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON values."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        plain = {name: v for name, v in values.items() if name not in _NOT_JSON}
        for name in ("source", "target_in", "target_out", "hypotheses", "checks"):
            plain[name] = [_as_dict(item) for item in plain[name]]
        plain["alternatives"] = [[_as_dict(token) for token in row] for row in self.alternatives]
        text = plain.pop("edits").to_text()
        del plain["decode"], plain["lost_edits"]
        for name in ("origin", "credit"):
            if not plain[name]:
                del plain[name]
        return plain | {"search": self.search} | ({"edits": text} if text else {})

    def to_bytes(self) -> bytes:
        """Serialise as NPZ: the arrays by name, and the rest as JSON; no pickle.

        Raises ValueError for a result that `load` would reject.
        """
        self._check()
        metadata = json.dumps({"format": _FORMAT, **self._metadata()}).encode()
        if len(metadata) + _HEADER > _MAX_JSON_BYTES:
            raise ValueError(
                f"its texts take more than {in_megabytes(_MAX_JSON_BYTES)}, the limit of a file"
            )
        arrays: dict[str, Any] = {"words": np.frombuffer(metadata, np.uint8)}
        arrays |= {name: getattr(self, name) for name in _AXES}
        total = sum(array.nbytes + _HEADER for array in arrays.values())
        if total > _MAX_UNPACKED_BYTES:
            raise ValueError(
                f"it takes {total / 1e6:,.0f} MB, the limit of a file is "
                f"{in_megabytes(_MAX_UNPACKED_BYTES)}"
            )
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        return buffer.getvalue()

    def save(self, file: Path | str | BinaryIO) -> None:
        """Write `to_bytes` to a file atomically, or to an open binary stream."""
        content = self.to_bytes()
        if not isinstance(file, Path | str):
            file.write(content)
        elif (path := Path(file)).exists() and not path.is_file():
            path.write_bytes(content)  # a pipe or a device
        else:
            write_atomic(path.resolve(), content)

    @classmethod
    def load(cls, file: Path | str | BinaryIO) -> TranslationRecord:
        """Read and validate a file written by `save`.

        Raises a one-line ValueError for any other file. Sizes are checked before anything is
        unpacked: at most 256 MB, 512 tokens per side, MAX_RECORD_MAPS and MAX_RECORD_WEIGHTS.
        """
        remedy = "choose an .npz file that was saved here"
        limits = _MAX_UNPACKED_BYTES, _MAX_UNPACKED_BYTES
        with archive(file, "a saved record", remedy, *limits) as members:
            metadata = _read_metadata(members)
            _check_shapes(members, bool(metadata["origin"]))
            return cls(**metadata, **{name: members.array(name, *_spec(name)) for name in _AXES})


def _known(name: Any, names: tuple[Any, ...], what: str) -> Any:
    if name not in names:
        raise ValueError(f"unknown {what} {name!r}: choose {', '.join(names[:-1])} or {names[-1]}")
    return name


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 100 else f"{shown[:98]}…{shown[0]}"


def _as_dict(part: RecordToken | RecordHypothesis | RecordCheck) -> dict[str, Any]:
    """Convert a part to a dict, shallowly, which is faster than `dataclasses.asdict`."""
    return {name: getattr(part, name) for name in part.__slots__}


@dataclass(frozen=True)
class _Saved:
    """The JSON in a saved record. `edits`, `origin` and `credit` are absent if empty."""

    format: Literal[2]
    model: str
    weights_sha256: str
    source_language: str
    target_language: str
    search: str
    source_text: str
    translation: str
    source: tuple[RecordToken, ...]
    target_in: tuple[RecordToken, ...]
    target_out: tuple[RecordToken, ...]
    alternatives: tuple[tuple[RecordToken, ...], ...]
    hypotheses: tuple[RecordHypothesis, ...]
    checks: tuple[RecordCheck, ...]
    edits: str | None = None
    origin: Annotated[str, characters(1, _MAX_ORIGIN)] = ""
    credit: Annotated[str, characters(0, _MAX_CREDIT)] = ""


def _read_metadata(members: Archive) -> dict[str, Any]:
    """Read everything but the arrays."""
    # finite=False: the figure of a failed check may be NaN or infinite.
    saved: _Saved = typed(
        _Saved, members.json("words", _MAX_JSON_BYTES, finite=False), "its metadata"
    )
    metadata = {n: v for n, v in vars(saved).items() if n not in ("format", "search")}
    metadata["edits"], problems = Edits.parse(saved.edits or "")
    if problems:  # the maps depend on them
        raise ValueError(f"its edits cannot be read: {problems[0]}")
    if saved.origin:
        if saved.search != f"maps from {saved.origin}" or saved.edits:
            raise ValueError("imported maps have no search and no edits")
        return metadata | {"decode": None}
    metadata["decode"], edited = _read_search(saved.search)
    if saved.edits and not edited:
        raise ValueError(f"it holds edits, but its search does not end with {_EDITED!r}")
    return metadata | {"lost_edits": edited and not saved.edits}


def _read_search(label: str) -> tuple[DecodeConfig | None, bool]:
    """Parse a saved label into the settings of the search, and whether the pass was edited."""
    settings = label.removesuffix(_EDITED)
    if settings == _GIVEN_TARGET:
        return None, settings != label
    return DecodeConfig.from_label(settings), settings != label


def _spec(name: str) -> tuple[list[type], int]:
    """Return the allowed types and the number of axes of an array."""
    return [np.bool_ if name.endswith("mask") else np.float32], len(_AXES[name])


def _check_shapes(members: Archive, imported: bool) -> None:
    """Reject oversized arrays by their headers, before unpacking."""
    shapes = {name: members.shape(name, *_spec(name)) for name in _AXES}
    for name, shape in shapes.items():
        axes = (_IMPORTED_AXES if imported else _AXES)[name]
        for axis, length in zip(axes, shape, strict=True):
            if axis in "ST" and length > MAX_RECORD_TOKENS:
                raise ValueError(
                    f"{length:,} tokens are too many, the limit is {MAX_RECORD_TOKENS}"
                )
    weights = sum(math.prod(shapes[kind]) for kind in KINDS)
    maps = sum(math.prod(shapes[kind][:2]) for kind in KINDS)
    for what, count, limit in (
        ("weights", weights, MAX_RECORD_WEIGHTS),
        ("maps", maps, MAX_RECORD_MAPS),
    ):
        if count > limit:
            raise ValueError(f"it holds {count:,} {what}, the limit is {limit:,}")
