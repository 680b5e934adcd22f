"""Presents a page on screens that need no scrolling: its question, then the map that answers it."""

from __future__ import annotations

import streamlit as st

from app.components.question import Asked, Place
from app.export.picture import picture
from app.lessons.texts import text
from app.look.markdown import plain
from app.state import plans, session
from core.record.record import TranslationRecord
from core.text.tokenizer import normalise

PROJECTED = (386.0, 414.0)
"""Width and height of a map in px, before the page enlarges it to about 1.45 times that size."""
_BELOW_A_LINE = (386.0, 372.0)


def show_still(place: Place, fit: tuple[float, float] = PROJECTED) -> None:
    """Show a map as a picture that fits a projected page, with large labels."""
    svg = picture(
        place.record,
        place.kind,
        place.layer,
        place.head,
        query=place.query,
        theme=session.theme(),
        fit=fit,
    )
    with st.container(key="present_map"):
        st.image(svg)


def show_line(record: TranslationRecord | None, more: str = "") -> None:
    """Show both texts and Back, where they apply; `more` labels the button to the next screen."""
    with st.container(
        horizontal=True, wrap=False, vertical_alignment="center", key="presented_line"
    ):
        texts = f"{normalise(record.source_text)} → {record.translation}" if record else ""
        st.text(texts, width="stretch")
        turn = plans.screen()
        if turn and plans.running() is None:  # a running plan has a bar with the button
            st.button(
                text("questions", "present.back"),
                key="tour_back",
                on_click=plans.show_screen,
                args=(turn - 1,),
            )
        if more:
            st.button(more, key="tour_more", on_click=plans.show_screen, args=(turn + 1,))


def show_answer(asked: Asked, place: Place) -> None:
    """Show a question's words and, beside them, the map that answers it."""
    said, beside = st.columns([3, 4], gap="medium")
    with said, st.container(key="presented_text", gap="small"):
        st.markdown(f"**{plain(asked.prompt)}**")
        for line in asked.explanation:
            st.markdown(plain(line))
        show_rest()
    with beside:
        show_still(place, _BELOW_A_LINE)


def show_rest() -> None:
    """Say how to see the rest of a presented page."""
    st.caption(text("questions", "present.rest"))
