"""Where two records of the same source and the same target differ most, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.analysis.matching import Matching
from core.kinds import KINDS
from core.record.record import TranslationRecord

SAME = 1e-5
"""Up to this, two float32 passes over the same weights differ by rounding alone."""


@dataclass(frozen=True)
class Largest:
    """The cell in which two records differ most, and its two weights.

    `layer` and `head` are the first record's; `second_layer` and `second_head` are the ones it was
    compared with: the same, unless heads were matched.
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
    """Raises ValueError, in one line, unless every cell of one record has its cell in the other."""
    for side, name in (("source", "sentence"), ("target_in", "translation")):
        tokens, others = (list(getattr(record, side)) for record in (first, second))
        if [(t.id, t.piece) for t in tokens] == [(t.id, t.piece) for t in others]:
            continue
        if [t.piece for t in tokens] == [t.piece for t in others]:
            differ = (
                f"the two models have vocabularies of their own, though both cut the {name} alike"
            )
        else:
            counts = f" ({len(tokens)} and {len(others)})" if len(tokens) != len(others) else ""
            differ = f"the two models cut the {name} into different tokens{counts}"
        raise ValueError(
            f"{differ}: their maps cannot be subtracted, choose two with one vocabulary"
        )
    for kind in KINDS:
        (a, b), (c, d) = (r.maps(kind).shape[:2] for r in (first, second))
        if (a, b) != (c, d):
            raise ValueError(
                f"{a} layers × {b} heads and {c} × {d} ({kind}): their maps cannot be subtracted, "
                "choose two models of one shape"
            )


def differences(
    first: TranslationRecord,
    second: TranslationRecord,
    kind: str,
    matching: Matching | None = None,
) -> NDArray[np.float64]:
    """First minus second [layer, head, query, key], in the first record's order of heads."""
    others = second.maps(kind)
    if matching is not None:
        others = matching.reordered(others)
    return first.maps(kind).astype(np.float64) - others


def largest_difference(
    first: TranslationRecord,
    second: TranslationRecord,
    matchings: Mapping[str, Matching] | None = None,
) -> Largest:
    """The largest difference, by size, over every kind, layer, head, query and key.

    `matchings` by kind say which head of the second belongs to which of the first; without it head
    is compared with head of the same number. Raises ValueError as `check_comparable` does.
    """
    check_comparable(first, second)
    by_kind = {
        kind: differences(first, second, kind, matchings[kind] if matchings else None)
        for kind in KINDS
    }
    kind = max(KINDS, key=lambda k: np.abs(by_kind[k]).max())
    size = np.abs(by_kind[kind])
    layer, head, query, key = map(int, np.unravel_index(size.argmax(), size.shape))
    there = matchings[kind].of(layer, head) if matchings else (layer, head)
    return Largest(
        kind=kind,
        layer=layer,
        head=head,
        second_layer=there[0],
        second_head=there[1],
        query=query,
        key=key,
        first=float(first.maps(kind)[layer, head, query, key]),
        second=float(second.maps(kind)[(*there, query, key)]),
    )
