"""Asks a question and hides what answers it; skips questions that the sentence does not settle.

A lesson's link (lesson=1) stops the page at its question. On a page opened in another way, a cover
hides only the parts that answer the question, until the learner answers, skips, or asks to see all
such parts for the rest of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import NoReturn

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.components.map_row import map_row
from app.components.map_row.payload import Map, MapRow, Opened
from app.components.question import Asked, question
from app.lessons.texts import text
from app.look.markdown import plain
from app.state import address, plans, session
from app.views.shared import answers
from app.views.shared.asked import Candidate, NotAskable
from app.views.shared.axes import map_sides, source_of
from app.views.shared.presented import show_answer, show_line, show_rest
from core.record.record import TranslationRecord

_MAPPED = ("attends", "masked", "order")  # questions about a map
_SHOWN = "answers shown"  # whether the learner has asked to see what answers a question


@dataclass(frozen=True)
class Outcome:
    """The question that is asked, if any, and whether it is settled: its answer is shown.

    Without a question, `settled` is true, unless the question's numbers are still being computed.
    """

    asked: Asked | None
    settled: bool
    shown: bool
    """Whether to show what answers the question: it is settled, or the learner asked to see it."""

    def hides(self, *names: str) -> bool:
        """Return whether to hide what answers the questions of these names."""
        return not self.shown and (self.asked is None or self.asked.question.name in names)


def in_lesson() -> bool:
    """Return whether a lesson's link opened the page, which then hides answers at first."""
    return address.requested("lesson") == "1"


def ask(place: str, candidates: Iterable[Candidate], stop: str = "") -> Outcome:
    """Ask the first of these questions that can be asked, and return its outcome.

    A candidate raises NotAskable if the sentence settles no answer; then the next one is asked, and
    one line says so. `place` names the box on its page, `stop` the place's stop in the file of
    answers, by default the question's name.
    """
    return _ask_in(st.container(key=f"question_{place}"), place, candidates, stop, expected=True)


def _ask_in(
    box: DeltaGenerator,
    place: str,
    candidates: Iterable[Candidate],
    stop: str,
    expected: bool = False,
) -> Outcome:
    """Ask in a box; `expected`: the learner has read what the first candidate asks about."""
    wanted = not in_lesson() and bool(session.saved_result(_SHOWN))
    with box:
        try:
            asked, reason = first_askable(candidates)
        except NotAskable as problem:  # its numbers are being computed
            st.caption(plain(str(problem)))
            return Outcome(None, False, wanted)
        if reason and (expected or asked is None):
            found = "none" if asked is None else "instead"
            st.caption(plain(text("questions", f"page.{found}", reason=reason)))
        if asked is None:
            return Outcome(None, True, True)
        saved = f"answer {asked.id}"
        answer = question(asked, session.saved_result(saved), key=f"asked_{place}")
        if answer is not None:
            session.save_result(saved, answer)
            answers.keep(place.partition("_")[0], stop or asked.question.name, asked, answer)
        settled = answer is not None and answer.settled
        return Outcome(asked, settled, wanted or settled)


def first_askable(candidates: Iterable[Candidate]) -> tuple[Asked | None, str]:
    """Return the first question that can be asked, and the reason if the first candidate cannot.

    Raises NotAskable if a question must wait for its numbers: then no other is asked.
    """
    reason = ""
    for make in candidates:
        try:
            return make(), reason
        except NotAskable as problem:
            if problem.later:
                raise
            reason = reason or str(problem)
    return None, reason


def open_with(
    place: str,
    record: TranslationRecord,
    candidates: Iterable[Candidate],
    *,
    linked: bool = False,
    expected: bool = False,
    pictures: Mapping[str, Callable[[Outcome], None]] | None = None,
) -> Outcome:
    """Ask the question that a page opens with.

    If a lesson's link opened the page, stop the page until the question is settled. If the link
    names what to look at (`linked`), show what answers the question. A presented page ends here: it
    shows the question and then the map that answers it, if there is one. `record` is the page's.
    `expected`: the visitor chose what the first candidate asks about, so a line says if it cannot
    be asked. `pictures` draw what a question is about, by its name, where that is no map.
    """
    if address.requested("lesson") == "0":
        address.pop("lesson")
        session.save_result(_SHOWN, True)
    chosen = session.saved_result(_SHOWN)
    if chosen is not None:  # without a choice, the URL keeps none
        kept = "1" if in_lesson() else "0" if chosen else None
        address.write({"lesson": kept}, "lesson")
    if plans.presenting():
        _present(place, record, list(candidates))
    candidates = list(candidates)
    pictures = pictures or {}
    said, beside = _columns(candidates, {*_MAPPED, *pictures})
    with said:
        box = st.container(key=f"question_{place}")
    found = _ask_in(box, place, candidates, record.source_text, expected)
    if found.settled or in_lesson():
        with beside:
            _show_picture(place, found, pictures)
    if found.settled:
        return found
    if in_lesson():
        box.caption(text("questions", "page.waiting"))
        st.stop()
    seen = f"seen {place} {record.id}"
    if linked:
        session.save_result(seen, True)
    shown = found.shown or bool(session.saved_result(seen))
    if shown and found.asked:
        box.button(
            text("questions", "page.predict"),
            key=f"predict_{place}",
            type="tertiary",
            help=text("questions", "page.predict_help"),
            on_click=_cover_again,
            args=(seen,),
        )
    found = Outcome(found.asked, False, shown)
    with beside:
        _show_picture(place, found, pictures)
    return found


