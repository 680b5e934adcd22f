"""Inside a head: one weight recomputed step by step, with the numbers of the real pass."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from app import controls
from app.look.labels import labels
from app.look.numbers import number
from app.state import address, results, visit
from app.views.inside_head.stages import show, stages
from app.views.inside_head.why import why
from app.views.shared.axes import axis_words
from app.views.shared.section import section
from core.analysis.difference import KINDS
from core.analysis.inside_head import inside_head
from core.record.record import TranslationRecord


def follow_link(record: TranslationRecord) -> None:
    """A link or a new sentence decides what the widgets show; else they stay as they are."""
    asked = {name: address.take(name) for name in address.VIEW}
    if address.take("words"):  # places of words, and the arithmetic is of tokens
        asked |= {"q": None, "k": None}
    if asked["kind"] or asked["layer"] or asked["head"] or visit.kept("head_sentence") is None:
        for name, value in address.first_view(record).items():  # of "mean" comes the usual one
            visit.put(f"head_{name}", value)
    new_sentence = visit.kept("head_sentence") != record.id
    for name in ("q", "k"):
        text = asked[name]
        if text is not None and text in map(str, range(1000)):
            visit.put(f"head_{name}", int(text))
        elif asked["kind"] or new_sentence:
            visit.put(f"head_{name}", None)
    visit.keep("head_sentence", record.id)


def choose(label: str, names: Mapping[Any, str], default: Any, key: str) -> Any:
    """A choice among values by their names; a value that is no longer there becomes the default."""
    if visit.get(key) not in names:
        visit.put(key, default)
    return st.selectbox(
        label, list(names), format_func=names.__getitem__, key=key, persist_state="session"
    )


def numbered(words: list[str], first: int) -> dict[int, str]:
    return {i: f"{first + i} · {word}" for i, word in enumerate(words)}


st.title("Inside a head")
card, record = controls.sentence()
st.caption(
    "One weight of one map, from the two tokens that go in to what the head puts out. All numbers "
    "are those of the real pass; with a pocket calculator you get from q and k to the weight."
)
follow_link(record)
with st.container(horizontal=True):
    kind = choose("Attention", {kind: kind.capitalize() for kind in KINDS}, "cross", "head_kind")
    layers, heads = record.maps(kind).shape[:2]
    layer = choose("Layer", {n: str(n + 1) for n in range(layers)}, layers - 1, "head_layer")
    head = choose("Head", {n: str(n + 1) for n in range(heads)}, 0, "head_head")
queries, keys = axis_words(record, kind)
with st.container(horizontal=True):
    asks = "Query" if kind == "encoder" else "Query: token being produced"
    query = choose(asks, numbered(queries, 1), len(queries) // 2, "head_q")
    row = record.maps(kind)[layer, head, query]
    first = 0 if kind == "decoder" else 1  # what the decoder reads opens with <bos>
    key = choose("Key", numbered(keys, first), int(row.argmax()), "head_k")

place = {"kind": kind, "layer": layer, "head": head, "q": query, "k": key}
address.keep({**place, "words": None}, "head")

source_ids, target_ids = results.ids(record.source), results.ids(record.target_out)
site = results.run(card, "core.experiments.site:site", source_ids, target_ids, kind, layer)
inside = inside_head(site, head, query)
if kind == "encoder":
    position = f"the position of “{queries[query]}”"
else:
    fed = labels(record.target_in, 0)[query]
    position = f"the position that reads “{fed}” to produce “{queries[query]}”"
with st.container(key="head_sentence"):
    st.text(
        f"From {position}, head {head + 1} of layer {layer + 1} gives “{keys[key]}” the weight "
        f"{number(inside.weights_K[key])}."
    )
show(stages(inside, key, keys, float(row[key]), visit.theme()), card.architecture)
with st.expander("The whole row as a table"):
    row_table = pd.DataFrame(
        {
            "key": [f"{first + n} {word}" for n, word in enumerate(keys)],
            "q·k": inside.scores_K,
            "scaled": inside.scaled_K,
            "masked": inside.masked_K,
            "e^(s − max)": inside.exps_K,
            "weight": inside.weights_K,
        }
    )
    st.dataframe(
        row_table.style.format(number, row_table.columns[1:]),
        hide_index=True,
        key="head_row",
    )
section("Why does this head look there?", "open_score", why, card, record, place)
