"""Inside a head: one weight recomputed step by step, with the numbers of the real pass."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

import core
from app import controls
from app.figures.inside_head import row_figure
from app.lessons.texts import text
from app.look.glossary import meaning
from app.look.labels import labels
from app.state import address, results, session
from app.views.inside_head.stages import short, show_stages, stages
from app.views.inside_head.why import show_score_split
from app.views.shared import asked
from app.views.shared.axes import axis_words
from app.views.shared.figure import show
from app.views.shared.glance import lesson_top, show_glance
from app.views.shared.notebook import offer_notebook
from app.views.shared.quality_warnings import show_quality_warnings
from app.views.shared.question import Outcome, open_with
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
        index = linked[name]
        if index is not None and index in map(str, range(1000)):
            session.put(f"head_{name}", int(index))
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
        "One attention weight, recomputed step by step.",
        help=meaning("token", "layer", "embedding", "attention score"),
    )
    where = st.container()
    note_unused_edits(
        "this page recomputes the weights that the network has by itself, before any edit."
    )
    linked = address.requested("k") is not None
    follow_link(record)
    with st.container(horizontal=True, key="head_choices"):
        kind = select(
            "Attention", {kind: kind.capitalize() for kind in KINDS}, "cross", "head_kind"
        )
        layers, heads = record.maps(kind).shape[:2]
        layer = select("Layer", {n: str(n + 1) for n in range(layers)}, layers - 1, "head_layer")
        head = select("Head", {n: str(n + 1) for n in range(heads)}, 0, "head_head")
        queries, keys = axis_words(record, kind)
        query = select("Query", numbered(queries, 1), len(queries) // 2, "head_q")
        key_box = st.container()
    with where:
        show_glance(kind, beside=beside)
    source_ids, target_ids = results.token_ids(record.source), results.token_ids(record.target_out)
    site = results.run(card, core.site, source_ids, target_ids, kind, layer)
    inside = inside_head(site, head, query)
    row = record.maps(kind)[layer, head, query]
    cells = record, kind, layer, head

    def show_scores(found: Outcome) -> None:
        """Show the scores of the row, which the question is about; the weights are its answer."""
        scores = row_figure(inside, keys, int(row.argmax()), found.shown)
        show(scores, "pictured_head", text("head", f"weighs.look{'-shown' * found.shown}"))

    found = open_with(
        "head",
        record,
        [
            partial(asked.weighs, *cells, query, np.where(inside.open_K, inside.masked_K, -np.inf)),
            partial(asked.attends, *cells, query),
            *asked.other_rows(*cells),
        ],
        linked=linked,
        pictures={"weighs": show_scores},
    )
    hidden = not found.shown
    first = 0 if kind == "decoder" else 1  # target_in starts with <bos>
    # If the key with the largest weight is the answer, choose it only after the question.
    is_answer = found.asked is not None and found.asked.question.name == "attends"
    key = min(query, len(keys) - 1) if is_answer and not found.settled else int(row.argmax())
    if not (is_answer and hidden):
        with key_box:
            key = select("Key", numbered(keys, first), key, "head_k")

place = {"kind": kind, "layer": layer, "head": head, "q": query, "k": key}
address.write({**place, "k": None if hidden else key, "words": None}, "head")
if kind == "encoder":
    position = f"At the position of “{queries[query]}”"
else:
    fed = labels(record.target_in, 0)[query]
    position = f"At the position that reads “{fed}” and produces “{queries[query]}”"
head_stages = stages(inside, card.model, key, keys, first, float(row[key]))
if not hidden:
    with st.container(key="head_sentence"):
        st.text(
            f"{position}, head {head + 1} of layer {layer + 1} gives “{keys[key]}” the weight "
            f"{short(inside.weights_K[key])}."
        )
        st.caption(" → ".join(stage.result for stage in head_stages if stage.result))
show_stages(head_stages, inside, card.architecture, hidden)
section(
    "Why does this head look there?",
    "open_score",
    show_score_split,
    card,
    record,
    place,
    summary="The score of this cell, split by the parts of its query and its key",
)
if not hidden:
    shown: dict[str, Any] = {"KIND": kind, "LAYER": layer, "HEAD": head, "QUERY": query, "KEY": key}
    offer_notebook("head", card, record, TARGET=controls.selection().target or None, **shown)
