"""Compute reference attention weights from scores, mask and edits in float64 NumPy.

Axes: L layer, H head, Q query, K key.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from core.frozen import Bools, Doubles
from core.kinds import Kind
from core.record.edits import Edge, Edits

LEAST_LIMIT = 1e-5
"""With scores of an ordinary size, float32 and float64 weights differ by about 1e-6 at most."""
_ERROR = 8 * 2.0**-24


def unmasked_cells(
    shape: tuple[int, ...], mask_QK: Bools, kind: Kind, edits: Edits = Edits()
) -> Bools:
    """Return which cells of one kind may hold weight: [L, H, Q, K].

    These cells are neither masked nor cut. In a row set by hand, they are the unmasked cells with a
    nonzero weight. A query may have no such cell.
    """
    cells = np.broadcast_to(mask_QK, shape)
    if not edits.changes_weights:
        return cells
    cells = cells.copy()
    for edge in edits.edges:
        if edge.kind == kind and edge.factor == 0:
            cells[_cells_of(edge)] = False
    for at, given_K in _given_rows(shape, mask_QK, kind, edits):
        cells[at] = given_K > 0
    return cells


def weights_of(scores_LHQK: NDArray, mask_QK: Bools, kind: Kind, edits: Edits = Edits()) -> Doubles:
    """Return softmax(QKᵀ/√d_k + mask) of all layers of one kind (paper eq. 1): [L, H, Q, K].

    Under edits, scores are divided by the head's temperature, or set to 0 in a uniform head. An
    edge adds ln(factor). A row set by hand replaces the result and is renormalised over its
    unmasked cells. A row without an unmasked cell is 0.
    """
    scores = np.array(scores_LHQK, np.float64)
    for one in edits.temperatures:
        if one.kind == kind:
            scores[one.layer, one.head] /= one.value
    for of_kind, layer, head in edits.heads_uniform:
        if of_kind == kind:
            scores[layer, head] = 0
    for edge in edits.edges:
        if edge.kind == kind and edge.factor > 0:
            scores[_cells_of(edge)] += math.log(edge.factor)
    scores = np.where(unmasked_cells(scores.shape, mask_QK, kind, edits), scores, -np.inf)
    peak = scores.max(-1, keepdims=True)
    exps = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    total = exps.sum(-1, keepdims=True)
    weights = exps / np.where(total > 0, total, 1)
    for at, given_K in _given_rows(scores.shape, mask_QK, kind, edits):
        weights[at] = given_K / (given_K.sum() or 1)
    return weights


def error_limits(
    scores_LHQK: NDArray, mask_QK: Bools, kind: Kind, edits: Edits = Edits()
) -> Doubles:
    """Return how far each head's float32 weights may differ from the softmax of these scores.

    A float32 score is off by a few times 2⁻²⁴ of its size, and a weight by at most half the largest
    error of its row's scores. For d_model 64 to 1024 and scores up to 440, measured errors are at
    most 3.7 · 2⁻²⁴ of the head's largest absolute score. The limit is about twice that, but at
    least `LEAST_LIMIT`. It is divided by a temperature below 1, because that magnifies errors. The
    shape is [L, H, 1, 1].
    """
    counted = mask_QK & np.isfinite(scores_LHQK)
    sizes = np.abs(scores_LHQK).max((-1, -2), keepdims=True, initial=0.0, where=counted)
    found = np.maximum(LEAST_LIMIT, _ERROR * sizes.astype(np.float64))
    for one in edits.temperatures:
        if one.kind == kind:
            found[one.layer, one.head] /= min(1.0, one.value)
    return found


def _cells_of(edge: Edge) -> tuple[slice, ...]:
    """Return an index of an edge's cells; out-of-range positions select nothing."""
    return tuple(slice(None) if i is None else slice(i, i + 1) for i in edge.where[1:])


def _given_rows(
    shape: tuple[int, ...], mask_QK: Bools, kind: Kind, edits: Edits
) -> list[tuple[tuple[int, int, int], Doubles]]:
    """Return (layer, head, query) of each row set by hand, and its unmasked weights [K]."""
    *_, Q, K = shape
    found = []
    for row in edits.rows:
        if row.kind == kind and row.query < Q:
            given_K = np.zeros(K)
            given_K[: len(row.weights)] = row.weights[:K]
            found.append(((row.layer, row.head, row.query), given_K * mask_QK[row.query]))
    return found
