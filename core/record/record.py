"""The TranslationRecord: one sentence's whole pass through a model, frozen, in numpy only.

Axes: L layers, H heads, S source tokens, T target tokens, D d_model, K alternatives.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from core.record.card import card
from core.record.edits import Edits, Kind, Limits
from core.record.hidden_states import Activations, frozen
from core.record.softmax import open_cells

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

MAX_RECORD_TOKENS = 512
"""Of either side: as many as are drawn, sent to a page and read from a file."""

_FORMAT = 2
_MAX_UNPACKED_BYTES = 256 << 20
_MAX_WORDS_BYTES = 4 << 20
# Axes of every array; a letter stands for one length throughout the record.
_AXES = {
    "encoder": "eHSS",
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
_NOT_WORDS = {*_AXES, "activations"}
_KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
EDITED = ", edited"
"""What a record's `search` ends with if it was made under edits."""


@dataclass(frozen=True, slots=True)
class RecordToken:
    """One token: its id, the vocabulary's entry, and the text to show (see core.text.tokenizer)."""

    id: int
    piece: str
    text: str
    starts_word: bool
    special: bool
    unknown: bool


@dataclass(frozen=True, slots=True)
class RecordHypothesis:
    """One finished hypothesis of the search, in nats; `score` is after the length penalty."""

    text: str
    ids: tuple[int, ...]
    log_prob: float
    score: float


@dataclass(frozen=True, slots=True)
class RecordCheck:
    """One thing that must hold for the picture to be true, checked outside the model.

    `figure` is the largest difference found, or how many things are wrong; `words` say of what.
    """

    name: str
    passed: bool
    figure: float
    limit: float
    words: str

    def __post_init__(self) -> None:
        if self.passed != (self.figure <= self.limit):
            raise ValueError(f"{self.name}: {self.figure} of {self.limit} is not {self.passed}")


