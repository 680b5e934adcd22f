"""What switching heads off does to each target token: which head matters, and who covers for whom.

Axes: L layer, H head, T target token, N = L·H heads of a kind, numbered layer by layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.frozen import Frozen

Doubles = NDArray[np.float64]


class HeadChange(NamedTuple):
    """One head, counted from 0, and the change in nats without it."""

    kind: str
    layer: int
    head: int
    change: float


class PairChange(NamedTuple):
    """Two heads of a kind, each (layer, head), and what goes beyond their single changes (nats)."""

    first: tuple[int, int]
    second: tuple[int, int]
    beyond: float


@dataclass(frozen=True, eq=False)
class HeadEffects(Frozen):
    """Each head of one sentence switched off by itself; arrays are float64, in nats, read-only.

    `log_probs` [T] are those of the target tokens in the unedited pass; `changes` by kind
    [L, H, T] are log P(token) without the head minus `log_probs`: negative where the head helped.
    Their sum over T is the change of log P of the whole translation.
    """

    log_probs: Doubles
    changes: Mapping[str, Doubles]

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(change.shape[2:] != self.log_probs.shape for change in self.changes.values()):
            raise ValueError(f"changes are [L, H, T] with T = {len(self.log_probs)} target tokens")

    def of(self, kind: str, token: int | None = None) -> Doubles:
        """The change of a target token's log-probability, or of the whole translation's: [L, H].

        Raises KeyError for a kind and IndexError for a token that is not there.
        """
        change_LHT = self.changes[kind]
        return change_LHT.sum(-1) if token is None else change_LHT[..., token]

    def ranked(self, token: int | None = None) -> list[HeadChange]:
        """All heads of all kinds, the one that changes most, in either direction, first."""
        found = [
            HeadChange(kind, *at, float(change))
            for kind in self.changes
            for at, change in np.ndenumerate(self.of(kind, token))
        ]
        return sorted(found, key=lambda head: -abs(head.change))


@dataclass(frozen=True, eq=False)
class PairEffects(Frozen):
    """All pairs of heads of one kind switched off together, on one sentence; read-only.

    `pairs` [N, N, T], symmetric, are the changes of the target tokens' log-probabilities in nats
    with both heads off; the diagonal holds those of one head.
    """

    kind: str
    layers: int
    heads: int
    pairs: Doubles

    def __post_init__(self) -> None:
        super().__post_init__()
        N = self.layers * self.heads
        if self.pairs.shape[:-1] != (N, N):
            raise ValueError(f"pairs {self.pairs.shape} are not [{N}, {N}, T]")

    def both(self, token: int | None = None) -> Doubles:
        """The change with both heads off, of a token or of the whole translation: [N, N]."""
        return self.pairs.sum(-1) if token is None else self.pairs[..., token]

    def single(self, token: int | None = None) -> Doubles:
        """The change with one head off: [N]."""
        return self.both(token).diagonal().copy()

    def beyond(self, token: int | None = None) -> Doubles:
        """The pair's change minus the sum of the two single ones: [N, N], symmetric, diagonal 0.

        Negative: the two cover for each other, for both off hurts more than the two by themselves.
        Positive: they need each other: without one, the other is of less use, or even does harm.
        """
        single_N = self.single(token)
        found_NN = self.both(token) - (single_N[:, None] + single_N)
        np.fill_diagonal(found_NN, 0)
        return found_NN

    def ranked(self, token: int | None = None) -> list[PairChange]:
        """Every pair once: those that cover for each other first, that need each other last."""
        beyond_NN = self.beyond(token)
        pairs = zip(*np.triu_indices(len(beyond_NN), 1), strict=True)
        found = [PairChange(self.at(a), self.at(b), float(beyond_NN[a, b])) for a, b in pairs]
        return sorted(found, key=lambda pair: pair.beyond)

    def at(self, number: int) -> tuple[int, int]:
        """Layer and head of a row or column."""
        layer, head = divmod(int(number), self.heads)
        return layer, head
