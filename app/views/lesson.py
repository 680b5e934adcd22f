"""What the lesson pages share: the visitor's sentence with its record, and a few small choices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st
from plotly.graph_objects import Figure

from app import controls, session
from app.examples import EXAMPLES
from app.figures.style import CONFIG
from core.checkpoint import Card
from core.config import DecodeConfig
from core.record import RecordToken, TranslationRecord


@dataclass(frozen=True)
class Lesson:
    """The sentence that a page is about: the visitor's own, or an example where there is none."""

    card: Card
    record: TranslationRecord
    decode: DecodeConfig
    direction: str

    @property
    def source_ids(self) -> tuple[int, ...]:
        return session.ids(self.record.source)

    @property
    def target_ids(self) -> tuple[int, ...]:
        return session.ids(self.record.target_out)


def lesson() -> Lesson:
    """Translate the sentence as the first page would, and show both; else say why and stop."""
    chosen = controls.selection()
    for line in session.problems():
        st.error(line)
    if chosen.card is None:
        st.stop()
    source = chosen.source or EXAMPLES[0].text(chosen.direction)
    try:
        record = session.record(chosen.card, source, chosen.decode)
    except ValueError as error:  # InputError and CheckpointError carry one line for the reader
        st.error(str(error))
        st.stop()
    with st.container(key="lesson_sentence"):
        st.text(f"{record.source_text}\n→ {record.translation}")
    return Lesson(chosen.card, record, chosen.decode, chosen.direction)


def show(figure: Figure, key: str, look_for: str = "") -> None:
    """One figure, saved with one button, and one sentence that says what to look for."""
    width: Literal["stretch", "content"]
    width = "stretch" if figure.layout.width is None else "content"
    alt = f"{figure.layout.title.text}. {look_for}".strip()
    with st.container(width=width, gap="small"):
        st.plotly_chart(figure, width=width, theme=None, config=CONFIG, key=key, alt=alt)
        if look_for:
            st.caption(look_for)


def choose(label: str, options: Mapping[Any, str], first: Any, key: str) -> Any:
    """One of a few options, by what people read; `first` is what a visit opens with."""
    if session.get(key) not in options:  # also a layer that this model does not have
        session.put(key, first)
    return st.segmented_control(
        label,
        list(options),
        format_func=lambda option: options[option],
        required=True,
        key=key,
        persist_state="session",
    )


def choose_token(label: str, words: Sequence[str], first: int, key: str) -> int:
    """One of many words, by its place; the list shows them as plain text."""
    if session.get(key) not in range(len(words)):
        session.put(key, first)
    return st.selectbox(
        label,
        range(len(words)),
        format_func=lambda place: f"{place + 1}  {words[place]}",
        key=key,
        persist_state="session",
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
