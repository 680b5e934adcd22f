"""Properties of a position table: rotations, dot products by distance, sums with embeddings."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.config import PositionTable
from core.frozen import Doubles, Frozen


def rotation(k: int, d_model: int, table: PositionTable = "paper") -> Doubles:
    """Return R_k [d_model, d_model] with PE(p+k) = R_k · PE(p) for every p (paper §3.5).

    Each pair of dimensions (sin ωp, cos ωp) is rotated by the angle ωk with the 2 × 2 block
    [[cos ωk, sin ωk], [−sin ωk, cos ωk]].
    """
    matrix, width = np.zeros((d_model, d_model)), d_model - 2 * (table == "fairseq")
    for even in range(0, d_model, 2):
        angle = k / 10_000 ** (even / width)
        cos, sin = np.cos(angle), np.sin(angle)
        matrix[even : even + 2, even : even + 2] = [[cos, sin], [-sin, cos]]
    return matrix


def rotation_error(table: NDArray, k: int, kind: PositionTable = "paper") -> float:
    """Return the largest |R_k · PE(p) − PE(p+k)| over all p in a table [length, d_model]."""
    rotated = table[: len(table) - k].astype(np.float64) @ rotation(k, table.shape[1], kind).T
    return float(np.abs(rotated - table[k:]).max(initial=0.0))


def products_by_distance(positions: NDArray) -> tuple[NDArray, Doubles, Doubles, Doubles]:
    """Return distances −(n−1) … n−1 and the mean, minimum and maximum dot product at each."""
    table = positions.astype(np.float64)
    products = table @ table.T
    distance = np.arange(-len(table) + 1, len(table))
    diagonals = [np.diagonal(products, d) for d in distance]
    mean, low, high = (np.array([f(d) for d in diagonals]) for f in (np.mean, np.min, np.max))
    return distance, mean, low, high


@dataclass(frozen=True, eq=False)
class Sums(Frozen):
    """The effect of adding position encodings to a sentence's N embeddings.

    `content`, `position` and `total` [N] are the norms of embedding·√d_model, of PE and of their
    sum. `cosine` [N] is between the embedding and the sum, 0 where either is 0. `before` and
    `after` [N, 2] are embedding and sum, projected onto the first two principal components of all
    2N points. These components explain the share `explained` of the points' variance.
    """

    content: Doubles
    position: Doubles
    total: Doubles
    cosine: Doubles
    before: Doubles
    after: Doubles
    explained: float


def sums(content: Doubles, position: Doubles) -> Sums:
    """Compute `Sums` from embedding·√d_model [N, D] and PE [N, D] of one sentence."""
    total = content + position
    norms = [np.linalg.norm(x, axis=-1) for x in (content, position, total)]
    lengths = norms[0] * norms[2]
    dots = (content * total).sum(-1)
    points = np.concatenate([content, total])
    centred = points - points.mean(0)
    _, spread, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2] * np.where(axes[:2].sum(-1, keepdims=True) < 0, -1, 1)  # fix the signs
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
