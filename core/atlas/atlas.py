"""The Atlas: what every head of a network does over a corpus, as one frozen value and one file.

Axes: N heads, counted kind by kind, layer by layer; n heads of one kind, or of all; O roles of a
kind; A distances; P quoted sentences; L layers of cross-attention; H heads of a layer; 3: a value
and the bounds of its 95 % bootstrap interval.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from core.checkpoint.strict_json import parse
from core.files import safe_read, write_atomic
from core.frozen import Frozen
from core.kinds import KINDS, Kind
from core.record.archive import archive
from core.typed import Count, between, typed

FILE = "atlas.npz"
FETCH_FILE = "patch.json"
"""Beside the atlas: what `core.analyse patch --out` writes."""
LIMIT = 300_000  # bytes
DISTANCES = tuple(range(-20, 21))
"""Axis A: key position minus query position or, in cross-attention, minus the diagonal's position.

The first and last entries also include all distances beyond them.
"""
Reading = Literal["output", "input"]
Quantity = Literal["weights", "norms"]
READINGS: tuple[Reading, ...] = get_args(Reading)
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
ALL = "all"
"""The name of the pruning curve over the heads of all kinds."""

_FORMAT = 1
_MAX_UNPACKED_BYTES = 8 << 20
_MAX_JSON_BYTES = 1 << 20
_MAX_TEXT = 600  # characters of a quoted sentence
_Small = Annotated[int, between(0, 64)]


@dataclass(frozen=True)
class Origin:
    """What an atlas was computed from, so that it can be computed again.

    `sources_sha256` and `references_sha256` are hashes of the corpus lines joined by "\\n". `gold`
    names the file of manual alignments, which may belong to another text; "" for none.
    """

    command: str
    corpus: str
    sources_sha256: str
    references_sha256: str
    weights_sha256: str
    checkpoint: str
    source_language: str
    target_language: str
    sentences: Count
    source_tokens: Count
    target_tokens: Count
    skipped: Count
    gold: str = ""
    gold_sha256: str = ""
    gold_sentences: Count = 0
    version: str = ""

    @property
    def other(self) -> str:
        """The folder name of the network whose heads were matched with this one's; "" for none."""
        words = self.command.split()
        return next((name for option, name in pairwise(words) if option == "--other"), "")


@dataclass(frozen=True)
class AlignmentHeads:
    """The best set of cross-attention heads [(layer, head), …] as a word aligner.

    The set is chosen greedily on one half of the gold sentences; `aer`, `low` and `high` are
    measured on the other half.
    """

    heads: tuple[tuple[_Small, _Small], ...]
    reading: Reading
    quantity: Quantity
    aer: float
    low: float
    high: float


@dataclass(frozen=True)
class Quoted:
    """A sentence of the corpus, quoted as an example, and its reference translation."""

    source: str
    target: str


@dataclass(frozen=True)
class TokenLoss:
    """A target token whose loss rises when a head is zero-ablated.

    `change` is the mean change in nats over the token's `count` occurrences in the corpus.
    """

    text: str
    change: float
    count: int


@dataclass(frozen=True)
class _Metadata:
    """The JSON in an atlas; `arrays` has the number of axes of each."""

    format: Literal[1]
    origin: Origin
    layers: Mapping[Kind, _Small]
    num_heads: _Small
    roles: Mapping[Kind, tuple[str, ...]]
    arrays: Mapping[str, Annotated[int, between(0, 8)]]
    tokens: tuple[tuple[tuple[str, float, Count], ...], ...]
    quoted: tuple[tuple[str, str], ...]
    alignment_heads: AlignmentHeads | None


