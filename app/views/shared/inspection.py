"""A sentence with its record and model, for pages that run experiments or edited passes on it."""

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
from app.state import results
from app.state.results import Function
from app.views.shared.figure import show
from app.views.shared.quality_warnings import show_quality_warnings
from app.views.shared.what_if import note_unused_edits
from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.record.record import TranslationRecord
from core.text.tokenizer import normalise

if TYPE_CHECKING:  # imports torch
    from core.experiments.experiment import Progress
    from core.record.edits import Edits


@dataclass(frozen=True)
class Inspection:
    """The record of the visitor's sentence, with its model and search settings."""

    card: Card
    record: TranslationRecord
    decode: DecodeConfig
    direction: str

    @property
    def source_ids(self) -> tuple[int, ...]:
        return results.token_ids(self.record.source)

    @property
    def target_ids(self) -> tuple[int, ...]:
        return results.token_ids(self.record.target_out)

    def run(self, function: Function, *arguments: Hashable) -> Any:
        """Return the result of a core function on this model; see `results.run`."""
        return results.run(self.card, function, *arguments)

    def run_experiment(
        self,
        experiment: Function,
        *arguments: Hashable,
        on_progress: Callable[[int, int], object] = lambda done, total: None,
        on_so_far: Callable[[Any], object] = lambda result: None,
        on_wait: Callable[[int], object] | None = None,
    ) -> Any:
        """Return the result of an experiment on this record; see `results.run_experiment`."""
        return results.run_experiment(
            self.card,
            experiment,
            self.record,
            *arguments,
            on_progress=on_progress,
            on_so_far=on_so_far,
            on_wait=on_wait,
        )

    def advance_experiment(self, experiment: Function, *, seconds: float) -> Progress:
        """Run a part of an experiment on this record; see `results.advance_experiment`."""
        return results.advance_experiment(self.card, experiment, self.record, seconds=seconds)


def ask_for_inspection(show_sentence: bool = True) -> Inspection:
    """Draw the source box, translate as the page Translate does, and show both texts."""
    card, record = controls.ask_for_record(given_target=False)
    chosen = controls.selection()
    if show_sentence:
        with st.container(key="lesson_sentence"):
            st.text(f"{normalise(record.source_text)}\n→ {record.translation}")
    note_unused_edits("each experiment makes its own edits, to a pass that has no others.")
    show_quality_warnings(record, controls.training_domain(card), chosen.source)
    return Inspection(card, record, chosen.decode, chosen.languages)


@dataclass(frozen=True)
class EditedTranslation:
    """The effect of edits: the new translation, and records of the old one before and after."""

    translation: str
    before: TranslationRecord
    after: TranslationRecord


def translate_with_edits(inspection: Inspection, edits: Edits) -> EditedTranslation | None:
    """Translate under edits; if that fails, show a one-line error and return None."""
    source = inspection.record.source_text
    try:
        free = results.inspect(inspection.card, source, edits=edits, decode=inspection.decode)
        before, after = (
            results.inspect(inspection.card, source, edits=e, target_ids=inspection.target_ids)
            for e in (None, edits)
        )
    except ValueError as error:
        st.error(plain(error))
        return None
    return EditedTranslation(free.translation, before, after)


def show_edited_translation(
    inspection: Inspection,
    result: EditedTranslation,
    states: tuple[str, str],
    key: str,
    look_for: str,
) -> None:
    """Show both translations and how the edits change each token's probability in the first.

    `states` name the passes without and with the edits.
    """
    with st.container(key=f"{key}_translation"):
        st.text(f"{states[0]}:  {inspection.record.translation}")
        st.text(f"{states[1]}:  {result.translation or '(empty)'}")
    show(
        change_figure(
            labels(result.before.target_out, 1),
            np.exp(result.before.log_probs),
            np.exp(result.after.log_probs),
            states,
            "Probability of each token of the first translation",
        ),
        f"{key}_probabilities",
        look_for,
    )
