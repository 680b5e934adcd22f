"""Shows a figure and a caption that says what to look for."""

from typing import Literal

import streamlit as st
from plotly.graph_objects import Figure

from app.figures.style import CONFIG


def show(figure: Figure, key: str, look_for: str = "", alt: str | None = None) -> None:
    """Show a figure and, below it, what to look for.

    `alt` is the alternative text, by default the title and `look_for`.
    """
    width: Literal["stretch", "content"]
    width = "stretch" if figure.layout.width is None else "content"
    alt = alt or f"{figure.layout.title.text}. {look_for}".strip()
    with st.container(width=width, gap="small"):
        st.plotly_chart(figure, width=width, theme=None, config=CONFIG, key=key, alt=alt)
        if look_for:
            st.caption(look_for)
