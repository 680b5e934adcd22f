"""Shows a chart and a caption that says what to look for."""

from collections.abc import Callable
from typing import Literal

import streamlit as st

from app.figures.chart import Chart
from app.figures.style import CONFIG
from app.state import session


def show(
    chart: Chart,
    key: str,
    look_for: str = "",
    alt: str | None = None,
    on_point: Callable[[float], None] | None = None,
) -> None:
    """Show a chart and, below it, what to look for.

    A screen reader gets `alt`, by default the title and `look_for`, and then the drawn values.
    `on_point` is called with the x of a point when it is clicked, before the page is run.
    """

    def clicked() -> None:
        if on_point and (points := session.get(key)["selection"]["points"]):
            on_point(points[0]["x"])

    on_select: Literal["ignore"] | Callable[[], None] = clicked if on_point else "ignore"
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
            on_select=on_select,
            selection_mode="points",
        )
        if look_for:
            st.caption(look_for)