@dataclass(frozen=True, eq=False)
class Atlas(Frozen):
    """Statistics of all heads over a corpus. Arrays that were not measured are absent.

    Names and axes of `arrays`, float32 unless stated otherwise (NaN: not measurable here):

    - loss, bleu [3]: loss in nats per target token and BLEU points, without ablation
    - zero, mean [N, 3]: change of the loss when a head is zero- or mean-ablated
    - bleu_zero [N, 3]: change of BLEU when a head is zero-ablated
    - zero_p, mean_p, bleu_zero_p [N]: p-values of no change, after Holm's correction over N heads
    - entropy, largest [N, 3]: mean row entropy relative to a uniform row's; mean largest weight
    - distance [N, A]: mean weight by distance
    - role_KIND [O, n, 3]: share of attention on each role's keys
    - role_KIND_shuffled [O, n]: that share with each row shuffled
    - role_KIND_random [O]: the highest share of any head of random networks
    - role_KIND_profile [O, n]: the share if each cell had the head's mean weight at that distance;
      NaN for positional roles
    - role_KIND_rows [O]: the share of rows in which the role is measured, because they have both a
      key of the role and another key
    - prune_X_order int16 [n]: heads in the order of removal, X a kind or "all"
    - prune_X_loss, prune_X_bleu [n + 1, 3]: loss and BLEU without removal and after each one
    - single_KIND [n]: on a sample, the change of loss when a head is zero-ablated
    - pair_KIND [n, n, 3]: a pair's joint change on that sample, minus the sum of its two single
      changes (positive: the heads are redundant)
    - aer [2, 2, L + 1, H + 1, 3], precision, recall [2, 2, L + 1, H + 1]: alignment scores of each
      cross-attention head, by reading and quantity (READINGS, QUANTITIES); index L is the mean map
      over layers, index H over heads
    - aer_diagonal, aer_random [3]: alignment error of the monotone diagonal, and of a random head
    - fetch [N, 3]: share of the difference between two sentences that differ in a word, which a
      copy of the head's output brings back; from `core.analyse patch`
    - partner int16 [N]: the matched head of another network
    - similarity [N, 3]: the share of attention that both heads put on the same cells
    - similarity_unmatched [N, 3]: the mean of this share over all heads of the kind in the other
      network except the partner
    - strength [N, P]: change of each quoted sentence's loss per token under zero ablation
    - deciles [N, 9]: the deciles of this change over the sentences of the corpus
    - cell int16 [N, P, 2]: the query and key that stand for a head in each quoted sentence, see
      core.atlas.examples

    `roles` names axis O for each kind; `tokens` has up to 12 target tokens per head. Raises
    ValueError for parts that do not fit together.
    """

    origin: Origin
    layers: Mapping[Kind, int]
    num_heads: int
    roles: Mapping[Kind, tuple[str, ...]]
    arrays: Mapping[str, NDArray]
    tokens: tuple[tuple[TokenLoss, ...], ...] = ()
    quoted: tuple[Quoted, ...] = ()
    alignment_heads: AlignmentHeads | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        shapes = self._shapes()
        for name in ("loss", "zero", "entropy", "largest", "distance"):
            if name not in self.arrays:
                raise ValueError(f"{name} is missing")
        for name, array in self.arrays.items():
            if name not in shapes:
                raise ValueError(f"{name} is not a part of an atlas")
            dtype, shape = (np.int16 if _integers(name) else np.float32), shapes[name]
            if array.dtype != dtype or array.shape != shape:
                raise ValueError(
                    f"{name} is {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape}"
                )
            if np.isinf(array.astype(np.float32)).any():
                raise ValueError(f"{name} holds an infinite number")
        self._check_values()

    @property
    def count(self) -> int:
        """The number of heads N."""
        return sum(self.layers.values()) * self.num_heads

    @cached_property
    def heads(self) -> tuple[tuple[Kind, int, int], ...]:
        """Kind, layer and number of each head, in the order of axis N."""
        return tuple(
            (kind, layer, head)
            for kind in KINDS
            for layer in range(self.layers[kind])
            for head in range(self.num_heads)
        )

    def span(self, kind: str) -> slice:
        """Return the part of axis N that holds the heads of a kind; all of it for "all"."""
        if kind == ALL:
            return slice(0, self.count)
        before = sum(self.layers[k] for k in KINDS[: KINDS.index(kind)])
        return slice(
            before * self.num_heads,
            (before + self.layers[kind]) * self.num_heads,  # ty: ignore
        )

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        N, A, P, L, H = (
            self.count,
            len(DISTANCES),
            len(self.quoted),
            self.layers["cross"],
            self.num_heads,
        )
        shapes: dict[str, tuple[int, ...]] = {"loss": (3,), "bleu": (3,)}
        shapes |= dict.fromkeys(("zero", "mean", "bleu_zero", "entropy", "largest"), (N, 3))
        shapes |= dict.fromkeys(("zero_p", "mean_p", "bleu_zero_p", "partner"), (N,))
        shapes |= {"distance": (N, A), "similarity": (N, 3), "similarity_unmatched": (N, 3)}
        shapes |= {"strength": (N, P), "deciles": (N, 9), "cell": (N, P, 2)}
        shapes |= {"aer": (2, 2, L + 1, H + 1, 3), "fetch": (N, 3)}
        shapes |= dict.fromkeys(("precision", "recall"), (2, 2, L + 1, H + 1))
        shapes |= dict.fromkeys(("aer_diagonal", "aer_random"), (3,))
        for kind in (*KINDS, ALL):
            n = N if kind == ALL else self.layers[kind] * H
            shapes[f"prune_{kind}_order"] = (n,)
            shapes |= dict.fromkeys((f"prune_{kind}_loss", f"prune_{kind}_bleu"), (n + 1, 3))
        for kind in KINDS:
            n, O = self.layers[kind] * H, len(self.roles[kind])  # noqa: E741
            shapes |= {f"role_{kind}": (O, n, 3), f"role_{kind}_shuffled": (O, n)}
            shapes |= {f"role_{kind}_profile": (O, n)}
            shapes |= dict.fromkeys((f"role_{kind}_random", f"role_{kind}_rows"), (O,))
            shapes |= {f"single_{kind}": (n,)}
            shapes |= {f"pair_{kind}": (n, n, 3)}
        return shapes

    def _check_values(self) -> None:
        for kind in (*KINDS, ALL):
            order = self.arrays.get(f"prune_{kind}_order")
            if order is not None and sorted(order) != list(range(len(order))):
                raise ValueError(f"prune_{kind}_order does not name each head once")
        for kind in KINDS:
            parts = [part for part in ROLE_PARTS if f"role_{kind}{part}" in self.arrays]
            if parts and len(parts) < len(ROLE_PARTS):
                missing = next(part for part in ROLE_PARTS if part not in parts)
                raise ValueError(f"role_{kind}{missing} is missing")
        for name, array in self.arrays.items():
            share = name.startswith("role_") or name in _SHARES
            if share and not ((array >= -1e-6) & (array <= 1 + 1e-6) | np.isnan(array)).all():
                raise ValueError(f"{name} holds a number outside 0..1")
        if self.tokens and len(self.tokens) != self.count:
            raise ValueError(f"it has tokens for {len(self.tokens)} heads, not {self.count}")
        if any(max(len(q.source), len(q.target)) > _MAX_TEXT for q in self.quoted):
            raise ValueError(f"a quoted sentence has more than {_MAX_TEXT} characters")

    def to_bytes(self) -> bytes:
        """Serialise as NPZ: arrays, and the rest as JSON; no pickle."""
        metadata = {
            "format": _FORMAT,
            "origin": dataclasses.asdict(self.origin),
            "layers": dict(self.layers),
            "num_heads": self.num_heads,
            "roles": {kind: list(names) for kind, names in self.roles.items()},
            "arrays": {name: array.ndim for name, array in self.arrays.items()},
            "tokens": [[[t.text, t.change, t.count] for t in each] for each in self.tokens],
            "quoted": [[q.source, q.target] for q in self.quoted],
            "alignment_heads": self.alignment_heads and dataclasses.asdict(self.alignment_heads),
        }
        encoded = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, words=encoded, **self.arrays)
        return buffer.getvalue()

    def save(self, file: Path) -> None:
        """Write `to_bytes` to a file atomically. Raises ValueError above 300 kB."""
        content = self.to_bytes()
        if len(content) > LIMIT:
            raise ValueError(
                f"an atlas of {len(content):,} bytes is too large: the limit is {LIMIT:,}"
            )
        write_atomic(file, content)

    @classmethod
    def load(cls, file: Path | BinaryIO) -> Atlas:
        """Read and validate a file written by `save`. Raises ValueError, one line, otherwise."""
        remedy = "write it again with `python -m core.analyse atlas`"
        with archive(file, "an atlas of heads", remedy, _MAX_UNPACKED_BYTES, LIMIT) as npz:
            saved: _Metadata = typed(_Metadata, npz.json("words", _MAX_JSON_BYTES), "its metadata")
            return cls(
                saved.origin,
                saved.layers,
                saved.num_heads,
                saved.roles,
                {
                    name: npz.array(name, [np.int16 if _integers(name) else np.float32], axes)
                    for name, axes in saved.arrays.items()
                },
                tuple(tuple(TokenLoss(*token) for token in each) for each in saved.tokens),
                tuple(Quoted(*sentences) for sentences in saved.quoted),
                saved.alignment_heads,
            )


