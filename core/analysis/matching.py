"""Which head of one model does what a head of another does: one to one, by how alike they look.

Axes: L layers, H heads, Q queries, K keys, N = L·H heads of a model, numbered layer by layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.frozen import Frozen


@dataclass(frozen=True, eq=False)
class Matching(Frozen):
    """The heads of two models in pairs: the first model's head n and the second's partner[n].

    `similarity` [N, N] is the share of attention that two heads put on the same cells: 0 to 1.
    """

    layers: int
    heads: int
    partner: tuple[int, ...]
    similarity: NDArray[np.float64]

    def __post_init__(self) -> None:
        super().__post_init__()
        N = self.layers * self.heads
        if sorted(self.partner) != list(range(N)) or self.similarity.shape != (N, N):
            raise ValueError(f"a matching of {N} heads names each of them once on either side")

    def of(self, layer: int, head: int) -> tuple[int, int]:
        """Layer and head of the second model that belong to the first model's."""
        return divmod(self.partner[layer * self.heads + head], self.heads)

    def reordered(self, maps: NDArray) -> NDArray:
        """The second model's maps [L, H, Q, K] with each head in the place of its partner."""
        self._check(maps)
        return maps.reshape(-1, *maps.shape[2:])[list(self.partner)].reshape(maps.shape)

    def _check(self, maps: NDArray) -> None:
        if maps.shape[:2] != (self.layers, self.heads):
            raise ValueError(f"maps {maps.shape} are not of {self.layers} × {self.heads} heads")

    @property
    def matched(self) -> NDArray[np.float64]:
        """Similarity of each head of the first model to its partner, [N]."""
        return self.similarity[np.arange(len(self.partner)), list(self.partner)]

    @property
    def same_number(self) -> NDArray[np.float64]:
        """Similarity of each head to the one of the same number, [N]: what not matching gives."""
        return self.similarity.diagonal()

    @property
    def kept(self) -> int:
        """How many heads belong to the one of the same number."""
        return sum(n == partner for n, partner in enumerate(self.partner))


def match_heads(first: Sequence[NDArray], second: Sequence[NDArray]) -> Matching:
    """Pair the heads of two models so that the pairs are, summed up, as similar as can be.

    `first[i]` and `second[i]` are the maps [L, H, Q, K] of one kind for the same sentence i. The
    pairs are found by the Hungarian method (Kuhn 1955) over all layers and heads at once. Raises
    ValueError, in one line, if there is no sentence or if any two shapes differ.
    """
    if not first or len(first) != len(second):
        raise ValueError(
            f"{len(first)} and {len(second)} sentences: matching needs the same ones, at least one"
        )
    for a, b in zip(first, second, strict=True):
        if a.ndim != 4 or a.shape != b.shape or a.shape[:2] != first[0].shape[:2]:
            raise ValueError(
                f"maps of shape {a.shape} and {b.shape} cannot be matched: "
                "[layer, head, query, key] must be equal in both models"
            )
    layers, heads = first[0].shape[:2]
    N = layers * heads
    common, rows = np.zeros((N, N)), 0
    for a, b in zip(first, second, strict=True):
        flat_a, flat_b = (m.reshape(N, -1).astype(np.float64) for m in (a, b))
        common += [np.minimum(head, flat_b).sum(axis=-1) for head in flat_a]
        rows += a.shape[2]
    similarity = common / rows  # every row sums to 1, so this is the mean over all rows
    from scipy.optimize import linear_sum_assignment  # a second, which no other page pays

    _, partner = linear_sum_assignment(similarity, maximize=True)
    return Matching(layers, heads, tuple(partner.tolist()), similarity)
