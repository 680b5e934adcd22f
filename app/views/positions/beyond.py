"""Compares sinusoids with a learned table, and extrapolates beyond training positions."""

import streamlit as st

import core
from app.figures import positions
from app.figures.experiments import extrapolation_figure
from app.lessons.texts import text
from app.look.markdown import plain
from app.look.numbers import percent
from app.state import models, results
from app.views.positions.formula import embedding
from app.views.shared.choices import choose
from app.views.shared.figure import show
from app.views.shared.inspection import Inspection
from core.checkpoint.folder import Card
from core.data.corpora import LANGUAGES

_ROWS = 48  # rows of a table that are drawn


def compare_tables(_: Inspection) -> None:
    """Show both kinds of table and their dot products, if a checkpoint has a learned one."""
    cards = {card.title: card for card in models.cards().values() if card.model.learned_positions}
    st.write(text("positions", "learned.about"))
    if not cards:
        st.write(text("positions", "learned.none"))
        return
    names = {name: plain(name) for name in cards}
    name = choose("Learned by", names, next(iter(names)), "learned_model")
    card = cards[name]
    length = min(_ROWS, card.model.max_length)
    tables = {
        "waves": positions.sinusoid_table(length, card.model.d_model),
        "learned": results.run(card, core.position_encodings, length),
    }
    columns = st.columns(2)
    for column, (kind, rows) in zip(columns, tables.items(), strict=True):
        with column:
            title = "Sinusoids, by the formula" if kind == "waves" else f"Learned, {name}"
            show(positions.table_figure(rows, None, title), f"table_{kind}")
            show(positions.dot_product_figure(rows), f"products_{kind}")
    st.caption(text("positions", "learned.look"))
    st.latex(rf"x_p = {embedding(card)} + P_p, \quad P \text{{ trained like }} E")


def show_extrapolation(inspection: Inspection) -> None:
    """Show the same sentence with k added to every position of both sides."""
    longest, reached = _longest_in_training(inspection.card)
    st.write(text("positions", "beyond.about", reached=reached))
    own = max(len(inspection.record.source), len(inspection.record.target_out))
    last = 4 * longest
    if inspection.card.model.learned_positions:
        last = inspection.card.model.max_length - own
    steps = tuple(sorted({*range(0, last + 1, max(1, last // 32)), last}))
    result = inspection.run(core.extrapolation, inspection.source_ids, inspection.target_ids, steps)
    show(
        extrapolation_figure(result.shift, result.probability, longest - own),
        "extrapolation",
        text("positions", "beyond.look" if own <= longest else "beyond.never"),
    )
    st.latex(f"x_p = {embedding(inspection.card)} + PE_{{p+k}}")
    within = result.shift <= longest - own
    inside, outside = result.probability[within], result.probability[~within]
    lowest = result.probability.argmin()
    if not len(inside):
        st.write(
            text(
                "positions",
                "beyond.outside-larger" if len(outside) > 1 else "beyond.outside",
                own=own,
                first=percent(outside[0]),
                larger=percent(outside[1:].mean()) if len(outside) > 1 else "",
            )
        )
    elif len(outside):
        st.write(
            text(
                "positions",
                "beyond.measured",
                inside=percent(inside.mean()),
                outside=percent(outside.mean()),
                lowest=percent(result.probability[lowest]),
                k=result.shift[lowest],
            )
        )
    else:
        st.write(text("positions", "beyond.no-rows"))


def _longest_in_training(card: Card) -> tuple[int, str]:
    """Return the number of positions that training can have used, and a sentence about it."""
    if sides := card.training.get("longest"):
        return max(sides), text(
            "positions",
            "beyond.longest",
            source_tokens=sides[0],
            source=plain(LANGUAGES[card.source_language]),
            target_tokens=sides[1],
            target=plain(LANGUAGES[card.target_language]),
        )
    limit = card.training.get("config", {}).get("max_pair_tokens", card.model.max_length)
    return limit, text("positions", "beyond.limit", limit=limit)
