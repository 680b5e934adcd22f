"""Why a head looks there: a score split by the components that wrote query and key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

import core
from app.figures.why import Grid, terms_figure, words_grid_figure
from app.look.numbers import number, scientific
from app.state import results, visit
from app.views.shared.figure import show
from core.checkpoint.folder import Card
from core.record.record import TranslationRecord

if TYPE_CHECKING:  # imports torch, which takes seconds
    from core.experiments.score_split import ScoreSplit

_TERMS = 8


def why(card: Card, record: TranslationRecord, place: dict[str, int | str]) -> None:
    """Show one score by kinds of components, its largest terms, and the effect of removals."""
    st.write(
        "The vector that the query is computed from is a sum: the token's embedding, its position, "
        "and what earlier heads and feed-forward layers added. So is the vector of the key. Their "
        "dot product is therefore a sum of products, each part of one times each part of the other."
    )
    cell = (place[name] for name in ("kind", "layer", "head", "q", "k"))
    split: ScoreSplit = results.ask(card, core.score_split, record, *cell)
    rows, columns, sums = split.by_group()
    added = [[number(value, 2, sign="+") for value in row] for row in sums]
    show(
        words_grid_figure(
            Grid(
                rows,
                columns,
                sums,
                added,
                [
                    [f"{row} × {column}: <b>{added[r][c]}</b>" for c, column in enumerate(columns)]
                    for r, row in enumerate(rows)
                ],
            ),
            f"The score {number(split.score, 3, sign='+')} as a sum: query × key",
            "rows: what wrote the query; columns: what wrote the key; "
            f"all cells add up to it to {scientific(split.largest_error)}",
            float(np.abs(sums).max()) or 1.0,
            True,
            visit.theme(),
        ),
        "why_score",
        "Much in position × position: the head attends by position. Much in token × token: by "
        "word. A row or column of heads: it builds on earlier heads. What is the same for every "
        "key changes no weight, and what norms and biases add is often nearly so.",
    )
    largest = split.largest(_TERMS)
    rest = split.score - sum(term for *_, term in largest)
    shown = [f"{query.label}\n× {key.label}" for query, key, _ in largest]
    show(
        terms_figure(
            [*shown, f"{split.terms.size - len(largest):,} others"],
            [*(term for *_, term in largest), rest],
            "Its largest single terms",
            f"of {split.terms.size:,}; layer norm at its actual scale",
            "score",
            visit.theme(),
        ),
        "why_terms",
    )
    st.container(key="why_removals").table(
        {
            "without": [f"{one.component.label} ({one.end})" for one in split.removals],
            "Δ score, norm fixed": [_move(one.predicted.score) for one in split.removals],
            "Δ score, norm recomputed": [_move(one.true.score) for one in split.removals],
            "Δ score, head off everywhere": [
                "" if one.whole is None else _move(one.whole.score) for one in split.removals
            ],
            "Δ weight, norm recomputed": [_move(one.true.weight) for one in split.removals],
        },
        border="horizontal",
        hide_index=True,
    )
    st.caption(
        "The largest parts, removed one at a time: the change of the score with the layer norm "
        "fixed at its scale, with the norm recomputed, and, for a head, with the head switched off "
        "in the whole pass. Last, the change of the weight with the norm recomputed."
    )


def _move(value: float) -> str:
    return number(value, 3, sign="+")
