"""Why a head looks there: a cell's score by what wrote its query and what wrote its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app.figures.why import terms_figure
from app.look.numbers import number, scientific
from app.state import results, visit
from app.views.shared.figure import show
from core.checkpoint.folder import Card
from core.record.record import TranslationRecord

if TYPE_CHECKING:  # torch takes seconds: it is imported when a model is loaded
    from core.experiments.score_split import ScoreSplit

_TERMS = 14


def why(card: Card, record: TranslationRecord, place: dict[str, int | str]) -> None:
    """The largest terms of one cell's score, and what it does without the largest parts."""
    st.write(
        "The query is made of what token, position, earlier heads and feed-forward layers wrote "
        "at its place, and so is the key. Their product is a sum of products: each part of the "
        "one times each part of the other."
    )
    cell = (place[name] for name in ("kind", "layer", "head", "q", "k"))
    split: ScoreSplit = results.ask(card, "core.experiments.score_split:score_split", record, *cell)
    largest = split.largest(_TERMS)
    rest = split.score - sum(term for *_, term in largest)
    shown = [f"{query.label} × {key.label}" for query, key, _ in largest]
    show(
        terms_figure(
            [*shown, f"{split.terms.size - len(largest):,} others"],
            [*(term for *_, term in largest), rest],
            f"The score {number(split.score, 3, sign='+')} as a sum: query × key",
            f"{split.terms.size:,} terms, which add up to it to {scientific(split.largest_error)}; "
            "layer norm at its actual scale",
            "score",
            visit.theme(),
        ),
        "why_score",
        "Position × position means: it looks by place. Token × token: it looks for a word. A head "
        "in a term was there before, and this one builds on it.",
    )
    st.container(key="why_removals").table(
        {
            "without": [f"{one.component.label} ({one.end})" for one in split.removals],
            "score, norm held": [_move(one.predicted.score) for one in split.removals],
            "norm taken anew": [_move(one.true.score) for one in split.removals],
            "head off everywhere": [
                "" if one.whole is None else _move(one.whole.score) for one in split.removals
            ],
            "weight": [_move(one.true.weight) for one in split.removals],
        },
        border="horizontal",
        hide_index=True,
    )
    st.caption(
        "The largest parts, taken out one at a time: how the score moves with the norm held, with "
        "the norm taken anew, and, of a head, when it is switched off in the whole pass. Last, "
        "how the weight moves with the norm taken anew."
    )


def _move(value: float) -> str:
    return number(value, 3, sign="+")
