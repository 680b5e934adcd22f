"""Asks which mistake the network has, then shows the revealing number and the line of code."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import streamlit as st

from app.components.question import Answer, Asked, Hint, Option, Texts
from app.examples import examples
from app.lessons.texts import text
from app.look.markdown import plain
from app.look.numbers import number
from app.state import session
from app.views.bugs.mistakes import MISTAKES
from app.views.bugs.symptoms import name_of, written
from app.views.shared.asked import asked_about
from app.views.shared.inspection import Inspection
from app.views.shared.question import ask
from core.analysis.questions import Question

if TYPE_CHECKING:  # imports torch
    from core.experiments.bugs import Symptoms


def made_in(inspection: Inspection) -> list[str]:
    """Return the mistakes that can be made in the network, in page order."""
    from core.experiments.bugs import possible

    here: tuple[str, ...] = possible(inspection.card.model)
    return [bug for bug in MISTAKES if bug in here]


def _id(inspection: Inspection, bug: str) -> str:
    """Return the id of the question about a bug."""
    return f"{inspection.record.id} bug {list(MISTAKES).index(bug) + 1}"


def is_solved(inspection: Inspection, bug: str) -> bool:
    """Return whether the question about a bug was answered right."""
    answer: Answer | None = session.saved_result(f"answer {_id(inspection, bug)}")
    return answer is not None and answer.right


def ask_which(
    inspection: Inspection, bug: str, healthy: Symptoms, broken: Symptoms, draw: bool = True
) -> str | None:
    """Ask which mistake the network has; return None until the answer is revealed.

    Then return a line that compares a wrong answer with this bug, or "". If this sentence shows no
    mistake, say so and return None. Without `draw`, show no question.
    """
    from core.experiments.bugs import bug_symptoms

    if broken.agree(healthy):
        st.caption(plain(text("questions", "page.none", reason=text("bugs", "page.no_effect"))))
        _offer_another_sentence(inspection)
        return None
    every = {one: inspection.run_experiment(bug_symptoms, one) for one in made_in(inspection)}
    asked = question_about(bug, every, healthy, inspection)
    if draw:
        ask("bug", [lambda: asked], bug)
    answer: Answer | None = session.saved_result(f"answer {asked.id}")
    if answer is None or not answer.settled:
        return None
    if answer.right or answer.skipped:
        return ""
    chosen = str(asked.question.options[answer.answer[0]])
    there, here = written(every[chosen]), written(broken)
    names = (MISTAKES[chosen].measure, *here)  # prefer the number that shows the chosen mistake
    measure = next((name for name in names if there[name] != here[name]), None)
    if measure is None:
        return ""
    numbers = {"there": there[measure], "here": here[measure]}
    return text("bugs", "question.compare", measure=name_of(measure), **numbers)


def show_code(bug: str) -> None:
    """Show the line of code with and without the mistake, side by side."""
    lines = ("healthy", MISTAKES[bug].healthy), ("broken", MISTAKES[bug].broken)
    for column, (kind, line) in zip(st.columns(2), lines, strict=True):
        column.caption(text("bugs", f"question.code_{kind}"))
        column.code(line, language="python", wrap_lines=True)


def question_about(
    bug: str, every: Mapping[str, Symptoms], healthy: Symptoms, inspection: Inspection
) -> Asked:
    """Return the question; mistakes with the same numbers on this sentence count as right too."""
    names = {one: text("bugs", f"bug.{one}.name") for one in MISTAKES}
    options = sorted(every, key=names.__getitem__)
    here = every[bug]
    alike = [one for one in options if every[one].agree(here)]
    shape = inspection.card.model
    numbers, whole = written(here), written(healthy)
    values = numbers | {f"{name}_healthy": value for name, value in whole.items()}
    values["root"] = number(math.sqrt(shape.size_of_head("encoder")), 2)
    if len(alike) == 1:
        others = text("bugs", "question.unique")
    else:
        others = text("bugs", "question.several", answers="; ".join(names[one] for one in alike))
    return asked_about(
        "bugs",
        id=_id(inspection, bug),
        question=Question(
            "bug",
            tuple(options),
            frozenset({options.index(bug)}),
            tuple(every[one].loss for one in options),
            frozenset(options.index(one) for one in alike if one != bug),
        ),
        prompt=text("bugs", "question.prompt"),
        layout=Texts(),
        options=[
            # A number of another mistake would answer the question about it.
            Option(names[one], names[one], names[one])
            for one in options
        ],
        explanation=[text("bugs", f"bug.{bug}.what"), text("bugs", f"bug.{bug}.seen", **values)],
        hints=[
            Hint(
                text(
                    "bugs",
                    "question.hint",
                    measure=name_of(name),
                    here=numbers[name],
                    healthy=whole[name],
                )
            )
            for name in [one for one in numbers if numbers[one] != whole[one]][:2]
        ],
        uncertain=others,
    )


def _offer_another_sentence(inspection: Inspection) -> None:
    """Offer an example sentence, because this sentence does not show the mistake."""
    known = [example.text(inspection.direction) for example in examples(inspection.direction)]
    others = [sentence for sentence in known if sentence != inspection.record.source_text]
    if others:
        st.button(
            plain(text("bugs", "page.other_sentence", sentence=others[0])),
            key="bug_other_sentence",
            on_click=session.put,
            args=("source", others[0]),
        )