def read_atlas(file: Path, weights_sha256: str) -> Atlas:
    """Read an atlas. Raises ValueError, one line, if it is invalid or belongs to other weights."""
    atlas = Atlas.load(file)
    if atlas.origin.weights_sha256 != weights_sha256:
        raise ValueError(
            f"{file} belongs to other weights ({atlas.origin.weights_sha256[:8]}, not "
            f"{weights_sha256[:8]}): write it again with `python -m core.analyse atlas`"
        )
    return atlas


def with_fetch(atlas: Atlas, file: Path) -> Atlas:
    """Return the atlas with `fetch` from the file that `core.analyse patch --out` wrote.

    Raises ValueError, one line, if it is invalid or belongs to other weights or heads.
    """
    try:
        values = parse(safe_read(file, _MAX_JSON_BYTES), _MAX_JSON_BYTES)
        if values["weights_sha256"] != atlas.origin.weights_sha256:
            raise ValueError("it belongs to other weights")
        rows = {(r["kind"], r["layer"], r["head"]): r for r in values["heads"]}
        fetch = [[rows[head][name] for name in ("share", "low", "high")] for head in atlas.heads]
        arrays = {**atlas.arrays, "fetch": np.array(fetch, np.float32)}  # null becomes NaN
        return dataclasses.replace(atlas, arrays=arrays)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ValueError(
            f"{file} cannot be used ({str(error)[:200]}): write it again with "
            "`python -m core.analyse patch --out`"
        ) from None


ROLE_PARTS = ("", "_shuffled", "_random", "_profile", "_rows")
_SHARES = (
    *("entropy", "largest", "precision", "recall", "distance"),
    *("similarity", "similarity_unmatched"),
)


def _integers(name: str) -> bool:
    return name.endswith("_order") or name in ("partner", "cell")
