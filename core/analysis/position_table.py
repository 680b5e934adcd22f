"""What a table of positions holds: rotations, products by distance, and the sum with embeddings."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.frozen import Frozen

Floats = NDArray[np.float64]


def rotation(k: int, d_model: int) -> Floats:
    """The matrix R_k with PE(p+k) = R_k · PE(p) for every p: [d_model, d_model] (paper §3.5).

    One 2 × 2 block for each pair of dimensions (sin ωp, cos ωp), which turns it by the angle ωk:
    [[cos ωk, sin ωk], [−sin ωk, cos ωk]].
    """
    matrix = np.zeros((d_model, d_model))
    for even in range(0, d_model, 2):
        angle = k / 10_000 ** (even / d_model)
        cos, sin = np.cos(angle), np.sin(angle)
        matrix[even : even + 2, even : even + 2] = [[cos, sin], [-sin, cos]]
    return matrix


def rotation_error(table: NDArray, k: int) -> float:
    """The largest |R_k · PE(p) − PE(p+k)| over all p that a table [length, d_model] holds."""
    turned = table[: len(table) - k].astype(np.float64) @ rotation(k, table.shape[1]).T
    return float(np.abs(turned - table[k:]).max(initial=0.0))


def products_by_distance(positions: NDArray) -> tuple[NDArray, Floats, Floats, Floats]:
    """Distances −(n−1) … n−1, and the mean, least and greatest product of the pairs at each."""
    table = positions.astype(np.float64)
    products = table @ table.T
    distance = np.arange(-len(table) + 1, len(table))
    diagonals = [np.diagonal(products, d) for d in distance]
    mean, low, high = (np.array([f(d) for d in diagonals]) for f in (np.mean, np.min, np.max))
    return distance, mean, low, high


@dataclass(frozen=True, eq=False)
class Sums(Frozen):
    """What adding positions does to a sentence's vectors: per token [N], and in a plane [N, 2].

    `content`, `position` and `total` are the lengths of embedding·√d_model, of PE and of their sum;
    `cosine` is between the embedding and the sum. `before` and `after` are embedding and sum in the
    plane in which these 2N points lie widest apart, which holds the share `explained` of their
    spread.
    """

    content: Floats
    position: Floats
    total: Floats
    cosine: Floats
    before: Floats
    after: Floats
    explained: float


def sums(content: Floats, position: Floats) -> Sums:
    """From embedding·√d_model [N, D] and PE [N, D] of one sentence."""
    total = content + position
    norms = [np.linalg.norm(x, axis=-1) for x in (content, position, total)]
    lengths = norms[0] * norms[2]
    dots = (content * total).sum(-1)
    points = np.concatenate([content, total])
    centred = points - points.mean(0)
    _, spread, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2] * np.where(axes[:2].sum(-1, keepdims=True) < 0, -1, 1)  # a sign, for good
    plane = centred @ axes.T
    return Sums(
        content=norms[0],
        position=norms[1],
        total=norms[2],
        cosine=np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0),
        before=plane[: len(content)],
        after=plane[len(content) :],
        explained=float((spread[:2] ** 2).sum() / (spread**2).sum()),
    )
