"""The ready lesson on training: four trainings with a question each, links and a worksheet."""

from __future__ import annotations

import html
from urllib.parse import urlencode

import streamlit as st

from app.lessons.texts import rules, text
from app.state import session
from app.views.train.settings import EXPERIMENTS, OUTCOMES, say, set_experiment


def show_training_lesson() -> None:
    """Show the lesson in a fold: minutes, questions, a start and a link for each, the worksheet."""
    lesson = rules("train")["lesson"]
    with st.expander(say("lesson.title"), key="class_training"):
        st.caption(say("lesson.needs", length=lesson["length"]))
        for minute, stop in zip(lesson["minutes"], lesson["stops"], strict=True):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.caption(f"{minute}′", width=36)
                st.markdown(f"**{say(f'lesson.{stop}')}**")
                if st.button("Start", key=f"class_train_{stop}"):
                    set_experiment(stop)
                    st.switch_page("views/train/page.py")
                with st.popover("Link", key=f"class_train_link_{stop}"):
                    st.code(link(stop), language=None, wrap_lines=True)
        st.download_button(
            "Worksheet",
            worksheet,
            file_name="headlight_training_worksheet.html",
            mime="text/html",
            key="class_train_worksheet",
            on_click="ignore",
        )


def link(stop: str) -> str:
    """Return the link that opens a training of the lesson."""
    base = str(st.context.url or "").split("?")[0].rstrip("/").removesuffix("/class")
    settings = EXPERIMENTS.get(stop, {})
    return f"{base}/train" + (f"?{urlencode(settings)}" if settings else "")


def worksheet() -> str:
    """Return a printable page: a task for each training and, on a new page, what came of each.

    The key holds what was trained in this visit.
    """
    stops = rules("train")["lesson"]["stops"]
    said = session.saved_result(OUTCOMES) or {}
    blanks = "".join(
        f"<p>{html.escape(say(f'lesson.{one}'))}</p><div class=blank></div>"
        for one in ("prediction", "saw", "why")
    )
    tasks = "".join(
        f"<section><h2>{n}. {html.escape(say(f'lesson.{stop}'))}</h2>{blanks}</section>"
        for n, stop in enumerate(stops, start=1)
    )
    answers = "".join(
        f"<li>{html.escape(said.get(stop, text('train', 'lesson.untrained')))}</li>"
        for stop in stops
    )
    title = html.escape(say("lesson.title"))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>'
        "body{font:16px/1.5 sans-serif;max-width:44em;margin:2em auto}section{break-inside:avoid}"
        ".blank{height:3.5em;border-bottom:1px solid #888}.key{break-before:page}</style>"
        f"<h1>{title}</h1>{tasks}<section class=key><h2>{say('lesson.key')}</h2>"
        f"<ol>{answers}</ol></section></html>"
    )
