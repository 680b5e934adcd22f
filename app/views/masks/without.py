"""Removes the causal mask, the padding mask or one word, and shows the effect."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

import core
from app.figures.experiments import change_figure, cheating_figure
from app.look.glossary import meaning
from app.look.labels import labels, word_labels
from app.look.markdown import plain
from app.look.numbers import number, percent, scientific
from app.state import results, session
from app.views.shared.choices import choose, choose_word
from app.views.shared.figure import show
from app.views.shared.inspection import Inspection, show_edited_translation, translate_with_edits
from app.views.shared.progress_bar import ProgressBar
from core.analysis import leaks
from core.analysis.attribution import source_words
from core.record.words import is_punctuation
from core.serving.queue import BusyError

if TYPE_CHECKING:
    from core.experiments.cheating import CheatingPoint

ROUNDING = 1e-5  # of a probability: float32 passes in different batches differ by less
NEGLIGIBLE = 0.005  # of a mean probability


def show_without_causal_mask(inspection: Inspection) -> None:
    """Show the leak under teacher forcing, and two networks trained with and without the mask."""
    from core.record.edits import Edits

    record = inspection.record
    st.markdown(
        "In a teacher-forced pass the whole target is fed in at once, and each row has to predict "
        "the token that follows the one it is fed. Without the causal mask every row but the "
        "last can look at that token: the answer is in the input, one column to the right.",
        help=meaning("teacher-forced"),
    )
    try:
        masked, unmasked = (
            results.inspect(
                inspection.card, record.source_text, edits=edits, target_ids=inspection.target_ids
            )
            for edits in (None, Edits(causal_mask=False))
        )
    except ValueError as error:
        st.error(plain(error))
        return
    leak = leaks.leak(masked, unmasked)
    show(
        change_figure(
            labels(unmasked.target_out, 1),
            leak.masked,
            leak.open,
            ("with the causal mask", "without it"),
            "Probability of the next token of the target",
        ),
        "leak",
        "A dot above its bar: seeing future tokens made the next token of the target more "
        "probable. A dot below: less probable.",
    )
    st.latex(
        r"\text{change} = \frac{1}{T} \sum_t \left[ P_{\text{no mask}}(y_t \mid x, y_{1 \dots T}) "
        r"- P(y_t \mid x, y_{<t}) \right]"
    )
    share = float(leak.on_future[:-1].mean()) if len(leak.on_future) > 1 else 0.0
    more, less = int((leak.open > leak.masked).sum()), int((leak.open < leak.masked).sum())
    st.write(
        "Mean probability of the next token of the target: from "
        f"**{percent(leak.masked.mean())}** to **{percent(leak.open.mean())}** (change "
        f"{number(leak.gained, 3, sign='+')}); of {len(leak.open)} tokens, "
        f"{more} became more probable and {less} less. In the rows that have future tokens, "
        f"{percent(share)} of the decoder's self-attention now goes to them. "
        + _interpret_gain(leak.gained)
    )
    st.write(
        "A network *trained* without the mask can copy the next token instead of predicting it. "
        "Random tokens show this: two small networks, with and without the mask, learn on random "
        "sequences, in which nothing can be predicted."
    )
    _train()


def _interpret_gain(gained: float) -> str:
    """Interpret a mean gain of probability by sign and size."""
    if gained < -NEGLIGIBLE:
        return (
            "On average, future tokens are noise to this network: it was trained with the mask, "
            "so it could not learn to use them."
        )
    if gained <= NEGLIGIBLE:
        return "On average, seeing future tokens changes next to nothing."
    return "On average, the answer leaked into the rows that should predict it."


def _train() -> None:
    """Train both small networks on request, and draw their progress."""
    clicked = st.button("Train the two networks now", key="train_cheating")
    placeholder = st.empty()
    if clicked:
        points = []
        try:
            with closing(
                results.train_cheating_networks(ProgressBar(placeholder).show_queue)
            ) as learning:
                for point in learning:
                    points.append(point)
                    if point.step % 20 == 0:
                        _draw(placeholder, points, f"cheating_{point.step}")
        except BusyError as error:
            placeholder.error(plain(error))
            return
        session.save_result("cheating", points)
    if points := session.saved_result("cheating"):
        _draw(placeholder, points, "cheating")
        from core.experiments.cheating import WORDS

        last = points[-1]
        st.caption(
            f"After {last.step} steps, the next token has a probability of "
            f"{percent(last.open)} without the mask and {percent(last.masked)} with it; guessing "
            f"gives {percent(1 / WORDS)}. Random tokens cannot be predicted, so anything above "
            "guessing was copied from the input. A network that generates text has no such input."
        )


def _draw(placeholder: DeltaGenerator, points: list[CheatingPoint], key: str) -> None:
    from core.experiments.cheating import STEPS, WORDS

    figure = cheating_figure(
        [p.step for p in points],
        [p.masked for p in points],
        [p.open for p in points],
        STEPS,
        1 / WORDS,
    )
    with placeholder.container():
        show(figure, key)


def show_without_padding_mask(inspection: Inspection, texts: tuple[str, ...]) -> None:
    """Compare a sentence alone, in its batch, and in its batch without the padding mask."""
    if len(texts) < 2:
        st.caption("Enter at least two sentences above: padding exists only in a batch.")
        return
    try:
        records = [
            results.inspect(inspection.card, text, decode=inspection.decode) for text in texts
        ]
    except ValueError as error:
        st.error(plain(error))
        return
    lengths = [len(record.source) for record in records]
    st.write(
        "A sentence must give the same probabilities alone and in a batch with longer ones. The "
        "padding mask ensures that."
    )
    numbers = {row: str(row + 1) for row in range(len(texts))}
    shortest = int(np.argmin(lengths))
    row = choose("Sentence of the batch above", numbers, shortest, "padding_sentence")
    sources = tuple(results.token_ids(record.source) for record in records)
    targets = tuple(results.token_ids(record.target_out) for record in records)
    result = inspection.run(core.padding_effect, sources, targets, row)
    show(
        change_figure(
            labels(records[row].target_out, 1),
            result.alone,
            result.open,
            ("the sentence alone", "in its batch without the mask"),
            "Probability of each token of its translation",
            control=("in its batch with the mask", result.masked),
        ),
        "padding_effect",
        "Compare the ticks (with the mask) and the dots (without it) with the bars (the sentence "
        "alone).",
    )
    with_mask = float(np.abs(result.masked - result.alone).max())
    without = float(np.abs(result.open - result.alone).max())
    st.write(
        f"{result.padded} padding "
        f"{'positions follow' if result.padded > 1 else 'position follows'} this sentence. "
        f"Largest change of a probability: {scientific(with_mask)} with the "
        f"mask{', which is rounding' if with_mask < ROUNDING else ''}; **{scientific(without)}** "
        f"without it, when {percent(result.on_padding)} of the encoder's attention falls on "
        "padding."
        if result.padded
        else "No sentence of the batch is longer, so this one has no padding and only the last "
        "digits can change. Choose a shorter sentence."
    )
    st.latex(
        r"A_{qk} = \frac{e^{s_{qk}}}{\sum_{j \in \text{tokens}} e^{s_{qj}} + "
        r"\sum_{j \in \text{padding}} e^{s_{qj}}}"
    )


def show_without_word(inspection: Inspection) -> None:
    """Hide a source word from every query, and translate again."""
    from core.record.edits import Edits

    record = inspection.record
    words = source_words(record.source)
    st.write(
        "A mask can hide any key. Choose a word or a punctuation mark: its tokens are masked for "
        "every query in the encoder and in cross-attention, and the sentence is translated again."
    )
    if not words:
        st.caption("This sentence has no word to hide.")
        return
    names = word_labels(record.source, words, 1)
    content = [at for at, name in enumerate(names) if not is_punctuation(name)] or [0]
    with st.container(width=280):
        chosen = choose_word("Word to mask", names, content[-2:][0], "hidden_word")
    edits = Edits(hidden_source=words[chosen])
    if result := translate_with_edits(inspection, edits):
        show_edited_translation(
            inspection,
            result,
            ("with the word", "without it"),
            "hidden",
            "A token whose probability changes depended on the hidden word. Where a probability "
            "hardly changes, the rest of the sentence and the tokens written so far are enough.",
        )
    st.latex(r"M_{qk} = -\infty \text{ for every query } q \text{ and the hidden } k")
