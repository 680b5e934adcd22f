"""Compares sinusoids with a learned table, and extrapolates beyond training positions."""

import streamlit as st

import core
from app.figures import positions
from app.figures.experiments import extrapolation_figure
from app.look.markdown import plain
from app.look.numbers import percent
from app.state import models, results, visit, waiting
from app.views.shared.choices import choose
from app.views.shared.figure import show
from app.views.shared.lesson import Lesson
from core.checkpoint.folder import Card
from core.data.corpora import LANGUAGES

_ROWS = 48  # rows of a table that are drawn


@waiting.fragment
def learned(lesson: Lesson) -> None:
    """Show both kinds of table and their dot products, if a checkpoint has a learned one."""
    cards = {
        card.folder.name: card for card in models.cards().values() if card.model.learned_positions
    }
    st.write(
        "The paper also learned one vector for each position and found nearly the same BLEU (§3.5, "
        "table 3, row E). It kept the sinusoids because they may extrapolate beyond the longest "
        "training sentence; a learned table ends."
    )
    if not cards:
        st.write(
            "No checkpoint here has learned its positions, so there is no such table to show. "
            "Train a network with learned_positions in its configuration and put its folder next "
            "to the others: this section then shows its table and the sinusoids."
        )
        return
    names = {name: plain(name) for name in cards}
    name = choose("Learned by", names, next(iter(names)), "learned_model")
    card, theme = cards[name], visit.theme()
    length = min(_ROWS, card.model.max_length)
    tables = {
        "waves": positions.sinusoid_table(length, card.model.d_model),
        "learned": results.run(card, core.position_encodings, length),
    }
    columns = st.columns(2)
    for column, (kind, rows) in zip(columns, tables.items(), strict=True):
        with column:
            title = "Sinusoids, by the formula" if kind == "waves" else f"Learned, {name}"
            show(positions.table_figure(rows, None, theme, title), f"table_{kind}")
            show(positions.dot_product_figure(rows, theme), f"products_{kind}")
    st.caption(
        "Look at the lower pair: products of sinusoids depend on the distance alone. Where learned "
        "ones have long bars, the table tells positions apart that are equally far from each other."
    )
    st.latex(r"x_p = \sqrt{d_{\text{model}}}\,E_{w_p} + P_p, \quad P \text{ trained like } E")


def beyond(lesson: Lesson) -> None:
    """Show the same sentence with k added to every position of both sides."""
    longest, reached = _longest(lesson.card)
    st.write(
        f"{reached} A longer text would bring new words as well as new positions. So here the "
        "words stay the same, and k is added to every position of both sides."
    )
    own = max(len(lesson.record.source), len(lesson.record.target_out))
    last = 4 * longest
    if lesson.card.model.learned_positions:
        last = lesson.card.model.max_length - own
    steps = tuple(sorted({*range(0, last + 1, max(1, last // 32)), last}))
    result = lesson.run(
        core.extrapolation,
        lesson.source_ids,
        lesson.target_ids,
        steps,
    )
    show(
        extrapolation_figure(result.shift, result.probability, longest - own, visit.theme()),
        "extrapolation",
        "Look right of the dashed line: what changes there changes for the positions alone."
        if own <= longest
        else "Some positions of this sentence are beyond all of training, wherever it is moved: "
        "what changes along the line changes for the positions alone.",
    )
    st.latex(r"x_p = \sqrt{d_{\text{model}}}\,E_{w_p} + PE_{p+k}")
    within = result.shift <= longest - own
    inside, outside = result.probability[within], result.probability[~within]
    if not len(inside):
        st.write(
            f"With {own} tokens this sentence has more positions than any in training: mean "
            f"probability of its translation's tokens {percent(outside[0])} as it is, "
            f"{percent(outside[1:].mean())} further up."
        )
    elif len(outside):
        st.write(
            f"Mean probability of its translation's tokens: **{percent(inside.mean())}** at "
            f"positions that training could reach, **{percent(outside.mean())}** beyond. The "
            "formula has a row for every position; the shares say how well this network "
            "uses them here."
        )
    else:
        st.write("A learned table ends before that: there is no row to add.")


def _longest(card: Card) -> tuple[int, str]:
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
