"""The answers of this visit, kept in its session and saved as a file like those of the test."""

from __future__ import annotations

import csv
import io
import secrets
from functools import partial

import streamlit as st

from app.components.question import Answer, Asked
from app.export.arrays import as_text
from app.state import session

COLUMNS = tuple("form item answer right seconds hints right_later gave_up visit".split())
"""`form` is a page and `item` one of its stops; `answer` and `right` are of the first answer.

`hints` is how many were asked for, `right_later` is 1 if a later answer was right, and `gave_up` is
1 if the learner asked for the answer. `visit` is random and names nobody.
`app/components/class_answers/tally.js` reads these files; older ones of the test end with seconds.
"""
_ANSWERS = "answers"
_VISIT = "answers visit"


Kept = dict[tuple[str, str], tuple[str, tuple[str | int, ...]]]
"""By form and item: the id of its question, and its line without the visit."""


def keep(form: str, item: str, asked: Asked, answer: Answer) -> None:
    """Keep the answer to a stop's first question; a later state of it replaces an earlier one."""
    kept: Kept = session.saved_result(_ANSWERS) or {}
    if kept.get((form, item), (asked.id,))[0] == asked.id:
        tries = *answer.wrong, answer.answer
        first = "; ".join(asked.options[index].name for index in tries[0])
        right_later = answer.right and len(tries) > 1
        flags = (answer.right and not right_later, "", len(answer.asked), right_later)
        kept[form, item] = asked.id, (form, item, first, *flags, answer.skipped)
        session.save_result(_ANSWERS, kept)


def as_csv(kept: Kept, visit: str) -> str:
    """Return answers as CSV, one line for each stop, without name and date."""
    written = io.StringIO()
    lines = csv.writer(written)
    lines.writerow(COLUMNS)
    for _, row in kept.values():
        cells = [as_text(cell) if isinstance(cell, str) else int(cell) for cell in row]
        lines.writerow([*cells, visit])
    return "\ufeff" + written.getvalue()


def offer_answers(key: str) -> None:
    """Offer the answers of this visit as a file, if there are any.

    The file is written when it is asked for, in a thread without a session: it has the answers that
    were given since.
    """
    if not (kept := session.saved_result(_ANSWERS)):
        return
    if session.saved_result(_VISIT) is None:
        session.save_result(_VISIT, secrets.token_hex(4))
    st.download_button(
        "Your answers (.csv)",
        partial(as_csv, kept, session.saved_result(_VISIT)),
        file_name="headlight-answers.csv",
        mime="text/csv",
        on_click="ignore",
        key=key,
        help="the answers of this visit to the tour and the lessons, without name or date",
    )
