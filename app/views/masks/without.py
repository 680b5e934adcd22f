"""Takes the causal mask, the padding mask, or one word away, and shows what that changes."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.figures.experiments import change_figure, cheating_figure
from app.look.labels import label, labels
from app.look.markdown import plain
from app.look.numbers import number, percent, scientific
from app.state import results, visit
from app.views.shared.choices import choose, choose_token
from app.views.shared.figure import show
from app.views.shared.lesson import Lesson, edited, show_edited, words_of
from app.views.shared.long_work import Bar
from core.analysis import leaks
from core.serving.queue import BusyError

if TYPE_CHECKING:
    from core.experiments.cheating import CheatingPoint


def without_causal(lesson: Lesson) -> None:
    """The leak under teacher forcing; then two networks that were trained with and without."""
    from core.record.edits import Edits

    record = lesson.record
    st.write(
        "Under teacher forcing the whole target is fed in at once, and row t is to predict the "
        "token that stands at t+1. Without the causal mask the answer stands in the input, one "
        "position to the right."
    )
    try:
        masked, opened = (
            results.inspect(
                lesson.card, record.source_text, edits=edits, target_ids=lesson.target_ids
            )
            for edits in (None, Edits(causal_mask=False))
        )
    except ValueError as error:
        st.error(plain(error))
        return
    leak = leaks.leak(masked, opened)
    show(
        change_figure(
            labels(opened.target_out, 1),
            leak.masked,
            leak.open,
            ("with the causal mask", "without it"),
            "Probability of the right next token",
            visit.theme(),
        ),
        "leak",
        "Look whether the dots stand above the bars: that is what seeing the future gained this "
        "network.",
    )
    st.latex(
        r"\text{gain} = \frac{1}{T} \sum_t \left[ P_{\text{no mask}}(y_t \mid x, y_{1 \dots T}) - "
        r"P(y_t \mid x, y_{<t}) \right]"
    )
    share = float(leak.on_future[:-1].mean()) if len(leak.on_future) > 1 else 0.0
    st.write(
        f"Gained on average: **{number(leak.gained, 3, sign='+')}** (from "
        f"{leak.masked.mean():.3f} to {leak.open.mean():.3f}). {percent(share)} of the decoder's "
        "attention now goes to tokens still to come. "
        + (
            "This network was trained behind the mask: it never learned what to do with the "
            "future, so what it sees there mostly disturbs it."
            if leak.gained < 0
            else "The answer leaked into the rows that were to predict it."
        )
    )
    st.write(
        "A network *trained* without the mask would read the next token off instead of predicting "
        "it. Proof by random tokens: two small networks learn on sequences drawn by chance, where "
        "no word can be known before it is seen."
    )
    _train()


def _train() -> None:
    """Train both small networks when asked, and draw them as they learn."""
    asked = st.button("Train the two networks now", key="train_cheating")
    holder = st.empty()
    if asked:
        points = []
        try:
            with closing(results.cheating(Bar(holder).waits)) as learning:
                for point in learning:
                    points.append(point)
                    if point.step % 20 == 0:
                        _draw(holder, points, f"cheating_{point.step}")
        except BusyError as error:
            holder.error(plain(error))
            return
        visit.keep("cheating", points)
    if points := visit.kept("cheating"):
        _draw(holder, points, "cheating")
        st.caption(
            "Look at the line that leaves the guess: the network without a mask predicts random "
            "tokens, so it reads the answer off. When it has to write by itself there is no answer "
            "to read."
        )


def _draw(holder: DeltaGenerator, points: list[CheatingPoint], key: str) -> None:
    from core.experiments.cheating import STEPS, WORDS

    figure = cheating_figure(
        [p.step for p in points],
        [p.masked for p in points],
        [p.open for p in points],
        STEPS,
        1 / WORDS,
        visit.theme(),
    )
    with holder.container():
        show(figure, key)


def without_padding(lesson: Lesson, texts: tuple[str, ...]) -> None:
    """One sentence by itself, in its batch, and in its batch without the padding mask."""
    if len(texts) < 2:
        st.caption("Type two sentences or more above: padding exists only in a batch.")
        return
    try:
        records = [results.inspect(lesson.card, text, decode=lesson.decode) for text in texts]
    except ValueError as error:
        st.error(plain(error))
        return
    lengths = [len(record.source) for record in records]
    st.write(
        "The same sentence must give the same numbers by itself and beside longer ones. The "
        "padding mask is what makes it so."
    )
    numbers = {row: str(row + 1) for row in range(len(texts))}
    shortest = int(np.argmin(lengths))
    row = choose("Sentence of the batch above", numbers, shortest, "padding_sentence")
    sources = tuple(results.ids(record.source) for record in records)
    targets = tuple(results.ids(record.target_out) for record in records)
    result = lesson.run("core.experiments.padding:padding_effect", sources, targets, row)
    show(
        change_figure(
            labels(records[row].target_out, 1),
            result.alone,
            result.open,
            ("the sentence alone", "in its batch without the mask"),
            "Probability of each token of its translation",
            visit.theme(),
            control=("in its batch with the mask", result.masked),
        ),
        "padding_effect",
        "Look for the ticks: with the mask they lie on the bars' ends, whoever else is in the "
        "batch; without it the dots leave them.",
    )
    with_mask = float(np.abs(result.masked - result.alone).max())
    without = float(np.abs(result.open - result.alone).max())
    st.write(
        f"{result.padded} padding positions follow this sentence. Largest change of a probability:"
        f" {scientific(with_mask)} with the mask, which is rounding; "
        f"**{scientific(without)}** without it, when {percent(result.on_padding)} of the encoder's "
        "attention falls on padding."
        if result.padded
        else "This is the longest sentence: there is no padding behind it, so nothing can change "
        "but the last digits. Choose a shorter one."
    )
    st.latex(
        r"A_{qk} = \frac{e^{s_{qk}}}{\sum_{j \in \text{tokens}} e^{s_{qj}} + "
        r"\sum_{j \in \text{padding}} e^{s_{qj}}}"
    )


def without_a_word(lesson: Lesson) -> None:
    """A source word that no query may look at, and the translation that then results."""
    from core.record.edits import Edits

    record = lesson.record
    words = words_of(record.source)
    st.write(
        "A mask can hide any key. Choose a word: it is then hidden from every query of the "
        "encoder and of the decoder, and the sentence is translated again."
    )
    if not words:
        st.caption("This sentence has no word to hide.")
        return
    names = ["".join(label(record.source[i]) for i in positions) for positions in words]
    with st.container(width=280):
        chosen = choose_token("Word to mask away", names, len(words) - 2, "hidden_word")
    edits = Edits(hidden_source=words[chosen])
    if result := edited(lesson, edits):
        show_edited(
            lesson,
            result,
            ("with the word", "without it"),
            "hidden",
            "Look for the tokens that fall: these were read off the hidden word; the others the "
            "network knows from the rest of the sentence.",
        )
    st.latex(r"M_{qk} = -\infty \text{ for every query } q \text{ and the hidden } k")
