"""Compares sinusoids with a learned table, and extrapolates beyond training positions."""

import streamlit as st

import core
from app.figures import positions
from app.figures.experiments import extrapolation_figure
from app.look.markdown import plain
from app.look.numbers import percent
from app.state import models, results, waiting
from app.views.positions.formula import embedding
from app.views.shared.choices import choose
from app.views.shared.figure import show
from app.views.shared.inspection import Inspection
from core.checkpoint.folder import Card
from core.data.corpora import LANGUAGES

_ROWS = 48  # rows of a table that are drawn


@waiting.fragment
def compare_tables() -> None:
    """Show both kinds of table and their dot products, if a checkpoint has a learned one."""
    cards = {card.title: card for card in models.cards().values() if card.model.learned_positions}
    st.write(
        "The paper also tried learned vectors, one for each position, and found nearly the same "
        "BLEU (§3.5, table 3, row E). It kept the sinusoids because they may extrapolate beyond "
        "the longest training sentence; a learned table has a last row."
    )
    if not cards:
        st.write(
            "No checkpoint here has learned positions, so there is no learned table to show. Train "
            "a network with learned_positions in its configuration and put its folder next to the "
            "others. This section then compares its table with the sinusoids."
        )
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
    st.caption(
        "Compare the lower figures: dot products of sinusoids depend only on the distance. A long "
        "bar means that pairs at the same distance have different products."
    )
    st.latex(rf"x_p = {embedding(card)} + P_p, \quad P \text{{ trained like }} E")


def show_extrapolation(inspection: Inspection) -> None:
    """Show the same sentence with k added to every position of both sides."""
    longest, reached = _longest_in_training(inspection.card)
    st.write(
        f"{reached} A longer text would have new words as well as new positions. So here the words "
        "stay the same, and k is added to every position of both sides."
    )
    own = max(len(inspection.record.source), len(inspection.record.target_out))
    last = 4 * longest
    if inspection.card.model.learned_positions:
        last = inspection.card.model.max_length - own
    steps = tuple(sorted({*range(0, last + 1, max(1, last // 32)), last}))
    result = inspection.run(core.extrapolation, inspection.source_ids, inspection.target_ids, steps)
    show(
        extrapolation_figure(result.shift, result.probability, longest - own),
        "extrapolation",
        "The words are the same everywhere, so every change is caused by the positions. Right of "
        "the dashed line, some positions never occurred in training."
        if own <= longest
        else "The words are the same everywhere, so every change is caused by the positions. "
        "Whatever k is, some positions never occurred in training.",
    )
    st.latex(f"x_p = {embedding(inspection.card)} + PE_{{p+k}}")
    within = result.shift <= longest - own
    inside, outside = result.probability[within], result.probability[~within]
    lowest = result.probability.argmin()
    if not len(inside):
        larger = f" and {percent(outside[1:].mean())} for larger k" if len(outside) > 1 else ""
        st.write(
            f"With {own} tokens, this sentence or its translation has more positions than any in "
            "training. The mean probability of its translation's tokens is "
            f"{percent(outside[0])} for k = 0{larger}."
        )
    elif len(outside):
        st.write(
            f"Mean probability of the translation's tokens: **{percent(inside.mean())}** within "
            f"the positions seen in training, **{percent(outside.mean())}** beyond them. It is "
            f"lowest, {percent(result.probability[lowest])}, for k = {result.shift[lowest]}."
        )
    else:
        st.write("The learned table has no rows for positions beyond those of training.")


def _longest_in_training(card: Card) -> tuple[int, str]:
    """Return the number of positions that training can have used, and a sentence about it."""
    if sides := card.training.get("longest"):
        source, target = sides
        return max(sides), (
            f"The longest sentences in training had {source} "
            f"({plain(LANGUAGES[card.source_language])}) and {target} "
            f"({plain(LANGUAGES[card.target_language])}) tokens."
        )
    limit = card.training.get("config", {}).get("max_pair_tokens", card.model.max_length)
    return limit, f"Training left out every pair with a side of more than {limit} tokens."