@dataclass(frozen=True, eq=False, kw_only=True)
class TranslationRecord:
    """What one teacher-forced pass over (source, target) showed; arrays are read-only.

    Maps are weights after softmax and before dropout, [layer, head, query, key]; masks say True =
    may attend. Decoder and cross row t is the query of target_in[t] and predicts target_out[t].
    `alternatives[t]` are the likeliest tokens at step t, best first, with their log-probabilities.
    `edits` are what the pass, and the search before it, ran under; `search` then ends with
    ", edited", also in older files, which do not hold the edits. `checks` are what
    core.record.checks found; a record that nobody checked has none. `activations` are there where
    they were asked for; they are no part of `id`, and are not saved.
    """

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

    def __post_init__(self) -> None:
        self._check_axes()
        self._check_edits()
        for kind in _KINDS:
            self._check_map(kind)
        moved = [t.id for t in self.target_in[1:]] == [t.id for t in self.target_out[:-1]]
        if not moved or self.target_in[0].piece != "<bos>":
            raise ValueError("target_in is not target_out moved one place: rows would lie")
        for name in _AXES:
            object.__setattr__(self, name, frozen(getattr(self, name)))
        if self.activations is not None:
            weights, masks = {k: self.maps(k) for k in _KINDS}, {k: self.mask(k) for k in _KINDS}
            self.activations.check(weights, masks, self.edits)

    def _check_axes(self) -> None:
        lengths = {"S": len(self.source), "T": len(self.target_in)}
        if not len(self.target_in) == len(self.target_out) == len(self.alternatives):
            raise ValueError("target_in, target_out and alternatives differ in length")
        for name, axes in _AXES.items():
            array = getattr(self, name)
            dtype = np.bool_ if name.endswith("mask") else np.float32
            if array.dtype != dtype or array.ndim != len(axes):
                raise ValueError(
                    f"{name} is {array.dtype} {array.shape}, not {dtype.__name__} {axes}"
                )
            for axis, length in zip(axes, array.shape, strict=True):
                if lengths.setdefault(axis, length) != length:
                    raise ValueError(f"{name} {array.shape}: axis {axis} should be {lengths[axis]}")
                if length == 0 and axis != "K":  # a record may name no alternatives
                    raise ValueError(f"{name} {array.shape}: axis {axis} is empty")
        for side, axis in (("source", "S"), ("target", "T")):
            if lengths[axis] > MAX_RECORD_TOKENS:
                raise ValueError(
                    f"{lengths[axis]} tokens of the {side} are too many: "
                    f"the limit is {MAX_RECORD_TOKENS}"
                )
        if any(len(row) != lengths["K"] for row in self.alternatives):
            raise ValueError(f"alternatives: axis K should be {lengths['K']} at each step")

    def _check_edits(self) -> None:
        if self.edits != Edits() and not self.search.endswith(EDITED):
            raise ValueError(f"it holds edits, but its search does not end with {EDITED!r}")
        shape = len(self.encoder), len(self.decoder), self.encoder.shape[1]
        _, problems = self.edits.fitting(Limits(*shape, MAX_RECORD_TOKENS, len(self.source)))
        if problems:
            raise ValueError(problems[0])

    def _check_map(self, kind: Kind) -> None:
        weights, mask = self.maps(kind), self.mask(kind)
        if not np.isfinite(weights).all() or weights.min() < 0:
            raise ValueError(f"{kind} holds weights that are no probabilities")
        if np.any(weights[..., ~mask]):
            raise ValueError(f"{kind} has a masked cell that is not exactly 0")
        rows = open_cells(weights.shape, mask, kind, self.edits).any(-1)
        if np.abs(weights.sum(-1)[rows] - 1).max(initial=0) > 1e-5:
            raise ValueError(f"{kind} has a row that does not sum to 1")

    @property
    def edited(self) -> bool:
        """Whether it was made under edits: `edits`, or such as an older file does not hold."""
        return self.search.endswith(EDITED)

    def __repr__(self) -> str:
        passed = sum(check.passed for check in self.checks)
        return (
            f"TranslationRecord({_short(self.source_text)} → {_short(self.translation)}, "
            f"{self._facts()}, checks: {passed} of {len(self.checks)} passed)"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows of the record: texts, model and checks; no map."""
        texts = (
            (self.source_language, self.source_text),
            (self.target_language, self.translation),
        )
        return card(texts, self._facts(), [(check.name, check.passed) for check in self.checks])

    def _facts(self) -> str:
        (encoder, heads), decoder = self.encoder.shape[:2], len(self.decoder)
        return (
            f"{len(self.source)} → {len(self.target_out)} tokens, {self.model[:80]}, "
            f"{self.search[:60]}, {encoder} + {decoder} layers, {heads} heads"
        )

    def maps(self, kind: str) -> Floats:
        """The weights of a kind, [layer, head, query, key]."""
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}[kind]

    def attention(self, kind: str, layer: int, head: int) -> Floats:
        """The weights of one head, [query, key]; layers and heads are counted from 0.

        Raises ValueError, in one line, for a kind, layer or head that is not there.
        """
        weights = self.maps(_known(kind, ("encoder", "decoder", "cross"), "kind"))
        for name, place, length in zip(
            ("layer", "head"), (layer, head), weights.shape, strict=False
        ):
            if not 0 <= place < length:
                raise ValueError(
                    f"{kind} has no {name} {place}: counted from 0, they end at {length - 1}"
                )
        return weights[layer, head]

    def tokens(self, side: str) -> list[str]:
        """The tokens of "source", of "target_in" (fed in) or of "target" (produced), as shown.

        Raises ValueError for another side.
        """
        sides = {"source": self.source, "target": self.target_out, "target_in": self.target_in}
        return [token.text for token in sides[_known(side, tuple(sides), "side")]]

    def to_dataframe(self, kind: str) -> pd.DataFrame:
        """One row a cell: layer head query key query_token produced_token key_token weight.

        All are counted from 0. `query_token` is what was read or, in the decoder, fed in;
        `produced_token` is what came out of that row, and empty in the encoder. Masked cells are
        there with weight 0; `mask` tells them from unused ones. Raises ValueError for another kind.
        """
        import pandas as pd

        weights = self.maps(_known(kind, ("encoder", "decoder", "cross"), "kind"))
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
        """The mask of a kind, [query, key], True = may attend."""
        masks = {
            "encoder": self.encoder_mask,
            "decoder": self.decoder_mask,
            "cross": self.cross_mask,
        }
        return masks[kind]

    @property
    def log_prob(self) -> float:
        """Log-probability of the whole target, in nats."""
        return float(self.log_probs.sum())

    @cached_property
    def id(self) -> str:
        """A name for exactly this picture: 16 hexadecimal digits over all that was recorded.

        What was found when the picture was checked is no part of it.
        """
        words = {name: value for name, value in self._words().items() if name != "checks"}
        digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
        for name in _AXES:
            digest.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        return digest.hexdigest()[:16]

    def _words(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        plain = {name: v for name, v in values.items() if name not in _NOT_WORDS}
        for name in ("source", "target_in", "target_out", "hypotheses", "checks"):
            plain[name] = [_named(item) for item in plain[name]]
        plain["alternatives"] = [[_named(token) for token in row] for row in self.alternatives]
        text = plain.pop("edits").to_text()
        return plain | ({"edits": text} if text else {})

    def to_bytes(self) -> bytes:
        """One NPZ: the arrays by name, and the words as JSON; it holds no pickle."""
        words = np.frombuffer(json.dumps({"format": _FORMAT, **self._words()}).encode(), np.uint8)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, words=words, **{name: getattr(self, name) for name in _AXES})
        return buffer.getvalue()

    def save(self, file: Path | str) -> None:
        """Write `to_bytes` to a file."""
        Path(file).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, file: Path | str | BinaryIO) -> TranslationRecord:
        """Read what `to_bytes` wrote, checked again.

        Raises ValueError, one line, for whatever is no such file. Sizes are looked at before
        anything is unpacked: at most 256 MB, and 512 tokens on either side.
        """
        name = getattr(file, "name", file if isinstance(file, Path | str) else "the file")
        try:
            with zipfile.ZipFile(file) as archive:
                words = _read_words(archive)
                values = {array: _read_array(archive, array) for array in _AXES}
            return cls(**words, **values)
        except ValueError as error:
            reason = str(error)
        except OSError as error:
            reason = error.strerror or "it cannot be read"
        except Exception:  # whatever a stranger's file makes of the libraries that unpack it
            reason = "it is of another kind, or damaged"
        raise ValueError(
            f"{name} is not a saved record ({' '.join(reason.split())[:300]}): "
            "choose an .npz file that was saved here"
        )


def _known(name: str, names: tuple[str, ...], what: str) -> str:
    if name not in names:
        raise ValueError(f"unknown {what} {name!r}: choose {', '.join(names[:-1])} or {names[-1]}")
    return name


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 100 else f"{shown[:98]}…{shown[0]}"


def _named(part: RecordToken | RecordHypothesis | RecordCheck) -> dict[str, Any]:
    """The values of a part by their names; `dataclasses.asdict` copies each, which takes longer."""
    return {name: getattr(part, name) for name in part.__slots__}


def _read_words(archive: zipfile.ZipFile) -> dict[str, Any]:
    """All that is no array, after a look at what the whole archive would unpack to."""
    sizes = {info.filename: info.file_size for info in archive.infolist()}
    if len(sizes) != len(archive.infolist()) or "words.npy" not in sizes:
        raise ValueError("it holds no record")
    if (total := sum(sizes.values())) > _MAX_UNPACKED_BYTES:
        raise ValueError(
            f"it unpacks to {total / 1e6:,.0f} MB, the limit is {_MAX_UNPACKED_BYTES >> 20} MB"
        )
    if sizes["words.npy"] > _MAX_WORDS_BYTES:
        raise ValueError(f"its words take more than {_MAX_WORDS_BYTES >> 20} MB")
    try:
        words = json.loads(_read_npy(archive, "words", np.uint8, "N").tobytes())
    except (ValueError, RecursionError):
        raise ValueError("its words cannot be read") from None
    if not isinstance(words, dict) or "format" not in words:
        raise ValueError("its words do not say in which format it was saved")
    if (saved := words.pop("format")) != _FORMAT:
        raise ValueError(f"it was saved in format {str(saved)[:20]}, and not in format {_FORMAT}")
    edits = words.pop("edits", None)  # only an edited record holds them
    expected = {f.name for f in dataclasses.fields(TranslationRecord)} - _NOT_WORDS - {"edits"}
    if odd := sorted(expected ^ set(words)):
        raise ValueError(f"missing or unknown: {', '.join(odd[:5])}")
    for name in ("source", "target_in", "target_out"):
        words[name] = _read_list(words, name, RecordToken)
    rows = {str(t): row for t, row in enumerate(_listed(words, "alternatives"))}
    words["alternatives"] = tuple(_read_list(rows, t, RecordToken) for t in rows)
    words["hypotheses"] = _read_list(words, "hypotheses", RecordHypothesis)
    words["checks"] = _read_list(words, "checks", RecordCheck)
    for name, value in words.items():
        if not isinstance(value, tuple | str):
            raise ValueError(f"{name} is not a text")
    if edits is not None:
        words["edits"] = _read_edits(edits)
    return words


def _read_edits(text: Any) -> Edits:
    """A record's edits, all of them: one left out would make its maps another pass's."""
    if not isinstance(text, str):
        raise ValueError("edits is not a text")
    edits, problems = Edits.parse(text)
    if problems:
        raise ValueError(f"its edits cannot be read: {problems[0]}")
    return edits


def _listed(words: dict[str, Any], name: str) -> list:
    if not isinstance(words[name], list):
        raise ValueError(f"{name} is not a list")
    return words[name]


def _read_list(
    words: dict[str, Any], name: str, kind: type[RecordToken | RecordHypothesis | RecordCheck]
) -> tuple:
    """One part of a record from JSON, each of its fields of the type that the class names."""
    types = {f.name: f.type for f in dataclasses.fields(kind)}
    found = []
    for item in _listed(words, name):
        if not isinstance(item, dict) or set(item) != set(types):
            raise ValueError(f"{name} has an item that is no {kind.__name__}")
        values = dict(item)
        for field, type_name in types.items():
            if type_name == "tuple[int, ...]" and isinstance(values[field], list):
                values[field] = tuple(values[field])
            if not _IS[type_name](values[field]):
                raise ValueError(f"{name} has a {field} that is no {type_name}")
        found.append(kind(**values))
    return tuple(found)


def _is_int(value: Any) -> bool:
    """JSON bounds no number; what no double holds exactly is no id, and would overflow later."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 1 << 53


_IS: dict[Any, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int": _is_int,
    "float": lambda value: isinstance(value, float) or _is_int(value),
    "tuple[int, ...]": lambda value: isinstance(value, tuple) and all(map(_is_int, value)),
}


def _read_array(archive: zipfile.ZipFile, name: str) -> NDArray:
    dtype = np.bool_ if name.endswith("mask") else np.float32
    return _read_npy(archive, name, dtype, _AXES[name])


def _read_npy(archive: zipfile.ZipFile, name: str, dtype: type, axes: str) -> NDArray:
    """One array of an archive, refused by its header before its numbers are unpacked.

    numpy.load would make room for whatever the header says, and speak of unsafe ways to read.
    """
    try:
        with archive.open(f"{name}.npy") as stream:
            if np.lib.format.read_magic(stream) != (1, 0):
                raise ValueError
            shape, by_column, found = np.lib.format.read_array_header_1_0(stream)
            size, room = math.prod(shape), archive.getinfo(f"{name}.npy").file_size
            if found != dtype or len(shape) != len(axes) or size * found.itemsize > room:
                raise ValueError
            for axis, length in zip(axes, shape, strict=True):
                if axis in "ST" and length > MAX_RECORD_TOKENS:
                    raise _TooManyTokensError(
                        f"{length:,} tokens are too many, the limit is {MAX_RECORD_TOKENS}"
                    )
            content = stream.read(size * found.itemsize)
            return np.ndarray(shape, found, content, order="F" if by_column else "C")
    except _TooManyTokensError:
        raise
    except Exception:
        raise ValueError(f"{name} is missing or no array of the right kind") from None


class _TooManyTokensError(ValueError):
    """More tokens than a record holds."""
