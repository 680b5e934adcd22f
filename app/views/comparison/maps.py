"""Shows one head of both models, their difference, and the largest difference of all."""

from collections.abc import Mapping

import numpy as np
import streamlit as st

from app.figures import comparison
from app.figures.style import CONFIG
from app.look.numbers import scientific
from app.state import visit
from app.state.models import Implementation
from app.views.comparison.choices import CODE, choose
from core.analysis.difference import KINDS, SAME, Largest
from core.analysis.matching import Matching
from core.record.record import TranslationRecord

Matchings = Mapping[str, Matching] | None


def say_largest(largest: Largest, record: TranslationRecord, twins: bool) -> None:
    """The verdict over everything, in words."""
    cells = sum(record.maps(kind).size for kind in KINDS)
    size = scientific(abs(largest.difference))
    if largest.difference == 0:
        st.write(
            f"**Every difference lies within 0 to 1e-5:** all {cells:,} weights, of every kind, "
            "layer and head, are equal to the last bit."
        )
    elif twins and abs(largest.difference) <= SAME:
        st.write(
            f"**Every difference lies within 0 to 1e-5.** The largest over all {cells:,} weights, "
            f"of every kind, layer and head, is **{size}**: the two add the same numbers in "
            "another order, and float32 rounds after about seven digits. In float64, in the "
            "checklist above, it shrinks below 1e-12: it is rounding."
        )
    elif twins:
        st.error(
            f"The same weights give different maps: the largest difference is {size}, more than "
            "the 1e-5 that rounding explains. One of the two implementations is wrong."
        )
    else:
        st.write(
            f"**The largest difference over all {cells:,} weights is {size}.** These two learned "
            "apart from each other, so their maps differ; each head is compared with the one "
            "matched to it below, because equal numbers mean nothing between them."
        )


def where(largest: Largest, record: TranslationRecord) -> str:
    """The cell in words: plain text, because its tokens are a person's."""
    query = comparison.row_words(record, largest.kind)[largest.query]
    key = comparison.column_words(record, largest.kind)[largest.key]
    there = ""
    if (largest.layer, largest.head) != (largest.second_layer, largest.second_head):
        there = f" (second: layer {largest.second_layer + 1}, head {largest.second_head + 1})"
    return (
        f"Largest: {largest.kind}, layer {largest.layer + 1}, head {largest.head + 1}{there}, "
        f"{'from' if largest.kind == 'encoder' else 'producing'} “{query}” "
        f"(row {largest.query + 1}), looking at “{key}” (column {largest.key + 1}): "
        f"first {largest.first:.7f}, second {largest.second:.7f}"
    )


def show_cell(kind: str, layer: int, head: int) -> None:
    """Turn the maps to one head."""
    for key, value in (("kind", kind), ("layer", layer), ("head", head)):
        visit.put(f"compare_{key}", value)


@st.fragment
def maps(
    pair: tuple[Implementation, Implementation],
    records: tuple[TranslationRecord, TranslationRecord],
    largest: Largest,
    matchings: Matchings,
) -> None:
    """One head of the first, its counterpart in the second, and their difference."""
    first, second = records
    with st.container(key="largest", horizontal=True, wrap=False):
        st.text(where(largest, first), width="stretch")
        st.button(
            "Show it",
            key="show_largest",
            on_click=show_cell,
            args=(largest.kind, largest.layer, largest.head),
        )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = choose("Attention", {kind: kind.capitalize() for kind in KINDS}, "cross", "kind")
        layers, heads = first.maps(kind).shape[:2]
        numbers = {i: str(i + 1) for i in range(layers)}
        layer = choose("Layer", numbers, max(0, layers - 2), "layer")
        head = choose("Head", {i: str(i + 1) for i in range(heads)}, 0, "head")
        scales = {"weights": "−1 to 1", "own": "Its own"}
        scale = choose("Scale of the difference", scales, "weights", "scale")
    there = matchings[kind].of(layer, head) if matchings else (layer, head)
    a, b = first.maps(kind)[layer, head], second.maps(kind)[there]
    own = float(np.abs(a.astype(np.float64) - b).max()) or 1.0
    theme = visit.theme()
    codes = [CODE[contestant.architecture] for contestant in pair]
    figures = {
        "first_map": comparison.map_figure(first, kind, layer, head, f"First: {codes[0]}", theme),
        "second_map": comparison.map_figure(second, kind, *there, f"Second: {codes[1]}", theme),
        "difference_map": comparison.difference_figure(
            first, kind, a, b, own if scale == "own" else 1.0, theme
        ),
    }
    if scale == "own" and own <= SAME:
        scale_words = f"On its own scale, ±{scientific(own)}, the picture shows rounding alone."
    elif scale == "own":
        scale_words = f"The scale spans ±{scientific(own)}, this map's largest difference."
    else:
        scale_words = "The scale is as long as the weights' own: a difference looks its size."
    with st.container(horizontal=True, gap="medium"):
        for key, figure in figures.items():
            alt = f"{figure.layout.title.text}, {figure.layout.title.subtitle.text}"
            st.plotly_chart(figure, width="content", theme=None, config=CONFIG, key=key, alt=alt)
        with st.container(width=340):
            st.latex(r"\Delta_{qk} = A^{\text{first}}_{qk} - A^{\text{second}}_{qk}")
            st.caption(f"Blue: the first looks there more. Orange: the second does. {scale_words}")
            if kind == "decoder":
                st.caption("Hatched: not yet written, so no token may look there.")
