"""Effects of ablating heads, one or two at a time, on each target token's log-probability.

Axes: L layer, H head, T target token, N = L·H heads of a kind, numbered layer by layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from core.config import ModelConfig
from core.frozen import Doubles, Frozen
from core.kinds import Kind


class HeadChange(NamedTuple):
    """A head, counted from 0, and the change in log-probability when it is ablated, in nats."""

    kind: str
    layer: int
    head: int
    change: float


class PairChange(NamedTuple):
    """Two heads of a kind, each (layer, head), and their interaction in nats (see `beyond`)."""

    first: tuple[int, int]
    second: tuple[int, int]
    beyond: float


@dataclass(frozen=True, eq=False)
class HeadEffects(Frozen):
    """The effect of ablating each head by itself on one sentence; float64, nats, read-only.

    `log_probs` [T] are the target tokens' log-probabilities in the unedited pass. `changes`, by
    kind [L, H, T], is log P(token) without the head minus `log_probs`: negative where the head
    helped. The sum over T is the change in log P of the whole translation. In results of an
    unfinished experiment, the changes are NaN for heads that have not been ablated yet.
    """

    log_probs: Doubles
    changes: Mapping[str, Doubles]

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(change.shape[2:] != self.log_probs.shape for change in self.changes.values()):
            raise ValueError(
                f"changes must be [L, H, T] with T = {len(self.log_probs)} target tokens"
            )

    def of(self, kind: str, token: int | None = None) -> Doubles:
        """Return the change in log P of one target token, or of the whole translation: [L, H].

        Raises KeyError for an unknown kind and IndexError for a token out of range.
        """
        change_LHT = self.changes[kind]
        return change_LHT.sum(-1) if token is None else change_LHT[..., token]

    def ranked(self, token: int | None = None) -> list[HeadChange]:
        """Return the heads of all kinds, sorted by the size of their change, largest first.

        Heads that have not been ablated yet are left out.
        """
        changes = [
            HeadChange(kind, *at, float(change))
            for kind in self.changes
            for at, change in np.ndenumerate(self.of(kind, token))
            if not np.isnan(change)
        ]
        return sorted(changes, key=lambda head: -abs(head.change))


@dataclass(frozen=True, eq=False)
class PairEffects(Frozen):
    """The effect of ablating each pair of heads of one kind on one sentence; read-only.

    `pairs` [N, N, T] is the change in each target token's log-probability, in nats, with both heads
    ablated. It is symmetric; its diagonal holds the effects of single heads.
    """

    kind: str
    layers: int
    heads: int
    pairs: Doubles

    def __post_init__(self) -> None:
        super().__post_init__()
        N = self.layers * self.heads
        if self.pairs.shape[:-1] != (N, N):
            raise ValueError(f"pairs have shape {self.pairs.shape}, not [{N}, {N}, T]")

    def both(self, token: int | None = None) -> Doubles:
        """Return the change with both heads ablated, for a token or the translation: [N, N]."""
        return self.pairs.sum(-1) if token is None else self.pairs[..., token]

    def single(self, token: int | None = None) -> Doubles:
        """Return the change with one head ablated: [N]."""
        return self.both(token).diagonal().copy()

    def beyond(self, token: int | None = None) -> Doubles:
        """Return the interaction: the pair's change minus the sum of the two single changes.

        The array is [N, N], symmetric, with a diagonal of 0. Negative: the heads are redundant, so
        ablating both hurts more than the single ablations add up to. Positive: they depend on each
        other, so without one the other helps less or even hurts.
        """
        single_N = self.single(token)
        beyond_NN = self.both(token) - (single_N[:, None] + single_N)
        np.fill_diagonal(beyond_NN, 0)
        return beyond_NN

    def ranked(self, token: int | None = None) -> list[PairChange]:
        """Return every pair once, the most redundant first, the most dependent last."""
        beyond_NN = self.beyond(token)
        pairs = zip(*np.triu_indices(len(beyond_NN), 1), strict=True)
        changes = [PairChange(self.at(a), self.at(b), float(beyond_NN[a, b])) for a, b in pairs]
        return sorted(changes, key=lambda pair: pair.beyond)

    def at(self, number: int) -> tuple[int, int]:
        """Return the (layer, head) of a row or column of `pairs`."""
        layer, head = divmod(int(number), self.heads)
        return layer, head


def products_without(config: ModelConfig, kind: Kind, layer: int, source: int, target: int) -> int:
    """Count the weights times tokens that are multiplied again without a head of a layer.

    A head of an early layer takes longer: all later layers are recomputed.
    """
    encoders = config.num_encoder_layers - layer if kind == "encoder" else 0
    decoders = config.num_decoder_layers - (0 if kind == "encoder" else layer)
    in_encoder, in_decoder = (
        blocks * config.d_model + 2 * config.feedforward(of)
        for of, blocks in (("encoder", 4), ("decoder", 8))
    )
    in_target = decoders * in_decoder + config.target_vocab_size
    return config.d_model * (source * encoders * in_encoder + target * in_target)
