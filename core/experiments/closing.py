"""What closes a masked cell: a score of −∞, −10⁴ or −10⁹, in float32 and in bfloat16."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FILLS = (-math.inf, -1e4, -1e9)
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Closing:
    """One way to close cells, and what a row of attention then looks like.

    `held` is the fill as the precision can hold it. `scores` [keys] and `weights` [keys] are the
    row after the mask and after the softmax; `on_closed` is the weight that all closed cells get
    together, `change` the largest difference of an open weight from −∞ in float32. `nothing_open`
    [keys] are the weights where every cell is closed and the fill is written into the score,
    `nothing_added` where it is added to it; NaN means that the softmax has no answer.
    """

    fill: float
    precision: str
    held: float
    scores: Floats
    weights: Floats
    on_closed: float
    change: float
    nothing_open: Floats
    nothing_added: Floats


def closings(scores: NDArray, is_open: NDArray[np.bool_]) -> list[Closing]:
    """Each of FILLS in each of PRECISIONS on one row: scores [keys], mask [keys], True = open.

    Raises ValueError for a row of which no cell is open.
    """
    if not is_open.any():
        raise ValueError("the row has no open cell: there is nothing to compare")
    row, closed = torch.tensor(scores, dtype=torch.float64), torch.tensor(~is_open)
    exact = row.float().masked_fill(closed, -math.inf).softmax(-1).double()
    found = []
    for precision, dtype in PRECISIONS.items():
        for fill in FILLS:
            given = row.to(dtype)
            masked = given.masked_fill(closed, fill)
            weights = masked.softmax(-1).double()
            found.append(
                Closing(
                    fill=fill,
                    precision=precision,
                    held=torch.tensor(fill, dtype=dtype).item(),
                    scores=_numbers(masked),
                    weights=_numbers(weights),
                    on_closed=weights[closed].sum().item(),
                    change=(weights - exact)[~closed].abs().max().item(),
                    nothing_open=_numbers(torch.full_like(given, fill).softmax(-1)),
                    nothing_added=_numbers((given + fill).softmax(-1)),
                )
            )
    return found


def _numbers(tensor: Tensor) -> Floats:
    return tensor.double().numpy()
