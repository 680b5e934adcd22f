"""Why a head looks there: its score, split by the summands of its query and key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

import core
from app.figures.why import Grid, terms_figure, words_grid_figure
from app.look.numbers import number, scientific
from app.state import results
from app.views.shared.figure import show
from core.checkpoint.folder import Card
from core.record.record import TranslationRecord

if TYPE_CHECKING:  # imports torch, which takes seconds
    from core.experiments.score_split import ScoreSplit

_TERMS = 8


def show_score_split(card: Card, record: TranslationRecord, place: dict[str, int | str]) -> None:
    """Show one score by kinds of components, its largest terms, and the effect of removals."""
    st.write(
        "The query is computed from a vector that is a sum: the token's embedding, its position, "
        "the outputs of earlier heads and feed-forward layers, and constant terms. The same holds "
        "for the key. So the score is a sum of products: each part of the query times each part of "
        "the key."
    )
    cell = (place[name] for name in ("kind", "layer", "head", "q", "k"))
    split: ScoreSplit = results.run_experiment(card, core.score_split, record, *cell)
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
            f"The score {number(split.score, 2, sign='+')}, split by parts of query and key",
            "rows: parts of the query; columns: parts of the key; "
            f"all cells{' and the bias by distance' * bool(split.distance)} add up to the score "
            f"within {scientific(split.largest_error)}",
            float(np.abs(sums).max()) or 1.0,
            True,
        ),
        "why_score",
        "Large position × position: position contributes much to this score. Large token × token: "
        "the tokens do. A large row or column of heads: earlier heads do. A part that is the "
        "same for every key changes no weight; norms and biases often contribute such a part.",
    )
    largest = split.largest(_TERMS)
    others = split.terms.size - len(largest)
    rest = float(split.terms.sum()) - sum(term for *_, term in largest)
    shown = [f"{query.label}\n× {key.label}" for query, key, _ in largest]
    if split.distance:
        shown, largest = [*shown, "bias by distance"], [*largest, (None, None, split.distance)]
    show(
        terms_figure(
            [*shown, f"sum of the other\n{others:,} products"],
            [*(term for *_, term in largest), rest],
            "The largest single terms",
            f"of {split.terms.size:,}; layer norms fixed at their actual scale",
            "score",
        ),
        "why_terms",
        "Each bar is one product of a part of the query and a part of the key; the last bar adds "
        f"up the other {others:,}. {_effect(rest)}",
    )
    st.container(key="why_removals").table(
        {
            "without": [f"{one.component.label} ({one.end})" for one in split.removals],
            "Δ score, norm fixed": [_change(one.predicted.score) for one in split.removals],
            "Δ score, norm recomputed": [_change(one.true.score) for one in split.removals],
            "Δ score, head off in the whole pass": [
                "" if one.whole is None else _change(one.whole.score) for one in split.removals
            ],
            "Δ weight, norm recomputed": [_change(one.true.weight) for one in split.removals],
        },
        border="horizontal",
        hide_index=True,
    )
    st.caption(
        "Each row removes one of the largest parts. The score's change is given with the layer "
        "norm fixed at its scale, with the norm recomputed and, for a head, with the head switched "
        "off in the whole pass. The last column is the weight's change with the norm recomputed."
    )


def _effect(rest: float) -> str:
    """Say in words what the sum of the other products does to the score."""
    verb = "raise" if rest > 0 else "lower"
    return f"Together, they {verb} the score by {number(abs(rest), 2)}."


def _change(value: float) -> str:
    return number(value, 3, sign="+")
