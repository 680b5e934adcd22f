"""Shows where in the model a page is: figure 1 of the paper, with the block in view highlighted."""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import controls
from app.components.figure_one import figure_one
from app.components.figure_one.drawing import draw
from app.lessons.texts import text
from app.state import plans, session
from app.views import VIEWS
from core.kinds import KINDS

_PAGE_OF = {
    "inputs": "tokens",
    "source_embedding": "tokens",
    "source_positions": "positions",
    "encoder": "head",
    "norm": "why",
    "feed": "why",
    "outputs": "steps",
    "target_embedding": "tokens",
    "target_positions": "positions",
    "decoder": "masks",
    "cross": "head",
    "linear": "why",
    "softmax": "steps",
}
"""The page of each block, by URL path."""


def lesson_top() -> tuple[DeltaGenerator, DeltaGenerator | None]:
    """Return the containers of a lesson's top, down to its question, and of the figure beside it.

    The style sheet shows the figure where there is room, and the popover elsewhere. A presented
    page has room for neither, so its second container is None.
    """
    if plans.presenting():
        return st.container(key="lesson_top"), None
    page, beside = st.container(key="lesson_columns").columns([3, 1], gap="medium")
    return page, beside


def show_glance(
    *current: str,
    in_view: str = "",
    follow: str = "",
    source: str = "",
    beside: DeltaGenerator | None = None,
) -> None:
    """Offer the figure in a popover and show it `beside` a lesson, with `current` highlighted.

    `current` are blocks; `in_view` says what is highlighted, by default the first block. `follow`
    is the key of an explorer whose kind of attention is highlighted instead; such a figure is drawn
    once its popover is open. Links keep `source`, by default the visitor's sentence, and the
    direction, model and search.
    """
    chosen, here = controls.selection(), session.get("page") or ""
    if chosen.card is None:
        return
    popover = st.popover(
        "Where in the model?",
        type="tertiary",
        key="glance",
        on_change="rerun" if follow else "ignore",
    )
    if follow and not popover.open:
        return
    link = {"source": source or chosen.source, **chosen.link}
    if chosen.target and not source:
        link["target"] = chosen.target

    def href(block: str) -> str | None:
        page = _PAGE_OF[block]
        kind = {"kind": block} if page == "head" and block in KINDS else {}
        return None if page == here and not kind else f"{page}?{urlencode({**link, **kind})}"

    drawing = draw(chosen.card.model, href, current, in_view)
    opened = None
    if beside:
        with beside:
            opened = figure_one(drawing, key="figure_beside")
    with popover:
        opened = figure_one(drawing, key="figure_one", follow=follow) or opened
        st.page_link(
            VIEWS["glossary"].file,
            label=text("glossary", "link"),
            query_params=link,
            width="content",
        )
    if opened is not None and opened.page in VIEWS:  # a plain link would start a new session
        st.switch_page(VIEWS[opened.page].file, query_params=opened.query)
