"""Compare, cell by cell, the attention maps of two records with the same source and target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from core.analysis.matching import Matching
from core.frozen import Doubles
from core.kinds import KINDS
from core.record.record import TranslationRecord

SAME = 1e-5
"""Differences up to this are rounding errors between two float32 passes with the same weights."""


@dataclass(frozen=True)
class Largest:
    """The cell where two records differ most, and its two weights.

    `layer` and `head` locate the cell in the first record, `second_layer` and `second_head` in the
    second. Both pairs of numbers are equal unless heads were matched.
    """

    kind: str
    layer: int
    head: int
    second_layer: int
    second_head: int
    query: int
    key: int
    first: float
    second: float

    @property
    def difference(self) -> float:
        return self.first - self.second


def check_comparable(first: TranslationRecord, second: TranslationRecord) -> None:
    """Raise a one-line ValueError unless the two records have the same tokens and map shapes."""
    for side, name in (("source", "sentence"), ("target_in", "translation")):
        tokens, others = (list(getattr(record, side)) for record in (first, second))
        if [(t.id, t.piece) for t in tokens] == [(t.id, t.piece) for t in others]:
            continue
        if [t.piece for t in tokens] == [t.piece for t in others]:
            differ = f"the two models split the {name} alike, but their vocabularies differ"
        else:
            counts = f" ({len(tokens)} and {len(others)})" if len(tokens) != len(others) else ""
            differ = f"the two models split the {name} into different tokens{counts}"
        raise ValueError(
            f"{differ}: their maps cannot be subtracted; choose two that share a vocabulary"
        )
    for kind in KINDS:
        (a, b), (c, d) = (r.maps(kind).shape[:2] for r in (first, second))
        if (a, b) != (c, d):
            raise ValueError(
                f"{a} layers × {b} heads and {c} × {d} ({kind}): their maps cannot be subtracted; "
                "choose two models of the same shape"
            )


def differences(
    first: TranslationRecord, second: TranslationRecord, kind: str, matching: Matching | None = None
) -> Doubles:
    """Return first minus second, [layer, head, query, key], in the first record's head order."""
    others = second.maps(kind)
    if matching is not None:
        others = matching.reordered(others)
    return first.maps(kind).astype(np.float64) - others


def largest_difference(
    first: TranslationRecord,
    second: TranslationRecord,
    matchings: Mapping[str, Matching] | None = None,
) -> Largest:
    """Return the cell with the largest absolute difference over all kinds, layers and heads.

    `matchings`, by kind, pair the heads of the two records. Without matchings, heads with equal
    layer and head numbers are compared. Raises ValueError as `check_comparable` does.
    """
    check_comparable(first, second)
    return largest_cell(first, second, matchings)


def same_shapes(first: TranslationRecord, second: TranslationRecord) -> bool:
    """Return whether two records have maps of the same kinds and shapes, so of as many tokens."""
    kinds = [{kind: r.maps(kind).shape for kind in KINDS if r.has(kind)} for r in (first, second)]
    return kinds[0] == kinds[1]


def largest_cell(
    first: TranslationRecord,
    second: TranslationRecord,
    matchings: Mapping[str, Matching] | None = None,
) -> Largest:
    """Return what `largest_difference` does, of records with the `same_shapes` but other tokens.

    Cells are compared by position.
    """
    by_kind = {
        kind: differences(first, second, kind, matchings[kind] if matchings else None)
        for kind in KINDS
        if first.has(kind)
    }
    kind = max(by_kind, key=lambda k: np.abs(by_kind[k]).max())
    size = np.abs(by_kind[kind])
    layer, head, query, key = map(int, np.unravel_index(size.argmax(), size.shape))
    partner = matchings[kind].of(layer, head) if matchings else (layer, head)
    return Largest(
        kind=kind,
        layer=layer,
        head=head,
        second_layer=partner[0],
        second_head=partner[1],
        query=query,
        key=key,
        first=float(first.maps(kind)[layer, head, query, key]),
        second=float(second.maps(kind)[(*partner, query, key)]),
    )
