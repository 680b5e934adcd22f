"""What the lesson pages share: the visitor's sentence, its record and edits, small choices."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from app import controls
from app.figures.experiments import change_figure
from app.look.labels import labels
from app.look.markdown import plain
from app.state import results, visit
from app.state.results import Function
from app.views.shared.figure import show
from app.views.shared.quality_warnings import show_quality_warnings
from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.record.record import TranslationRecord

if TYPE_CHECKING:  # torch comes with it
    from core.record.edits import Edits


@dataclass(frozen=True)
class Lesson:
    """The sentence that a page is about: the visitor's own, or an example where there is none."""

    card: Card
    record: TranslationRecord
    decode: DecodeConfig
    direction: str

    @property
    def source_ids(self) -> tuple[int, ...]:
        return results.ids(self.record.source)

    @property
    def target_ids(self) -> tuple[int, ...]:
        return results.ids(self.record.target_out)

    def run(self, function: Function, *arguments: Hashable) -> Any:
        """Return the result of a function of core on this lesson's network."""
        return results.run(self.card, function, *arguments)

    def ask(
        self,
        experiment: Function,
        *arguments: Hashable,
        on_progress: Callable[[int, int], object] = lambda done, total: None,
        waits: Callable[[int], object] | None = None,
    ) -> Any:
        """Return the result of an experiment on this lesson's record; see `results.ask`."""
        return results.ask(
            self.card, experiment, self.record, *arguments, on_progress=on_progress, on_wait=waits
        )


def ask_for_sentence() -> Lesson:
    """Ask for a sentence, translate it as the first page would, and show both."""
    card, record = controls.sentence(given_target=False)
    chosen = controls.selection()
    with st.container(key="lesson_sentence"):
        st.text(f"{record.source_text}\n→ {record.translation}")
    show_quality_warnings(record, controls.learned(card), chosen.source)
    return Lesson(card, record, chosen.decode, chosen.direction)


@dataclass(frozen=True)
class Edited:
    """What edits make of a sentence: another translation, and other records of the first one."""

    translation: str
    before: TranslationRecord
    after: TranslationRecord


def edited(lesson: Lesson, edits: Edits) -> Edited | None:
    """Translate again under edits; where that cannot be, say why in one line and return None."""
    source = lesson.record.source_text
    try:
        free = results.inspect(lesson.card, source, edits=edits, decode=lesson.decode)
        before, after = (
            results.inspect(lesson.card, source, edits=e, target_ids=lesson.target_ids)
            for e in (None, edits)
        )
    except ValueError as error:
        st.error(plain(error))
        return None
    return Edited(free.translation, before, after)


def show_edited(
    lesson: Lesson, result: Edited, states: tuple[str, str], key: str, look_for: str
) -> None:
    """Both translations, and what the edits do to each token's probability in the first one.

    `states` say what stands before each translation: without the edits, and with them.
    """
    with st.container(key=f"{key}_translation"):
        st.text(f"{states[0]}:  {lesson.record.translation}")
        st.text(f"{states[1]}:  {result.translation or '(empty)'}")
    show(
        change_figure(
            labels(result.before.target_out, 1),
            np.exp(result.before.log_probs),
            np.exp(result.after.log_probs),
            states,
            "Probability of each token of the first translation",
            visit.theme(),
        ),
        f"{key}_probabilities",
        look_for,
    )
