"""What closes a masked cell: a score of −∞, or one that is only very low, in two precisions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CLOSINGS = (
    (-np.inf, np.float32),
    (-1e4, np.float32),
    (-1e4, np.float16),
    (-1e9, np.float16),
)


@dataclass(frozen=True)
class Closing:
    """One way to close cells, and what a row of attention then looks like.

    `on_closed` is the weight that all closed cells of the row get together, `change` the largest
    difference of an open weight from −∞ in float32, `nothing_open` the weight of each cell in a
    row of which every cell is closed; NaN means that the softmax has no answer.
    """

    score: float
    precision: str
    on_closed: float
    change: float
    nothing_open: float


def closings(weights: NDArray[np.float32], is_open: NDArray[np.bool_]) -> list[Closing]:
    """Each of CLOSINGS on one row of a map: weights [keys] and its mask [keys], True = open.

    The row's scores are the logarithms of its weights, up to a constant that a softmax takes away;
    what the closed cells had scored does not matter, since it is overwritten.
    Raises ValueError for a row of which no cell is open.
    """
    if not is_open.any():
        raise ValueError("the row has no open cell: there is nothing to compare")
    lowest = np.finfo(np.float32).tiny  # an open weight may be so small that it was rounded to 0
    scores = np.log(np.maximum(weights, lowest))
    exact = _softmax(np.where(is_open, scores, -np.inf).astype(np.float32))
    found = []
    for score, dtype in CLOSINGS:
        with np.errstate(over="ignore", invalid="ignore"):  # −1e9 is −∞ in float16; ∞ − ∞
            row = _softmax(np.where(is_open, scores, score).astype(dtype))
            nothing = _softmax(np.full(len(scores), score).astype(dtype))
        change = np.abs(row.astype(np.float64) - exact)[is_open].max()
        on_closed = float(row[~is_open].sum(dtype=np.float64))
        precision = np.dtype(dtype).name
        found.append(Closing(score, precision, on_closed, float(change), float(nothing[0])))
    return found


def _softmax(scores: NDArray) -> NDArray:
    """In the precision of the scores, largest first taken away, as every library does it."""
    shares = np.exp(scores - scores.max())
    return shares / shares.sum(dtype=scores.dtype)
