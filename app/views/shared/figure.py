"""Shows one figure of a page, with the sentence that says what to look for."""

from typing import Literal

import streamlit as st
from plotly.graph_objects import Figure

from app.figures.style import CONFIG


def show(figure: Figure, key: str, look_for: str = "", alt: str | None = None) -> None:
    """One figure, saved with one button, and one sentence that says what to look for.

    `alt` describes it to those who cannot see it; else its title and that sentence do.
    """
    width: Literal["stretch", "content"]
    width = "stretch" if figure.layout.width is None else "content"
    alt = alt or f"{figure.layout.title.text}. {look_for}".strip()
    with st.container(width=width, gap="small"):
        st.plotly_chart(figure, width=width, theme=None, config=CONFIG, key=key, alt=alt)
        if look_for:
            st.caption(look_for)
