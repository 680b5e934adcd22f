"""Shows forty texts at once: as tokens, in a map row, a table, a figure and lines.

`?from=0` starts at the first text; the button "Next" shows the next forty without reloading. By
default, the first page shows harmless texts. A later page must not contain a kind of element that
the first page lacks: it would come from a text that was taken for markup.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.app.explorer_harness import Record, Token, synthetic_record
from tests.app.texts import TEXTS

ROWS = 40
MIXED = [text for first in range(11) for text in TEXTS[first::11]]
"""The texts in an order in which the first forty are of all kinds."""
HARMLESS = ["a", "a\u200bb", "שלום", "x" * 120, "a", "A dog.", ".", " ", "\u200b", "\u202ea"]


def texts_from(start: int) -> list[str]:
    """Return forty texts, starting at an index; a negative index stands for the harmless texts."""
    texts = HARMLESS if start < 0 else MIXED[start : start + ROWS]
    return (texts * ROWS)[:ROWS]


def record_of(texts: list[str]) -> Record:
    """Return a synthetic record with these texts as tokens and alternatives."""
    record = synthetic_record("long", 2, 2)

    def named(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
        return tuple(
            token
            if token.special
            else replace(token, text=texts[i % len(texts)], starts_word=True, unknown=i % 7 == 0)
            for i, token in enumerate(tokens)
        )

    return replace(
        record,
        id=f"texts-{texts[0].encode().hex()[:20]}",
        source=named(record.source),
        target_in=named(record.target_in),
        target_out=named(record.target_out),
        alternatives=tuple(map(named, record.alternatives)),
        source_text=" ".join(texts),
        translation=" ".join(texts),
    )


def main() -> None:
    import streamlit as st

    from app.components.explorer.mount import explorer
    from app.components.explorer.payload import payload
    from app.components.map_row import map_row
    from app.components.map_row.payload import Map, MapRow, sides
    from app.components.token_table import token_table
    from app.figures import masks, style
    from app.figures.grid import Axes
    from app.look.labels import label
    from app.look.markdown import plain

    st.set_page_config(page_title="Texts", layout="wide")
    state = st.session_state
    if "start" not in state:
        state["start"] = int(st.query_params.get("from", -ROWS))

    def go_on() -> None:
        state["start"] += ROWS

    st.button("Next", key="next", on_click=go_on)
    texts = texts_from(state["start"])
    record = record_of(texts)
    words = [label(token) for token in record.source if not token.special][:ROWS]
    explorer(payload(record, {"kind": "cross", "layer": 0, "head": 0}), {})
    token_table(np.arange(5, 5 + ROWS)[None], [words], " ".join(texts[:3]), key="table")
    weights = np.full((2, 2, ROWS, ROWS), 1 / ROWS, np.float32)
    both = sides(record.source[:ROWS], range(1, ROWS + 1), "German")
    map_row(MapRow(texts[0], range(2), *both, [Map(texts[1], texts[2], "", weights)]), key="row")
    mask = np.tril(np.ones((ROWS, ROWS), bool))
    reasons = masks.reasons(np.ones_like(mask), mask)
    figure = masks.mask_figure(mask, reasons, Axes(words, words, "row", "key"), "M", "").figure(
        "light"
    )
    st.plotly_chart(figure, width="content", theme=None, config=style.CONFIG, key="mask")
    st.selectbox("Words", words, key="words")
    said = [text for text in texts if text.split()]
    with st.container(key="lines"):
        for text in said:
            st.error(plain(text))
    with st.container(key="captions"):
        for text in said:
            st.caption(f"{plain(text)} | *{plain(f'“{text}”')}*")
    with st.container(key="texts"):
        for text in texts:
            st.text(text)
    st.text(f"from {state['start']}")


if __name__ == "__main__":
    main()
