"""The ready lessons: a card each, with pictures, questions, and all that a class is handed."""

import streamlit as st

from app import controls
from app.export.picture import riddle
from app.export.tour import Inspect, not_offline
from app.export.worksheet import Sheet
from app.look.markdown import plain
from app.plan import Ready, ready
from app.state import plans, results, session
from app.stops import Stop
from app.views.shared.asked import other_rows
from app.views.shared.question import first_askable
from app.views.teacher import draft
from app.views.teacher.files import has_page, page_button, sheet_of, sheets, worksheet_button
from app.views.tour.finders import find
from core.record.record import TranslationRecord


def show_ready(chosen: controls.Selection) -> None:
    """Show the ready lessons of the direction side by side."""
    lessons = list(ready(chosen.direction))
    for column, lesson in zip(st.columns(len(lessons) or 1), lessons, strict=False):
        with column, st.container(border=True, key=f"class_ready_{lesson.name}"):
            _show(lesson, chosen)


def _show(lesson: Ready, chosen: controls.Selection) -> None:
    card = chosen.card
    assert card is not None

    def inspect(text: str) -> TranslationRecord:
        return results.inspect(card, text, decode=chosen.decode)

    stops = lesson.plan.stops
    st.subheader(lesson.title, anchor=False, help=lesson.goal)
    st.caption(f"{lesson.length} minutes. {lesson.needs}")
    for minute, stop in zip(lesson.minutes, stops, strict=True):
        with st.container(horizontal=True, wrap=False, vertical_alignment="center"):
            st.caption(f"{minute}′", width=36)
            _picture(stop, inspect)
            st.markdown(f"**{plain(stop.predict)}**")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            "Start",
            key=f"class_start_{lesson.name}",
            type="primary",
            on_click=plans.start,
            args=(lesson.plan, chosen.direction, chosen.link["model"], 0, True),
            help="presents it, question first",
        )
        with st.popover("Link", key=f"class_link_{lesson.name}"):
            st.code(plans.link(lesson.plan, chosen.link), language=None, wrap_lines=True)
        left_out = not_offline(lesson.plan, inspect)
        if has_page(card) and len(left_out) < len(stops):
            lacks = f"Without {'; '.join(left_out)}. " if left_out else ""
            page_button(
                "Offline file",
                lesson.plan,
                card,
                f"class_page_{lesson.name}",
                plain(f"{lacks}It asks no questions."),
            )
        if found := sheets(lesson.plan, inspect)[0]:
            worksheet_button("Worksheet", found, card, f"class_worksheet_{lesson.name}")
        st.button(
            "Change",
            key=f"class_change_{lesson.name}",
            type="tertiary",
            help="copies the stops to your own lesson below",
            on_click=draft.fill,
            args=(chosen.direction, stops),
        )


def _picture(stop: Stop, inspect: Inspect) -> None:
    try:
        shown = sheet_of(stop, inspect(stop.source))
    except ValueError as error:  # InputError: one line
        st.caption(plain(error), width=96)
        return
    where = shown.kind, shown.layer, shown.head
    if stop.asks == "masked":  # the encoder's map has no mask, so it does not give the answer
        layers, heads = shown.record.encoder.shape[:2]
        where = "encoder", min(shown.layer, layers - 1), min(shown.head, heads - 1)
    st.image(riddle(shown.record, *where, asked_rows(stop, shown), session.theme()), width=96)


def asked_rows(stop: Stop, sheet: Sheet) -> tuple[int, ...]:
    """Return the rows that the stop covers until its question is answered, if it is about rows."""
    if not stop.on_tour or stop.asks != "attends":
        return ()
    try:
        shown = find(stop.find, sheet.record)
    except LookupError:
        return ()
    if shown.query is not None:
        return shown.covered(shown.query)
    rows = other_rows(sheet.record, sheet.kind, sheet.layer, sheet.head, stop.first_row)
    asked, _ = first_askable(rows)
    query = None if asked is None or asked.place is None else asked.place.query
    return () if query is None else (query,)
