"""Shows a chart and a caption that says what to look for."""

from typing import Literal

import streamlit as st

from app.figures.chart import Chart
from app.figures.style import CONFIG
from app.state import session


def show(chart: Chart, key: str, look_for: str = "", alt: str | None = None) -> None:
    """Show a chart and, below it, what to look for.

    A screen reader gets `alt`, by default the title and `look_for`, and then the drawn values.
    """
    width: Literal["stretch", "content"] = "stretch" if chart.width is None else "content"
    alt = alt or f"{chart.title}. {look_for}".strip()
    with st.container(width=width, gap="small"):
        st.plotly_chart(
            chart.figure(session.theme()),
            width=width,
            theme=None,
            config=CONFIG,
            key=key,
            alt=f"{alt} {chart.description()}".strip(),
        )
        if look_for:
            st.caption(look_for)
