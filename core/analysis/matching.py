"""Match the heads of two models one to one by the similarity of their attention maps.

Axes: L layers, H heads, Q queries, K keys, N = L·H heads of a model, numbered layer by layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.frozen import Doubles, Frozen


@dataclass(frozen=True, eq=False)
class Matching(Frozen):
    """A one-to-one matching: head n of the first model with head partner[n] of the second.

    `similarity` [N of the first model, N of the second] is the share of attention, 0 to 1, that two
    heads put on the same cells.
    """

    layers: int
    heads: int
    partner: tuple[int, ...]
    similarity: Doubles

    def __post_init__(self) -> None:
        super().__post_init__()
        N = self.layers * self.heads
        if sorted(self.partner) != list(range(N)) or self.similarity.shape != (N, N):
            raise ValueError(f"a matching of {N} heads must pair each head with one partner")

    def of(self, layer: int, head: int) -> tuple[int, int]:
        """Return the second model's (layer, head) matched with a head of the first."""
        return divmod(self.partner[layer * self.heads + head], self.heads)

    def reordered(self, maps: NDArray) -> NDArray:
        """Reorder the second model's maps [L, H, Q, K] into the first model's order of heads.

        Raises ValueError unless the maps have as many layers and heads as the matching.
        """
        if maps.shape[:2] != (self.layers, self.heads):
            raise ValueError(f"maps {maps.shape} do not have {self.layers} × {self.heads} heads")
        return maps.reshape(-1, *maps.shape[2:])[list(self.partner)].reshape(maps.shape)

    @property
    def matched(self) -> Doubles:
        """The similarity of each head of the first model to its partner: [N]."""
        return self.similarity[np.arange(len(self.partner)), list(self.partner)]

    @property
    def same_number(self) -> Doubles:
        """The similarity of each head to the second model's head of the same number: [N]."""
        return self.similarity.diagonal()

    @property
    def kept(self) -> int:
        """The number of heads matched with the head of the same number."""
        return sum(n == partner for n, partner in enumerate(self.partner))


def match_heads(first: Sequence[NDArray], second: Sequence[NDArray]) -> Matching:
    """Match the heads of two models so that the summed similarity is maximal.

    `first[i]` and `second[i]` are the maps [L, H, Q, K] of one kind for the same sentence i. The
    assignment problem (Kuhn 1955) is solved over all layers and heads at once. Raises a one-line
    ValueError if there is no sentence or if shapes differ.
    """
    if not first or len(first) != len(second):
        raise ValueError(
            f"{len(first)} and {len(second)} sentences cannot be matched: give both models the "
            "same sentences, at least one"
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
    from scipy.optimize import linear_sum_assignment  # takes a second to import

    _, partner = linear_sum_assignment(similarity, maximize=True)
    return Matching(layers, heads, tuple(partner.tolist()), similarity)
