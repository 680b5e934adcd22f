"""The answers of a class: what the test, the tour and the lessons saved, counted in the browser."""

import streamlit as st

from app.components.class_answers import class_answers
from app.lessons.texts import rows, text
from app.stops import PAGES, TOURS
from app.views.bugs.mistakes import MISTAKES
from app.views.quiz.items import FORMS

_ASKING = ("masks", "positions", "head", "why", "steps")  # pages with a question on each sentence


def known_stops() -> dict[str, dict[str, str]]:
    """Return the titles of all stops that ask, by form and item of the answer files."""
    topics = {name: text("quiz", f"topic.{name[:-2]}") for name in rows("quiz", "item")}
    return {
        **{
            form: {name: f"Test {form}: {topic}, {name[-1]}" for name, topic in topics.items()}
            for form in FORMS
        },
        "tour": {stop.id: f"Tour: {stop.title}" for stops in TOURS.values() for stop in stops},
        **{page: {"": PAGES[page].title} for page in _ASKING},
        "batch": {"masked": text("masks", "batch.heading")},
        "bug": {bug: f"Bug: {text('bugs', f'bug.{bug}.name')}" for bug in MISTAKES},
    }


def show_class_answers() -> None:
    """Show the box for a class's answer files in a fold."""
    with st.expander("**Class answers**", key="class_files"):
        st.caption(
            "The test, the end of the tour and the last stop of a plan save answers as a file. "
            "Drop the files of your class here: they are read in this browser, and nothing is sent."
        )
        class_answers(known_stops(), key="class_answers")
