"""The TranslationRecord: one sentence's whole pass through a model, frozen, in numpy only.

Axes: L layers, H heads, S source tokens, T target tokens, D d_model, K alternatives.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import io
import json
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

_FORMAT = 2
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
    `checks` are what core.check found; a record that nobody checked has none.
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

    def __post_init__(self) -> None:
        self._check_axes()
        for kind in ("encoder", "decoder", "cross"):
            self._check_map(kind)
        moved = [t.id for t in self.target_in[1:]] == [t.id for t in self.target_out[:-1]]
        if not moved or self.target_in[0].piece != "<bos>":
            raise ValueError("target_in is not target_out moved one place: rows would lie")
        for name in _AXES:
            getattr(self, name).flags.writeable = False

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

    def _check_map(self, kind: str) -> None:
        weights, mask = self.maps(kind), self.mask(kind)
        if not np.isfinite(weights).all() or weights.min() < 0:
            raise ValueError(f"{kind} holds weights that are no probabilities")
        if np.any(weights[..., ~mask]):
            raise ValueError(f"{kind} has a masked cell that is not exactly 0")
        if np.abs(weights.sum(-1)[..., mask.any(-1)] - 1).max() > 1e-5:
            raise ValueError(f"{kind} has a row that does not sum to 1")

    def maps(self, kind: str) -> Floats:
        """The weights of a kind, [layer, head, query, key]."""
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}[kind]

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
        plain = {name: v for name, v in values.items() if name not in _AXES}
        for name in ("source", "target_in", "target_out", "hypotheses", "checks"):
            plain[name] = [dataclasses.asdict(item) for item in plain[name]]
        plain["alternatives"] = [[dataclasses.asdict(t) for t in row] for row in self.alternatives]
        return plain

    def to_bytes(self) -> bytes:
        """One NPZ: the arrays by name, and the words as JSON; it holds no pickle."""
        words = np.frombuffer(json.dumps({"format": _FORMAT, **self._words()}).encode(), np.uint8)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, words=words, **{name: getattr(self, name) for name in _AXES})
        return buffer.getvalue()

    def save(self, file: Path | str) -> None:
        """Write `to_bytes` to a file."""
        Path(file).write_bytes(self.to_bytes())

    def show(self) -> Any:
        """The explorer, drawn where a notebook shows the value; `.save(file)` keeps the page."""
        # By name and only when asked: core itself knows of no screen.
        return importlib.import_module("app.export.page").Drawing(self)

    @classmethod
    def load(cls, file: Path | str | BinaryIO) -> TranslationRecord:
        """Read what `to_bytes` wrote, checked again. Raises ValueError if it is no such file."""
        try:
            with np.load(file, allow_pickle=False) as arrays:
                words = json.loads(arrays["words"].tobytes())
                values = {name: arrays[name] for name in _AXES}
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{file} is not a saved record: {error}") from None
        if words.pop("format") != _FORMAT:
            raise ValueError(f"{file} was saved in another format than {_FORMAT}")
        for name in ("source", "target_in", "target_out"):
            words[name] = tuple(RecordToken(**token) for token in words[name])
        words["alternatives"] = tuple(
            tuple(RecordToken(**token) for token in row) for row in words["alternatives"]
        )
        words["hypotheses"] = tuple(
            RecordHypothesis(**{**h, "ids": tuple(h["ids"])}) for h in words["hypotheses"]
        )
        words["checks"] = tuple(RecordCheck(**check) for check in words["checks"])
        return cls(**words, **values)
