"""What each layer already knew: logit lens and DecoderLens."""

import numpy as np
import streamlit as st

import core
from app.figures.style import tick
from app.figures.why import Grid, words_grid_figure
from app.look.labels import labels
from app.look.numbers import percent
from app.state import results, visit
from app.state.results import Function
from app.views.shared.figure import show
from app.views.shared.lesson import Lesson


def lens(lesson: Lesson) -> None:
    """Show the logit lens: the output layer applied after every sub-layer of the decoder."""
    st.write(
        "The output layer was trained on the decoder's last state only. Applied to earlier states"
        f"{_norm(lesson, 'decoder')}, it shows which token the network would write if it ended "
        "there."
    )
    _grid(
        lesson,
        core.lens,
        "The most probable token after each sub-layer",
        "why_lens",
        "Read each column from top to bottom: where does its final token first appear?",
    )


def decoder_lens(lesson: Lesson) -> None:
    """Show the DecoderLens: the decoder reads an earlier layer of the encoder."""
    st.write(
        "Let the decoder read an earlier layer of the encoder instead of the last"
        f"{_norm(lesson, 'encoder')} (DecoderLens, Langedijk et al. 2023). In every row "
        "the decoder is still fed the translation up to the previous token."
    )
    _grid(
        lesson,
        core.decoder_lens,
        "The most probable token when the decoder reads layer k of the encoder",
        "why_decoder_lens",
        "A token that fills its whole column needs no context from the encoder: the source "
        "embeddings and the translation so far are enough.",
    )


def _norm(lesson: Lesson, side: str) -> str:
    """Mention the final norm if the model has one."""
    return f", through the {side}'s final norm" if lesson.card.model.final_norm else ""


def _grid(lesson: Lesson, experiment: Function, title: str, key: str, look_for: str) -> None:
    record = lesson.record
    result = lesson.ask(experiment)
    columns = labels(record.target_out, 1)
    names = results.target_labels(lesson.card, tuple(np.unique(result.ids).tolist()))
    rows = [row.label for row in result.rows]
    texts = [[names[int(i)] for i in row] for row in result.ids]
    own = [f"{word}: " for word in columns]
    hovers = [
        [
            f"{row}<br>most probable: <b>{tick(texts[r][t])}</b> "
            f"{percent(result.probabilities[r, t])}<br>"
            f"{tick(own[t])}{percent(result.written_probabilities[r, t])}, "
            f"rank {result.written_ranks[r, t]:,}"
            for t in range(len(columns))
        ]
        for r, row in enumerate(rows)
    ]
    grid = Grid(rows, columns, result.probabilities, texts, hovers)
    stronger = "darker" if visit.theme() == "light" else "brighter"
    show(
        words_grid_figure(
            grid,
            title,
            f"{stronger} = more probable; the last row is the output"
            + (", bit for bit" if result.exact else ""),
            1.0,
            False,
            visit.theme(),
        ),
        key,
        look_for,
    )
