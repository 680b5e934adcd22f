"""A section of a page that needs forward passes: computed when it is opened."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from app.look.markdown import plain
from app.state import address, session, waiting
from core.serving.queue import UnansweredError

AUTO_OPEN_S = 1.0
"""Sections expected to take fewer seconds than this open automatically."""


@waiting.fragment
def section(
    title: str,
    key: str,
    body: Callable[..., None],
    *arguments: Any,
    choices: tuple[str, ...] = (),
    summary: str,
    seconds: float | None = None,
    opens_itself: bool = True,
    help: str | None = None,
    anchor: str | None = None,
) -> None:
    """Draw a heading, if there is a `title`, and an expander that calls `body` while it is open.

    `summary` describes the result; `seconds` is the expected time. Until the visitor opens or
    closes the expander, it is open if `seconds` is below `AUTO_OPEN_S` and no long task runs,
    unless `opens_itself` is False, as for a long table. A link with one of the section's `choices`
    also opens it. `anchor` is the heading's anchor.
    """
    if title:
        st.subheader(title, anchor=anchor, help=help)
    set_by_page = f"{key} by the page"
    untouched = session.get(key) is None or session.get(key) == session.saved_result(set_by_page)
    if untouched and any(address.requested(name) is not None for name in choices):
        session.put(key, True)
    elif untouched and seconds is not None and opens_itself:
        session.put(key, seconds < AUTO_OPEN_S and not waiting.LONG_TASKS.busy)
        session.save_result(set_by_page, session.get(key))
    time = "" if seconds is None else f" ({duration_in_words(seconds)})"
    fold = st.expander(summary + time, key=key, on_change="rerun")
    if fold.open:
        with fold:
            try:
                body(*arguments)
            except UnansweredError as error:
                st.error(plain(error))


def duration_in_words(seconds: float) -> str:
    """Describe an estimated time: less than a second, about 3 seconds, about 4 minutes."""
    if seconds < 1:
        return "less than a second"
    if seconds >= 100:
        return f"about {round(seconds / 60)} minutes"
    whole = round(seconds) if seconds < 10 else 5 * round(seconds / 5)
    return f"about {whole} second{'s' if whole > 1 else ''}"
