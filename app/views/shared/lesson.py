"""What the lesson pages share: the visitor's sentence, its record and edits, small choices."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from app import controls
from app.figures.experiments import change_figure
from app.look.labels import labels
from app.look.markdown import plain
from app.state import results, visit
from app.views.shared.doubts import show_doubts
from app.views.shared.figure import show
from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.record.record import RecordToken, TranslationRecord

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

    def run(self, function: str, *arguments: Hashable) -> Any:
        """The result of a function of core on this lesson's network."""
        return results.run(self.card, function, *arguments)


def lesson() -> Lesson:
    """Ask for a sentence, translate it as the first page would, and show both."""
    card, record = controls.sentence(given_target=False)
    chosen = controls.selection()
    with st.container(key="lesson_sentence"):
        st.text(f"{record.source_text}\n→ {record.translation}")
    show_doubts(record, controls.learned(card))
    return Lesson(card, record, chosen.decode, chosen.direction)


@dataclass(frozen=True)
class Edited:
    """What edits make of a sentence: another translation, and other records of the first one."""

    translation: str
    before: TranslationRecord
    after: TranslationRecord


def edited(given: Lesson, edits: Edits) -> Edited | None:
    """Translate again under edits; where that cannot be, say why in one line and return None."""
    source = given.record.source_text
    try:
        free = results.inspect(given.card, source, edits=edits, decode=given.decode)
        before, after = (
            results.inspect(given.card, source, edits=e, target_ids=given.target_ids)
            for e in (None, edits)
        )
    except ValueError as error:
        st.error(plain(error))
        return None
    return Edited(free.translation, before, after)


def show_edited(
    given: Lesson, found: Edited, states: tuple[str, str], key: str, look_for: str
) -> None:
    """Both translations, and what the edits do to each token's probability in the first one.

    `states` say what stands before each translation: without the edits, and with them.
    """
    with st.container(key=f"{key}_translation"):
        st.text(f"{states[0]}:  {given.record.translation}")
        st.text(f"{states[1]}:  {found.translation}")
    show(
        change_figure(
            labels(found.before.target_out, 1),
            np.exp(found.before.log_probs),
            np.exp(found.after.log_probs),
            states,
            "Probability of each token of the first translation",
            visit.theme(),
        ),
        f"{key}_probabilities",
        look_for,
    )


def words_of(tokens: Sequence[RecordToken]) -> list[tuple[int, ...]]:
    """The places of each word's pieces, in the order of the sentence; special tokens are none."""
    words: list[tuple[int, ...]] = []
    for place, token in enumerate(tokens):
        if token.special:
            continue
        if words and not token.starts_word and words[-1][-1] == place - 1:
            words[-1] += (place,)
        else:
            words.append((place,))
    return words
