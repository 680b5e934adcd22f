"""Check imported maps without a network: shapes, probabilities, and no attention to the future."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from core.frozen import Bools, Floats
from core.kinds import Kind
from core.record.parts import RecordCheck

ROW_LIMIT = 1e-3
"""Largest accepted deviation of a row's sum from 1; float16 weights deviate by up to 5e-4."""
NEED_WEIGHTS = (
    "Recomputed outside the model",
    "Labels match the model's inputs",
    "Texts match the token ids",
    "Log-probabilities recomputed",
    "Positions recomputed",
    "Recording leaves the output unchanged",
)
"""The checks of core.record.checks that need the network and cannot run on imported maps."""

_AXES = "[layer, head, query, key]"


def reject_invalid(kind: str, weights: Any, size: tuple[int, int]) -> None:
    """Raise ValueError, in one line, unless a kind's maps have `size` and rows of probabilities.

    The line names the first bad map, counted from 1. `size` are the numbers of queries and keys.
    """
    if weights.dtype.kind not in "fiu":
        raise ValueError(f"{kind} is {weights.dtype} {weights.shape}, not numbers {_AXES}")
    if weights.ndim != 4:
        raise ValueError(f"{kind} has {weights.ndim} axes {weights.shape}, not {_AXES}")
    if weights.shape[2:] != size:
        rows, columns = weights.shape[2:]
        raise ValueError(
            f"{kind} has {rows} queries and {columns} keys, but the tokens need {size[0]} and "
            f"{size[1]}: pass one source token per key of cross, one target token per decoder row"
        )
    wrong = {
        "a weight that is NaN or infinite": ~np.isfinite(weights),
        "a negative weight": weights < 0,
    }
    for what, cells in wrong.items():
        if cells.any():
            layer, head, *_ = np.argwhere(cells)[0]
            raise ValueError(f"{kind}, layer {layer + 1}, head {head + 1} holds {what}")
    with np.errstate(over="ignore"):  # huge weights sum to infinity
        off = np.abs(weights.sum(-1, dtype=np.float64) - 1)
    if off.size and off.max() > ROW_LIMIT:
        layer, head, row = np.argwhere(off > ROW_LIMIT)[0]
        total = sum(weights[layer, head, row].tolist())
        raise ValueError(
            f"{kind}, layer {layer + 1}, head {head + 1}, row {row + 1} sums to {total:.5g}, not "
            f"to 1 within {ROW_LIMIT}: pass the weights of all keys, after the softmax and before "
            "dropout, in float32 or float16"
        )


def imported_mask(kind: Kind, weights: Floats) -> Bools:
    """Return the mask [query, key] of imported maps of a kind, True = may attend.

    A decoder whose weights above the diagonal are all exactly 0 is causal. Nothing else is masked.
    """
    mask = np.ones(weights.shape[2:], bool)
    past = np.tri(len(mask), dtype=bool)
    return past if kind == "decoder" and not weights[..., ~past].any() else mask


def check_maps(maps: Mapping[Kind, Floats]) -> tuple[RecordCheck, ...]:
    """Return the checks of imported maps that need no network."""
    off, rows = 0.0, 0
    for weights in maps.values():
        sums = weights.sum(-1, dtype=np.float64)
        off, rows = max(off, float(np.abs(sums - 1).max(initial=0))), rows + sums.size
    words = f"The sum of each of {rows:,} rows. Shown: the largest deviation from 1."
    checks = [RecordCheck("Every row sums to 1", off <= ROW_LIMIT, off, ROW_LIMIT, words)]
    if (decoder := maps["decoder"]).size:
        later = decoder[..., ~np.tri(decoder.shape[-1], dtype=bool)]
        leaks = float(np.count_nonzero(later))
        words = (
            f"{later.size:,} weights of the decoder on later target tokens should be exactly 0, "
            "as with a causal mask. Shown: the number that are not."
        )
        checks.append(RecordCheck("No attention to later tokens", leaks == 0, leaks, 0.0, words))
    return tuple(checks)
