"""Inside a head: one weight recomputed step by step, with the numbers of the real pass."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import streamlit as st

import core
from app import controls
from app.look.glossary import meaning
from app.look.labels import labels
from app.look.numbers import number
from app.state import address, results, session
from app.views.inside_head.stages import show_overview, show_stages, stages
from app.views.inside_head.why import show_score_split
from app.views.shared import asked
from app.views.shared.axes import axis_words
from app.views.shared.glance import lesson_top, show_glance
from app.views.shared.notebook import offer_notebook
from app.views.shared.quality_warnings import show_quality_warnings
from app.views.shared.question import covered, open_with
from app.views.shared.section import section
from app.views.shared.what_if import note_unused_edits
from core.analysis.inside_head import inside_head
from core.kinds import KINDS
from core.record.record import TranslationRecord


def follow_link(record: TranslationRecord) -> None:
    """Set the widgets from a link or for a new sentence; otherwise keep their values."""
    linked = {name: address.pop(name) for name in address.VIEW}
    if address.pop("words"):  # q and k are indices of words, not of tokens
        linked |= {"q": None, "k": None}
    opens: dict[str, str | int] = {}
    if (
        linked["kind"]
        or linked["layer"]
        or linked["head"]
        or session.saved_result("head_sentence") is None
        or session.saved_result("head_turn") != address.turn()
    ):
        opens = address.initial_view(record)  # as on the page Translate, with the pinned row
        for name in ("kind", "layer", "head"):  # "mean" becomes the default
            session.put(f"head_{name}", opens[name])
    new_sentence = session.saved_result("head_sentence") != record.id
    for name in ("q", "k"):
        text = linked[name]
        if text is not None and text in map(str, range(1000)):
            session.put(f"head_{name}", int(text))
        elif linked["kind"] or new_sentence:
            session.put(f"head_{name}", opens.get(name))
    session.save_result("head_sentence", record.id)
    session.save_result("head_turn", address.turn())


def select(label: str, names: Mapping[Any, str], default: Any, key: str) -> Any:
    """Choose a value by its name; a value that no longer exists becomes the default."""
    if session.get(key) not in names:
        session.put(key, default)
    return st.selectbox(
        label, list(names), format_func=names.__getitem__, key=key, persist_state="session"
    )


def numbered(words: list[str], first: int) -> dict[int, str]:
    return {i: f"{first + i} · {word}" for i, word in enumerate(words)}


page, beside = lesson_top()
with page:
    st.title("Inside a head")
    card, record = controls.ask_for_record()
    show_quality_warnings(record, controls.training_domain(card), controls.selection().source)
    st.caption(
        "How one attention weight is computed, from the two vectors that enter the head to what "
        "the head adds to the output. All numbers are those of the actual pass: from q and k on, "
        "you can reproduce the weight with the tables and a pocket calculator.",
        help=meaning("token", "layer", "embedding", "attention score"),
    )
    where = st.container()
    note_unused_edits()
    linked = address.requested("k") is not None
    follow_link(record)
    with st.container(horizontal=True):
        kind = select(
            "Attention", {kind: kind.capitalize() for kind in KINDS}, "cross", "head_kind"
        )
        layers, heads = record.maps(kind).shape[:2]
        layer = select("Layer", {n: str(n + 1) for n in range(layers)}, layers - 1, "head_layer")
        head = select("Head", {n: str(n + 1) for n in range(heads)}, 0, "head_head")
    with where:
        show_glance(kind, beside=beside)
    queries, keys = axis_words(record, kind)
    cell = st.container(horizontal=True)
    with cell:
        title = "Query" if kind == "encoder" else "Query: token being produced"
        query = select(title, numbered(queries, 1), len(queries) // 2, "head_q")
    row = record.maps(kind)[layer, head, query]
    questions = [
        partial(asked.attends, record, kind, layer, head, query),
        *asked.other_rows(record, kind, layer, head),
    ]
    found = open_with("head", record, questions, linked=linked)
row_place = {"kind": kind, "layer": layer, "head": head, "q": query}
if covered("head", not found.shown):
    address.write({**row_place, "k": None, "words": None}, "head")
else:
    with cell:
        first = 0 if kind == "decoder" else 1  # target_in starts with <bos>
        # The key with the largest weight is the answer: preselect it only after the question.
        opened = int(row.argmax()) if found.settled else min(query, len(keys) - 1)
        key = select("Key", numbered(keys, first), opened, "head_k")

    place = {**row_place, "k": key}
    address.write({**place, "words": None}, "head")

    source_ids, target_ids = results.token_ids(record.source), results.token_ids(record.target_out)
    site = results.run(card, core.site, source_ids, target_ids, kind, layer)
    inside = inside_head(site, head, query)
    if kind == "encoder":
        position = f"At the position of “{queries[query]}”"
    else:
        fed = labels(record.target_in, 0)[query]
        position = f"At the position that reads “{fed}” and produces “{queries[query]}”"
    with st.container(key="head_sentence"):
        st.text(
            f"{position}, head {head + 1} of layer {layer + 1} gives “{keys[key]}” the weight "
            f"{number(inside.weights_K[key])}."
        )
    head_stages = stages(inside, key, keys, first, float(row[key]))
    show_overview(head_stages)
    show_stages(head_stages, card.architecture)
    section(
        "Why does this head look there?",
        "open_score",
        show_score_split,
        card,
        record,
        place,
        summary="The score of this cell, split by the parts of its query and its key",
    )
    shown = {"KIND": kind, "LAYER": layer, "HEAD": head, "QUERY": query, "KEY": key}
    offer_notebook("head", card, record, TARGET=controls.selection().target or None, **shown)
