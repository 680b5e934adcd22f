"""Mounts the attention explorer: both sentences, every head's map, a readout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from app.components.answers import send_answer
from app.components.explorer.markup import markup
from app.components.explorer.payload import pack
from app.components.mount import mounting

_FILES = markup(Path(__file__).parent / "streamlit.js")
_mount = mounting(
    "explorer", html=_FILES.html, css=_FILES.css, script=_FILES.script, entry="renderInStreamlit"
)


def explorer(
    payload: dict[str, Any],
    answers: Mapping[str, dict[str, Any]],
    *,
    on_edit: Callable[[], None] = lambda: None,
) -> str | None:
    """Show the explorer for one record.

    `payload` comes from `payload.payload` and contains the component's key. Switching and hovering
    are client-side. Data that the payload lacks is requested through the component's state, which
    `answers.answers` reads. Each answer is its own message, so that Streamlit can replace the
    unchanged payload by a reference. `on_edit` is called before the rerun when "What if" has
    triggered an `edit`.

    Returns the URL's query if the link "Inside this head" was just clicked, else None.
    """
    key = payload["host"]["key"]
    with st.container(key=f"answers_{key}"):  # even if empty: the explorer keeps its position
        for name, answer in answers.items():
            send_answer(key, name, pack({"explorer": key, **answer}))
    state = _mount(
        key=key,
        data=pack(payload),
        width="stretch",
        height="content",
        on_quantity_change=lambda: None,
        on_exact_change=lambda: None,
        on_page_change=lambda: None,
        on_effects_change=lambda: None,
        on_lens_change=lambda: None,
        on_inside_change=lambda: None,
        on_edit_change=on_edit,
    )
    return state.inside