def _columns(
    candidates: list[Candidate], pictured: set[str], widths: tuple[int, int] = (4, 5)
) -> tuple[DeltaGenerator, DeltaGenerator]:
    """Return the containers of the question and of its picture beside it, if it has one."""
    try:
        asked = first_askable(candidates)[0]
    except NotAskable:
        asked = None
    if asked is None or asked.question.name not in pictured:
        return st.container(), st.container()
    page = st.container(key="question_columns")  # the style sheet stacks them on a narrow page
    said, beside = page.columns(widths, gap="medium")
    return said, beside


def _show_picture(
    place: str, found: Outcome, pictures: Mapping[str, Callable[[Outcome], None]]
) -> None:
    """Show the picture that a question is about; its answer is covered until it may be shown.

    A question about a row covers that row. A question about the decoder's mask shows the map of a
    pass without it or, where there is none, the encoder's map of that layer and head: even without
    hatching, the zeros would answer it. A question about a change shows the map before it and, in
    the place that it keeps, the one after it.
    """
    asked = found.asked
    if asked is None or (at := asked.place) is None:
        return
    asks = asked.question.name
    if asks in pictures:
        pictures[asks](found)
    if asks not in _MAPPED:
        return
    row_asked = at.query if asks == "attends" else None
    kind, record, named = at.kind, at.before or at.record, asks
    if asks == "masked" and found.shown:
        record, named = at.record, "masked-after"
    elif asks == "masked":
        kind, named = ("decoder", "masked-before") if at.before else ("encoder", "masked")
    maps = [Map(text("questions", f"page.{named}"), "weight", "", record.maps(kind))]
    if at.before and asks == "order":
        name = text("questions", "page.order-after")
        note = "" if found.shown else text("questions", "page.covered")
        open_ = record.mask(kind) & found.shown
        maps.append(Map(name, "after", note, at.record.maps(kind), mask=open_))
    turn = int(sha256(f"{asked.id} {at.layer} {at.head}".encode()).hexdigest()[:8], 16)
    row = MapRow(
        kind.capitalize(),
        range(len(record.maps(kind))),
        *map_sides(record, kind),
        maps,
        record.mask(kind),
        Opened(at.layer, at.head, turn, None),
        outlined=row_asked if found.shown else None,
        covered=() if found.shown or row_asked is None else (row_asked,),
        sealed=in_lesson(),
        about=source_of(record),
    )
    with st.container(key="pictured_pair" if len(maps) > 1 else None):  # see the style sheet
        map_row(row, key=f"pictured_{place}")


def _present(
    place: str,
    record: TranslationRecord,
    candidates: list[Candidate],
) -> NoReturn:
    """Show the question, or on the next screen the map that answers it, and stop the page."""
    try:
        asked = first_askable(candidates)[0]
    except NotAskable:  # its numbers are being computed
        asked = None
    with st.container(key="presented"):
        if asked and asked.place and plans.screen():
            show_line(record)
            show_answer(asked, asked.place)
        else:
            has_map = asked is not None and asked.place is not None
            show_line(record, text("questions", "present.more") if has_map else "")
            said, beside = _columns(candidates, set(_MAPPED), (2, 1))
            with said:
                found = ask(place, candidates, record.source_text)
            with beside:
                _show_picture(place, found, {})
            if has_map:
                turn_if_right(found)
            else:
                show_rest()
    st.stop()


def turn_if_right(found: Outcome) -> None:
    """Once a presented question is answered right, go on to the screen that shows why, once."""
    if found.asked is None or session.saved_result(turned := f"turned {found.asked.id}"):
        return
    answer = session.saved_result(f"answer {found.asked.id}")
    if answer is not None and answer.right:
        session.save_result(turned, True)
        plans.show_screen(plans.screen() + 1)
        st.rerun()


def _cover_again(seen: str) -> None:
    session.save_result(_SHOWN, False)
    session.save_result(seen, False)


def covered(place: str, hidden: bool) -> bool:
    """If `hidden`, draw a cover in place of what answers a question. Return `hidden`."""
    if hidden:
        with st.container(horizontal=True, vertical_alignment="center", key=f"cover_{place}"):
            st.caption(text("questions", "page.covered"), width="content")
            # A lesson offers to skip the question instead.
            if not in_lesson() and st.button(
                text("questions", "page.show"),
                key=f"show_{place}",
                type="tertiary",
                help=text("questions", "page.show_help"),
            ):
                session.save_result(_SHOWN, True)
                st.rerun()  # the cover may be in a fragment, which would only run itself
    return hidden
