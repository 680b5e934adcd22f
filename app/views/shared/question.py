"""Asks a question before the page shows its answer; a sentence that settles none is not asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import streamlit as st

from app.components.question import Asked, question
from app.lessons.texts import text
from app.look.markdown import plain
from app.state import address, session
from app.views.shared.asked import NotAskable


def in_lesson() -> bool:
    """Return whether a lesson's link opened the page, which then hides answers at first."""
    return address.requested("lesson") == "1"


def ask(place: str, candidates: Iterable[Callable[[], Asked]], *, hides: bool = False) -> bool:
    """Ask the first of these questions that can be asked; return whether to show its answer.

    A candidate raises NotAskable if the sentence settles no answer; then the next one is asked, and
    one line says so. The answer may be shown before the question is answered unless the page
    `hides` it, and says so, or was opened from a lesson's link. `place` names the box on its page.
    """
    reason, asked = "", None
    with st.container(key=f"question_{place}"):
        for make in candidates:
            try:
                asked = make()
                break
            except NotAskable as problem:
                if problem.later:
                    st.caption(plain(str(problem)))
                    return True
                reason = reason or str(problem)
        if asked is None:
            if reason:
                st.caption(plain(text("questions", "page.none", reason=reason)))
            return True
        if reason:
            st.caption(plain(text("questions", "page.instead", reason=reason)))
        saved = f"answer {asked.id}"
        answer = question(asked, session.saved_result(saved), key=f"asked_{place}")
        if answer is not None:
            session.save_result(saved, answer)
            return True
        if in_lesson() and not hides:
            st.caption(text("questions", "page.waiting"))
    return not (hides or in_lesson())
