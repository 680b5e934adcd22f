"""Compare mask values on one row of scores: −∞, −10⁴ and −10⁹, in float32 and bfloat16."""

import math
from dataclasses import dataclass

import torch
from numpy.typing import NDArray
from torch import Tensor

from core.frozen import Bools, Doubles, Frozen

FILLS = (-math.inf, -1e4, -1e9)
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, eq=False)
class MaskedRow(Frozen):
    """A row of attention with one mask value in one precision.

    `rounded` is `fill` in that precision. `scores` and `weights` [keys] are the row after the mask
    and after the softmax. `on_masked` is the total weight of the masked cells; `change` is the
    largest difference of an unmasked weight from its value with −∞ in float32. `all_written` and
    `all_added` [keys] are the weights when every cell is masked: `all_written` by overwriting each
    score with the fill, `all_added` by adding the fill to it. They are NaN where the softmax is
    undefined.
    """

    fill: float
    precision: str
    rounded: float
    scores: Doubles
    weights: Doubles
    on_masked: float
    change: float
    all_written: Doubles
    all_added: Doubles


def masked_rows(scores: NDArray, mask: Bools) -> list[MaskedRow]:
    """Mask one row, scores [keys] and mask [keys], with each fill in each precision.

    True in a mask = may attend. Raises ValueError if every cell of the row is masked.
    """
    if not mask.any():
        raise ValueError("every cell of the row is masked: there is nothing to compare")
    row, masked = torch.tensor(scores, dtype=torch.float64), torch.tensor(~mask)
    exact = row.float().masked_fill(masked, -math.inf).softmax(-1).double()
    rows = []
    for precision, dtype in PRECISIONS.items():
        for fill in FILLS:
            row_in_dtype = row.to(dtype)
            written = row_in_dtype.masked_fill(masked, fill)
            weights = written.softmax(-1).double()
            rows.append(
                MaskedRow(
                    fill=fill,
                    precision=precision,
                    rounded=torch.tensor(fill, dtype=dtype).item(),
                    scores=_array(written),
                    weights=_array(weights),
                    on_masked=weights[masked].sum().item(),
                    change=(weights - exact)[~masked].abs().max().item(),
                    all_written=_array(torch.full_like(row_in_dtype, fill).softmax(-1)),
                    all_added=_array((row_in_dtype + fill).softmax(-1)),
                )
            )
    return rows


def _array(tensor: Tensor) -> Doubles:
    return tensor.double().numpy()
