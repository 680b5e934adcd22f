"""A part of a lesson that takes passes of the network: computed when a reader opens it."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from app.look.markdown import plain
from app.state import address, visit, waiting
from core.serving.queue import UnansweredError

AT_ONCE = 1.0
"""Seconds: a section that is expected to take less opens by itself."""


@waiting.fragment
def section(
    title: str,
    key: str,
    body: Callable[..., None],
    *arguments: Any,
    choices: tuple[str, ...] = (),
    promise: str,
    seconds: float | None = None,
    help: str | None = None,
    anchor: str | None = None,
) -> None:
    """A heading, and below it a fold that calls `body` while it is open.

    `promise` says what the answer looks like, and `seconds` how long it is expected to take; below
    `AT_ONCE` the fold opens by itself, until the visitor opens or closes it. A link that names one
    of the `choices` made in the section opens it; `anchor` is where a link within the page leads.
    """
    st.subheader(title, anchor=anchor, help=help)
    by_page = f"{key} by the page"
    mine = visit.get(key) is None or visit.get(key) == visit.kept(by_page)
    if mine and any(address.asked(name) is not None for name in choices):
        visit.put(key, True)
    elif mine and seconds is not None:
        visit.put(key, seconds < AT_ONCE and not waiting.LONG_TASKS.busy)
        visit.keep(by_page, visit.get(key))
    time = "" if seconds is None else f" ({about(seconds)})"
    fold = st.expander(promise + time, key=key, on_change="rerun")
    if fold.open:
        with fold:
            try:
                body(*arguments)
            except UnansweredError as error:
                st.error(plain(error))


def about(seconds: float) -> str:
    """An estimated time as people say it: less than a second, about 3 seconds."""
    if seconds < 1:
        return "less than a second"
    whole = round(seconds) if seconds < 10 else 5 * round(seconds / 5)
    return f"about {whole} second{'s' if whole > 1 else ''}"
