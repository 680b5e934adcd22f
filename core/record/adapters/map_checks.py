"""Check imported maps without a network: shapes, probabilities, and no attention to the future."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from core.kinds import KINDS
from core.record.record import ROW_LIMIT, RecordCheck, TranslationRecord

_AXES = "[layer, head, query, key]"


def reject_invalid(kind: str, weights: Any, size: tuple[int, int]) -> None:
    """Raise ValueError, in one line, for maps of a kind that are not `size` rows of probabilities.

    The line names the first bad map, counted from 1. `size` are the numbers of queries and keys.
    """
    if weights.dtype.kind not in "fiu" or weights.ndim != 4:
        raise ValueError(f"{kind} is {weights.dtype} {weights.shape}, not numbers {_AXES}")
    if weights.shape[2:] != size:
        rows, columns = weights.shape[2:]
        raise ValueError(
            f"{kind} has {rows} queries and {columns} keys, but the tokens make {size[0]} and "
            f"{size[1]}: the source has one token per key of cross, the target one per decoder row"
        )
    wrong = {
        "a weight that is NaN or infinite": ~np.isfinite(weights),
        "a negative weight": weights < 0,
    }
    for what, cells in wrong.items():
        if cells.any():
            layer, head, *_ = np.argwhere(cells)[0]
            raise ValueError(f"{kind}, layer {layer + 1}, head {head + 1} holds {what}")
    off = np.abs(weights.sum(-1, dtype=np.float64) - 1)
    if off.size and off.max() > ROW_LIMIT:
        layer, head, row = np.argwhere(off > ROW_LIMIT)[0]
        total = weights[layer, head, row].sum(dtype=np.float64)
        raise ValueError(
            f"{kind}, layer {layer + 1}, head {head + 1}, row {row + 1} sums to {total:.4f}, not "
            f"to 1 within {ROW_LIMIT}: pass weights after the softmax, before dropout, of all keys "
            "and in float32 or float16"
        )


def check_maps(record: TranslationRecord) -> TranslationRecord:
    """Return an imported record with the checks that need no network, made now."""
    off, rows = 0.0, 0
    for kind in KINDS:
        sums = record.maps(kind).sum(-1, dtype=np.float64)
        off, rows = max(off, float(np.abs(sums - 1).max(initial=0))), rows + sums.size
    words = f"The sum of each of {rows:,} rows. Shown: the largest deviation from 1."
    checks = [RecordCheck("Every row sums to 1", off <= ROW_LIMIT, off, ROW_LIMIT, words)]
    if record.has("decoder"):
        future = ~np.tri(len(record.target_out), dtype=bool)
        found = record.decoder[..., future]
        leaks = float(np.count_nonzero(found))
        words = (
            f"{found.size:,} weights of the decoder on later target tokens should be exactly 0, "
            "as with a causal mask. Shown: the number that are not."
        )
        checks.append(RecordCheck("No attention to later tokens", leaks == 0, leaks, 0.0, words))
    return replace(record, checks=tuple(checks))
