"""A part of a lesson that takes passes of the network: worked out when a reader opens it."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from app.look.markdown import plain
from app.state import address, visit, waiting
from core.serving.queue import UnansweredError


@waiting.fragment
def section(
    title: str,
    key: str,
    body: Callable[..., None],
    *arguments: Any,
    choices: tuple[str, ...] = (),
    anchor: str | None = None,
) -> None:
    """A heading, and below it a fold that calls `body` while it is open.

    A link that names one of the `choices` made in the section opens it; `anchor` is where a link
    within the page leads.
    """
    st.subheader(title, anchor=anchor)
    if visit.get(key) is None and any(address.asked(name) is not None for name in choices):
        visit.put(key, True)
    fold = st.expander("Work it out", key=key, on_change="rerun")
    if fold.open:
        with fold:
            try:
                body(*arguments)
            except UnansweredError as error:
                st.error(plain(error))
