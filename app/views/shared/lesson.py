"""Shared by the lesson pages: the visitor's sentence, its record, and edited passes."""

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

if TYPE_CHECKING:  # imports torch
    from core.record.edits import Edits


@dataclass(frozen=True)
class Lesson:
    """The sentence of a lesson page with its record, model and search settings."""

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
        """Return the result of a core function on this lesson's model."""
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
    """Draw the source box, translate as the first page does, and show both texts."""
    card, record = controls.sentence(given_target=False)
    chosen = controls.selection()
    with st.container(key="lesson_sentence"):
        st.text(f"{record.source_text}\n→ {record.translation}")
    show_quality_warnings(record, controls.learned(card), chosen.source)
    return Lesson(card, record, chosen.decode, chosen.direction)


@dataclass(frozen=True)
class Edited:
    """Effect of edits: the new translation, and the records of the old one before and after."""

    translation: str
    before: TranslationRecord
    after: TranslationRecord


def edited(lesson: Lesson, edits: Edits) -> Edited | None:
    """Translate under edits; if that fails, show a one-line error and return None."""
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
    """Show both translations and how the edits change each token's probability in the first.

    `states` name the passes without and with the edits.
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
