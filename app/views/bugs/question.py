"""Asks which mistake it is, and reveals it: what it is, by which number, and the line of code."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import streamlit as st

from app.examples import examples
from app.lessons.texts import text
from app.look.markdown import plain
from app.look.numbers import number
from app.state import session
from app.views.bugs.mistakes import MISTAKES
from app.views.bugs.symptoms import name_of, written
from app.views.shared.inspection import Inspection

if TYPE_CHECKING:  # imports torch
    from core.experiments.bugs import Symptoms


def ask(inspection: Inspection, bug: str, healthy: Symptoms, broken: Symptoms) -> None:
    """Ask which mistake it is, if this sentence shows any, and reveal it after an answer."""
    st.subheader(text("bugs", "question.prompt"), anchor=False)
    if broken.agree(healthy):
        st.write(plain(text("bugs", "page.no_effect")))
        offer_another_sentence(inspection)
        return
    key = f"bug_answer_{inspection.record.id[:12]}_{bug}"
    options = sorted(MISTAKES, key=name_of_bug)
    answer = st.radio(
        text("bugs", "question.prompt"),
        options,
        format_func=lambda one: plain(name_of_bug(one)),
        index=None,
        key=key,
        persist_state="session",
        label_visibility="collapsed",
    )
    skipped = session.get(f"{key}_skipped")
    if answer is None and not skipped:
        st.button(
            text("bugs", "question.skip"),
            key="bug_skip",
            on_click=session.put,
            args=(f"{key}_skipped", True),
        )
        return
    reveal(inspection, bug, answer, healthy, broken)


def name_of_bug(bug: str) -> str:
    """Return a mistake in words."""
    return text("bugs", f"bug.{bug}.name")


def offer_another_sentence(inspection: Inspection) -> None:
    """Offer an example in place of a sentence that shows nothing."""
    known = [example.text(inspection.direction) for example in examples(inspection.direction)]
    others = [sentence for sentence in known if sentence != inspection.record.source_text]
    if others:
        st.button(
            plain(text("bugs", "page.other_sentence", sentence=others[0])),
            key="bug_other_sentence",
            on_click=session.put,
            args=("source", others[0]),
        )


def reveal(
    inspection: Inspection, bug: str, answer: str | None, healthy: Symptoms, broken: Symptoms
) -> None:
    """Say whether an answer is right, and show what the mistake is and which number tells it."""
    from core.experiments.bugs import bug_symptoms

    every = {one: inspection.run_experiment(bug_symptoms, one) for one in MISTAKES}
    alike = [one for one in MISTAKES if every[one].agree(broken)]
    here = written(broken)
    with st.container(key="bug_answer"):
        if answer is not None:
            verdict = "right" if answer in alike else "wrong"
            st.markdown(
                f"**{plain(text('bugs', f'question.{verdict}', answer=name_of_bug(answer)))}**"
            )
        if answer is not None and answer not in alike:
            measure = MISTAKES[answer].measure
            st.write(
                plain(
                    text(
                        "bugs",
                        "question.compare",
                        measure=name_of(measure),
                        there=written(every[answer])[measure],
                        here=here[measure],
                    )
                )
            )
        if answer not in alike:
            st.markdown(f"**{plain(text('bugs', 'question.solution', answer=name_of_bug(bug)))}**")
        if len(alike) > 1:
            names = "; ".join(map(name_of_bug, alike))
            st.write(plain(text("bugs", "question.several", answers=names)))
        shape = inspection.card.model
        values = {f"{name}_healthy": value for name, value in written(healthy).items()}
        values["root"] = number(math.sqrt(shape.d_model / shape.num_heads), 2)
        seen = text("bugs", f"bug.{bug}.seen", **here, **values)
        st.write(plain(f"{text('bugs', f'bug.{bug}.what')} {seen}"))
        for kind, line in (("healthy", MISTAKES[bug].healthy), ("broken", MISTAKES[bug].broken)):
            st.caption(text("bugs", f"question.code_{kind}"))
            st.code(line, language="python", wrap_lines=True)
