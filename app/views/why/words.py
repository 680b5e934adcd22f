"""Why this word and not that one: the difference of two logits, taken apart and tested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.figures.why import Ribbon, ribbons_figure, terms_figure
from app.look.labels import label, labels
from app.look.markdown import plain
from app.look.numbers import number, scientific
from app.state import visit
from app.views.shared.choices import choose, choose_token
from app.views.shared.figure import show
from app.views.shared.lesson import Lesson

if TYPE_CHECKING:  # torch takes seconds: it is imported when a model is loaded
    from core.experiments.word_choice import WordChoice
    from core.model.interface import Kind
    from core.record.record import TranslationRecord

_BARS = 14
_RIBBONS = 24
_TRIED = 5


def word_choice(lesson: Lesson) -> None:
    """One token against one of its alternatives: terms, ribbons, and predictions beside truth."""
    record = lesson.record
    st.write(
        "At each step the token with the largest logit wins. A logit is a product of the decoder's "
        "last state, and that state is a sum of what token, position, heads and feed-forward "
        "layers wrote: so the difference of two logits is a sum, too."
    )
    words = labels(record.target_out, 1)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        with st.container(width=260):
            step = choose_token("Token", words, max(0, len(words) - 3), "why_step")
        own = record.target_out[step]
        others = [token for token in record.alternatives[step] if token.id != own.id]
        ids = {token.id: label(token) for token in others}
        other = choose("rather than", ids, others[0].id, "why_other")
    choice = lesson.ask("core.experiments.word_choice:word_choice", step, (own.id, other))
    pair = (label(own), ids[other])
    st.text(
        f"logit of “{pair[0]}” − logit of “{pair[1]}” = {number(choice.difference, 3, sign='+')}"
    )
    largest = choice.largest(_BARS)
    rest = float(choice.terms.sum()) - sum(term for _, term in largest)
    show(
        terms_figure(
            [component.label for component, _ in largest] + ["all others"],
            [term for _, term in largest] + [rest],
            f"What speaks for “{pair[0]}” (blue) and for “{pair[1]}” (orange)",
            f"{len(choice.terms)} terms, whose sum is the difference to "
            f"{scientific(choice.largest_error)}; layer norm at its actual scale",
            "logit",
            visit.theme(),
        ),
        "why_terms",
        "Look for the cross heads: through them the source speaks.",
    )
    show(
        ribbons_figure(
            _ribbons(lesson, choice),
            pair,
            "The same sum as ribbons",
            "source words by the cross heads of a layer, written ones by the decoder's; the widths "
            "add up: blue less orange is the difference",
            visit.theme(),
        ),
        "why_ribbons",
        "Follow a word to the right: blue ribbons speak for the token that was written.",
    )
    _tried(lesson, choice, step, (own.id, other))


def _ribbons(lesson: Lesson, choice: WordChoice) -> list[Ribbon]:
    """Every part that is worth seeing, by where it came from and the layer that brought it."""
    record = lesson.record
    names = _names(record)
    found = []
    for kind, edges in choice.edges.items():
        words = names[kind]
        for (layer, key), value in _cells(edges.sum(1)):
            found.append(Ribbon(words[key], f"{kind} layer {layer + 1}", value))
    for component, term in zip(choice.components, choice.terms.tolist(), strict=True):
        if component.head is None:
            found.append(Ribbon("what is no head", component.label, term))
    found.sort(key=lambda ribbon: -abs(ribbon.value))
    small = [ribbon.value for ribbon in found[_RIBBONS:]]
    parts = [sum(v for v in small if v > 0), sum(v for v in small if v < 0)]
    return found[:_RIBBONS] + [Ribbon("all smaller", "all smaller", v) for v in parts if v]


def _tried(lesson: Lesson, choice: WordChoice, step: int, pair: tuple[int, int]) -> None:
    """The largest heads and links, cut: what the sum predicts, and what the network then does."""
    from core.record.edits import Edge, Edits

    names = _names(lesson.record)
    places: list[tuple[Kind, int, int, int | None]] = []
    heads = [c for c, _ in choice.largest(len(choice.terms)) if c.head is not None][:_TRIED]
    places += [(*component.place, None) for component in heads]
    edges = sorted(
        (
            (abs(value), kind, layer, head, key)
            for kind, array in choice.edges.items()
            for (layer, head, key), value in _cells(array)
        ),
        reverse=True,
    )[:_TRIED]
    places += [(kind, layer, head, key) for _, kind, layer, head, key in edges]
    rows: dict[str, list[str]] = {"cut": [], "predicted": [], "true": []}
    for kind, layer, head, key in places:
        name = f"{kind} {layer + 1}.{head + 1}"
        rows["cut"].append(name if key is None else plain(f"{names[kind][key]} in {name}"))
        rows["predicted"].append(number(choice.predicted(kind, layer, head, key), 3, sign="+"))
        edits = (
            Edits(heads_off=frozenset({(kind, layer, head)}))
            if key is None
            else Edits(edges=(Edge(kind, layer, head, step, key, 0.0),))
        )
        true = lesson.ask("core.experiments.word_choice:true_change", step, pair, edits)
        rows["true"].append(number(true, 3, sign="+"))
    st.container(key="why_tried").table(rows, border="horizontal", hide_index=True)
    st.caption(
        "Each head switched off, each link cut: how the difference of the logits changes. The "
        "prediction is the direct part, with norms held; the true change has what later layers "
        "make of it, too."
    )


def _names(record: TranslationRecord) -> dict[Kind, list[str]]:
    """What the keys of the decoder's two kinds are called."""
    return {"cross": labels(record.source, 1), "decoder": labels(record.target_in, 0)}


def _cells(array: NDArray) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every cell of an array, and its place."""
    return ((at, float(value)) for at, value in np.ndenumerate(array))
