"""The weights that scores, a mask and edits come to, worked out in numpy and float64.

Axes: L layer, H head, Q query, K key.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from core.kinds import Kind
from core.record.edits import Edge, Edits

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


def open_cells(shape: tuple[int, ...], mask_QK: Bools, kind: Kind, edits: Edits = Edits()) -> Bools:
    """Which cells of one kind may hold weight, [L, H, Q, K]: neither masked nor cut by an edit.

    Of a row that is given by hand, where it gives weight; a query may be left with no cell at all.
    """
    cells = np.broadcast_to(mask_QK, shape)
    if not edits.changes_weights:
        return cells
    cells = cells.copy()
    for edge in edits.edges:
        if edge.kind == kind and edge.factor == 0:
            cells[_cells_of(edge)] = False
    for (layer, head, query), given_K in _given_rows(shape, mask_QK, kind, edits):
        cells[layer, head, query] = given_K > 0
    return cells


def weights_of(scores_LHQK: NDArray, mask_QK: Bools, kind: Kind, edits: Edits = Edits()) -> Doubles:
    """softmax(QKᵀ/√d_k + mask) of all layers of one kind (paper eq. 1): weights [L, H, Q, K].

    Under edits: the scores are divided by a head's temperature, or are all 0 in a uniform head;
    an edge adds ln(factor); a given row stands as it is, its weights over the sum of those that
    the mask leaves. A row without an open cell stays 0.
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
    scores = np.where(open_cells(scores.shape, mask_QK, kind, edits), scores, -np.inf)
    peak = scores.max(-1, keepdims=True)
    shares = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    total = shares.sum(-1, keepdims=True)
    weights = shares / np.where(total > 0, total, 1)
    for (layer, head, query), given_K in _given_rows(scores.shape, mask_QK, kind, edits):
        weights[layer, head, query] = given_K / (given_K.sum() or 1)
    return weights


def sharpness(shape: tuple[int, ...], kind: Kind, edits: Edits = Edits()) -> Doubles:
    """How many times a head's temperature magnifies what rounding does to a score, [L, H, 1, 1].

    A temperature above 1 is counted as 1.
    """
    found = np.ones((*shape[:2], 1, 1))
    for one in edits.temperatures:
        if one.kind == kind:
            found[one.layer, one.head] = max(1.0, 1 / one.value)
    return found


def _cells_of(edge: Edge) -> tuple[slice, ...]:
    """An edge's cells; what lies behind the end of a map is none."""
    return tuple(slice(None) if i is None else slice(i, i + 1) for i in edge.where[1:])


def _given_rows(
    shape: tuple[int, ...], mask_QK: Bools, kind: Kind, edits: Edits
) -> list[tuple[tuple[int, int, int], Doubles]]:
    """Where each given row stands, and its weights [K] where the mask leaves them."""
    *_, Q, K = shape
    found = []
    for row in edits.rows:
        if row.kind == kind and row.query < Q:
            given_K = np.zeros(K)
            given_K[: len(row.weights)] = row.weights[:K]
            found.append(((row.layer, row.head, row.query), given_K * mask_QK[row.query]))
    return found
