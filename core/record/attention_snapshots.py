"""Attention snapshots of a training run, as frozen NumPy arrays.

Axes: P points of the run, L layers, H heads, Q queries, K keys, R roles.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from core.config import ModelConfig
from core.files import printable, write_atomic
from core.frozen import Bools, Frozen
from core.kinds import KINDS, Kind, map_sizes
from core.record.archive import Archive, archive, in_megabytes
from core.typed import typed

FILE = "history.npz"
LIMIT = 3 << 20  # bytes
SAMPLE = 64
"""Maximum number of validation pairs on which loss and BLEU are measured."""
ROLES = {
    "encoder": ("previous token", "itself", "<eos>"),
    "decoder": ("previous token", "itself", "<bos>"),
    "cross": ("<eos>",),
}
"""Axis R of each kind: the keys whose mean weight is measured."""

_FORMAT = 1
_MAX_UNPACKED_BYTES = 32 << 20  # the shipped networks take up to 1.8 MB
_MAX_JSON_BYTES = 1 << 20
_HEADER = 256  # bytes, upper bound of a .npy header
_ROUNDING = 4e-3  # tolerance for the sum of a row of float16 weights

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Sentence:
    """Token texts of one fixed sentence: source, decoder input and expected output."""

    source: tuple[str, ...]
    target_in: tuple[str, ...]
    target_out: tuple[str, ...]

    @property
    def map_sizes(self) -> dict[Kind, tuple[int, int]]:
        """The numbers of queries and keys of its maps, by kind."""
        return map_sizes(len(self.source), len(self.target_in))


@dataclass(frozen=True)
class _Metadata:
    format: Literal[1]
    sentences: tuple[Sentence, ...]


@dataclass(frozen=True, eq=False)
class AttentionSnapshots(Frozen):
    """Measurements at P points of one run, on a small validation sample and fixed sentences.

    `steps`, `loss` (nats per target token) and `bleu` are [P]; loss and BLEU are measured on the
    sample. `maps[kind][i]` are the weights of sentence i, float16 [P, L, H, Q, K]. `entropy[kind]`
    [P, L, H] is the mean row entropy relative to a uniform row's, in 0..1. `roles[kind]`
    [P, R, L, H] is the mean weight on the keys that ROLES names. Raises ValueError for inconsistent
    parts.
    """

    sentences: tuple[Sentence, ...]
    steps: NDArray[np.int32]
    loss: Floats
    bleu: Floats
    maps: Mapping[str, tuple[Floats, ...]]
    entropy: Mapping[str, Floats]
    roles: Mapping[str, Floats]

    def __post_init__(self) -> None:
        super().__post_init__()
        P = len(self.steps)
        if self.steps.ndim != 1 or (np.diff(self.steps) <= 0).any() or (self.steps < 0).any():
            raise ValueError("the steps do not increase, or are negative")
        for name, values in (("loss", self.loss), ("bleu", self.bleu)):
            if values.shape != (P,) or not np.isfinite(values).all() or (values < 0).any():
                raise ValueError(f"{name} must hold a finite, nonnegative number for each point")
        heads = set()
        for kind in KINDS:
            shape = self.entropy[kind].shape
            if len(shape) != 3 or shape[0] != P:
                raise ValueError(f"the {kind} entropy is {shape}, not [{P}, L, H]")
            heads.add(shape[2])
            roles, full = self.roles[kind].shape, (P, len(ROLES[kind]), *shape[1:])
            if roles != full:
                raise ValueError(f"the {kind} roles are {roles}, not {full}")
            for name, values in (("entropy", self.entropy[kind]), ("roles", self.roles[kind])):
                if not ((values >= 0) & (values <= 1 + _ROUNDING)).all():
                    raise ValueError(f"the {kind} {name} holds a value outside 0..1")
            if len(self.maps[kind]) != len(self.sentences):
                raise ValueError(
                    f"{len(self.maps[kind])} {kind} maps for {len(self.sentences)} sentences"
                )
            for sentence, maps in zip(self.sentences, self.maps[kind], strict=True):
                self._check_maps(kind, maps, (*shape, *sentence.map_sizes[kind]))
        if len(heads) != 1:
            raise ValueError(f"the kinds have different numbers of heads: {sorted(heads)}")

    def _check_maps(self, kind: str, maps: Floats, shape: tuple[int, ...]) -> None:
        if maps.dtype != np.float16 or maps.shape != shape:
            raise ValueError(f"a {kind} map is {maps.dtype} {maps.shape}, not float16 {shape}")
        if not ((maps >= 0) & (maps <= 1)).all():
            raise ValueError(f"a {kind} map holds a value that is not a probability")
        if maps.size and np.abs(maps.sum(-1, dtype=np.float32) - 1).max() > _ROUNDING:
            raise ValueError(f"a {kind} map has a row that does not sum to 1")
        if kind == "decoder" and np.triu(maps, 1).any():
            raise ValueError("a decoder map has a masked cell that is not exactly 0")

    def mask(self, kind: Kind, sentence: int) -> Bools:
        """Return the cells [Q, K] of a sentence's maps that are not masked."""
        mask = np.ones(self.sentences[sentence].map_sizes[kind], bool)
        return np.tril(mask) if kind == "decoder" else mask

    @classmethod
    def of_network(cls, folder: Path, model: ModelConfig) -> AttentionSnapshots | None:
        """Return the snapshots in a checkpoint's folder, or None if it has none.

        Raises a one-line ValueError for a file that `load` rejects and for a file of a network with
        other numbers of layers or heads.
        """
        file = folder / FILE
        if not file.exists():
            return None
        snapshots = cls.load(file)
        layers = dict.fromkeys(KINDS, model.num_decoder_layers)
        layers["encoder"] = model.num_encoder_layers
        for kind in KINDS:
            found, expected = snapshots.entropy[kind].shape[1:], (layers[kind], model.heads(kind))
            if found != expected:
                raise ValueError(
                    f"{printable(str(file))} belongs to another network: its {kind} attention has "
                    f"{found[0]} × {found[1]} heads (layers × heads), not "
                    f"{expected[0]} × {expected[1]}; delete it"
                )
        return snapshots

    def until(self, step: int) -> AttentionSnapshots:
        """Return the snapshots up to a step, including the one at that step."""
        count = int((self.steps <= step).sum())
        return self._mapped(lambda values: values[:count])

    def thinned(self) -> AttentionSnapshots:
        """Return the snapshots of every other point, with the last one."""
        return self._mapped(lambda values: values[::-2][::-1])

    def append(self, later: AttentionSnapshots) -> AttentionSnapshots:
        """Append the points of a later part of the run.

        Raises ValueError for different sentences or steps that do not increase.
        """
        if self.sentences != later.sentences:
            raise ValueError("the two parts have different sentences")
        return self._mapped(lambda *values: np.concatenate(values), later)

    def _mapped(
        self, change: Callable[..., Any], *others: AttentionSnapshots
    ) -> AttentionSnapshots:
        """Apply `change` to each array, with the corresponding arrays of `others` as arguments."""

        def apply(*values: Any) -> Any:
            if isinstance(values[0], Mapping):
                return {kind: apply(*(value[kind] for value in values)) for kind in KINDS}
            if isinstance(values[0], tuple):
                return tuple(map(apply, *values))
            return change(*values)

        names = [f.name for f in dataclasses.fields(self) if f.name != "sentences"]
        arrays = {n: apply(*(getattr(one, n) for one in (self, *others))) for n in names}
        return dataclasses.replace(self, **arrays)

    def to_bytes(self) -> bytes:
        """Serialise as NPZ: the arrays, and the tokens as JSON; no pickle.

        Raises ValueError if the content would unpack to more bytes than `load` accepts.
        """
        metadata = {
            "format": _FORMAT,
            "sentences": [
                {"source": s.source, "target_in": s.target_in, "target_out": s.target_out}
                for s in self.sentences
            ],
        }
        arrays: dict[str, np.ndarray] = {"steps": self.steps, "loss": self.loss, "bleu": self.bleu}
        for kind in KINDS:
            arrays |= {f"entropy_{kind}": self.entropy[kind], f"roles_{kind}": self.roles[kind]}
            arrays |= {f"{kind}_{i}": maps for i, maps in enumerate(self.maps[kind])}
        buffer = io.BytesIO()
        encoded = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
        total = encoded.nbytes + sum(array.nbytes + _HEADER for array in arrays.values())
        if encoded.nbytes > _MAX_JSON_BYTES - _HEADER or total > _MAX_UNPACKED_BYTES - _HEADER:
            raise ValueError(
                f"snapshots of {total / 1e6:,.0f} MB are too large: the limit is "
                f"{in_megabytes(_MAX_UNPACKED_BYTES)}, take fewer points or shorter sentences"
            )
        np.savez_compressed(buffer, allow_pickle=False, words=encoded, **arrays)
        return buffer.getvalue()

    def save(self, file: Path) -> None:
        """Write `to_bytes` to a file atomically. Raises ValueError above 3 MB."""
        content = self.to_bytes()
        if len(content) > LIMIT:
            raise ValueError(
                f"snapshots of {len(content):,} bytes are too large: the limit is {LIMIT:,}; "
                "take fewer points or shorter sentences"
            )
        write_atomic(file, content)

    @classmethod
    def load(cls, file: Path | BinaryIO) -> AttentionSnapshots:
        """Read and validate a file written by `save`.

        Raises a one-line ValueError for any other file. Sizes are checked before anything is
        unpacked: at most 3 MB, and 32 MB unpacked.
        """
        remedy = "delete it, or train again to make one"
        with archive(file, "a saved snapshot file", remedy, _MAX_UNPACKED_BYTES, LIMIT) as npz:
            metadata = npz.json("words", _MAX_JSON_BYTES)
            sentences = typed(_Metadata, metadata, "its metadata").sentences
            if any(
                not s.source or not len(s.target_in) == len(s.target_out) > 0 for s in sentences
            ):
                raise ValueError("a sentence has an empty side, or targets of different lengths")
            numbers = range(len(sentences))
            return cls(
                sentences,
                npz.array("steps", [np.int32], 1),
                _floats(npz, "loss", 1),
                _floats(npz, "bleu", 1),
                {
                    kind: tuple(npz.array(f"{kind}_{i}", [np.float16], 5) for i in numbers)
                    for kind in KINDS
                },
                {kind: _floats(npz, f"entropy_{kind}", 3) for kind in KINDS},
                {kind: _floats(npz, f"roles_{kind}", 4) for kind in KINDS},
            )


def _floats(npz: Archive, name: str, axes: int) -> Floats:
    return npz.array(name, [np.float32, np.float64], axes)
