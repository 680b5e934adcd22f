"""Removes the causal mask, the padding mask or one word, and shows the effect."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

import core
from app.figures.experiments import change_figure, cheating_figure
from app.lessons.texts import text, verdict
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
from core.record.record import TranslationRecord
from core.record.words import is_punctuation
from core.serving.queue import BusyError

if TYPE_CHECKING:
    from core.experiments.cheating import CheatingPoint


_say = partial(text, "masks")


def _states(what: str) -> tuple[str, str]:
    """Return the names of the passes before and after a change."""
    return _say(f"{what}.before.state"), _say(f"{what}.after.state")


def without_causal_mask(inspection: Inspection) -> TranslationRecord:
    """Return the pass of the shown translation without the causal mask. Raises ValueError."""
    from core.record.edits import Edits

    source, ids = inspection.record.source_text, inspection.target_ids
    edits = Edits(causal_mask=False)
    return results.inspect(inspection.card, source, edits=edits, target_ids=ids)


def show_without_causal_mask(inspection: Inspection) -> None:
    """Show the leak under teacher forcing, and two networks trained with and without the mask."""
    st.markdown(_say("causal.about"), help=meaning("teacher-forced"))
    try:
        source, ids = inspection.record.source_text, inspection.target_ids
        masked = results.inspect(inspection.card, source, target_ids=ids)
        unmasked = without_causal_mask(inspection)
    except ValueError as error:
        st.error(plain(error))
        return
    leak = leaks.leak(masked, unmasked)
    show(
        change_figure(
            labels(unmasked.target_out, 1),
            leak.masked,
            leak.open,
            _states("causal"),
            _say("causal.chart"),
        ),
        "leak",
        _say("causal.look"),
    )
    st.latex(
        r"\text{change} = \frac{1}{T} \sum_t \left[ P_{\text{no mask}}(y_t \mid x, y_{1 \dots T}) "
        r"- P(y_t \mid x, y_{<t}) \right]"
    )
    share = float(leak.on_future[:-1].mean()) if len(leak.on_future) > 1 else 0.0
    st.write(
        _say(
            "causal.measured",
            before=percent(leak.masked.mean()),
            after=percent(leak.open.mean()),
            change=number(leak.gained, 3, sign="+"),
            count=len(leak.open),
            more=int((leak.open > leak.masked).sum()),
            less=int((leak.open < leak.masked).sum()),
            future=percent(share),
            verdict=_say(f"causal.{verdict('masks', 'causal', leak.gained)}"),
        )
    )
    st.write(_say("causal.train"))
    _train()


def _train() -> None:
    """Train both small networks on request, and draw their progress."""
    clicked = st.button(_say("causal.button"), key="train_cheating")
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
            _say(
                "causal.trained",
                steps=last.step,
                open=percent(last.open),
                masked=percent(last.masked),
                guessing=percent(1 / WORDS),
            )
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
        st.caption(_say("padding.few"))
        return
    try:
        records = [
            results.inspect(inspection.card, text, decode=inspection.decode) for text in texts
        ]
    except ValueError as error:
        st.error(plain(error))
        return
    lengths = [len(record.source) for record in records]
    st.write(_say("padding.about"))
    numbers = {row: str(row + 1) for row in range(len(texts))}
    shortest = int(np.argmin(lengths))
    row = choose(_say("padding.sentence"), numbers, shortest, "padding_sentence")
    sources = tuple(results.token_ids(record.source) for record in records)
    targets = tuple(results.token_ids(record.target_out) for record in records)
    result = inspection.run(core.padding_effect, sources, targets, row)
    show(
        change_figure(
            labels(records[row].target_out, 1),
            result.alone,
            result.open,
            _states("padding"),
            _say("padding.chart"),
            control=(_say("padding.control.state"), result.masked),
        ),
        "padding_effect",
        _say("padding.look"),
    )
    with_mask = float(np.abs(result.masked - result.alone).max())
    measured = _say(
        f"padding.{verdict('masks', 'padding', with_mask)}",
        masked=scientific(with_mask),
        open=scientific(float(np.abs(result.open - result.alone).max())),
        share=percent(result.on_padding),
    )
    followed = _say("padding.several" if result.padded > 1 else "padding.one", count=result.padded)
    st.write(f"{followed} {measured}" if result.padded else _say("padding.longest"))
    st.latex(
        r"A_{qk} = \frac{e^{s_{qk}}}{\sum_{j \in \text{tokens}} e^{s_{qj}} + "
        r"\sum_{j \in \text{padding}} e^{s_{qj}}}"
    )


def show_without_word(inspection: Inspection) -> None:
    """Hide a source word from every query, and translate again."""
    from core.record.edits import Edits

    record = inspection.record
    words = source_words(record.source)
    st.write(_say("word.about"))
    if not words:
        st.caption(_say("word.none"))
        return
    names = word_labels(record.source, words, 1)
    content = [at for at, name in enumerate(names) if not is_punctuation(name)] or [0]
    with st.container(width=280):
        chosen = choose_word(_say("word.choice"), names, content[-2:][0], "hidden_word")
    edits = Edits(hidden_source=words[chosen])
    if result := translate_with_edits(inspection, edits):
        show_edited_translation(inspection, result, _states("word"), "hidden", _say("word.look"))
    st.latex(r"M_{qk} = -\infty \text{ for every query } q \text{ and the hidden } k")
