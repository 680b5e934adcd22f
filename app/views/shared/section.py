"""A section of a page that needs forward passes: computed when it is opened."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from app.lessons.texts import text
from app.look.markdown import plain
from app.state import address, session, waiting
from core.serving.queue import UnansweredError


@waiting.fragment
def section(
    title: str,
    key: str,
    body: Callable[..., None],
    *arguments: Any,
    choices: tuple[str, ...] = (),
    summary: str,
    seconds: float | None = None,
    help: str | None = None,
) -> None:
    """Draw an expander that calls `body` while it is open.

    Its label has the `title`, if there is one, the `summary` of the result and the expected time if
    that is a second or more. A link with one of the section's `choices` opens it. `help` explains
    its terms.
    """
    untouched = session.get(key) is None
    if untouched and any(address.requested(name) is not None for name in choices):
        session.put(key, True)
    time = f" ({duration_in_words(seconds)})" if seconds and seconds >= 1 else ""
    named = f"**{title}** · {summary}" if title else summary
    fold = st.expander(named + time, key=key, on_change="rerun")
    if fold.open:
        with fold:
            if help:
                st.caption(text("questions", "page.terms"), help=help)
            try:
                body(*arguments)
            except UnansweredError as error:
                st.error(plain(error))


def duration_in_words(seconds: float) -> str:
    """Describe an estimated time: about 3 seconds, about 4 minutes."""
    if seconds >= 100:
        return f"about {round(seconds / 60)} minutes"
    whole = round(seconds) if seconds < 10 else 5 * round(seconds / 5)
    return f"about {whole} second{'s' if whole > 1 else ''}"
