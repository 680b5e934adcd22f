"""What each layer already knew: states on the way, read as if they were the last."""

import numpy as np
import streamlit as st

from app.figures.style import tick
from app.figures.why import Grid, words_grid_figure
from app.look.labels import labels
from app.state import results, visit
from app.views.shared.figure import show
from app.views.shared.lesson import Lesson


def lens(lesson: Lesson) -> None:
    """The decoder's state after every sub-layer, through the final norm and the classifier."""
    st.write(
        "The classifier is made for the decoder's last state. Read the states before it with the "
        "same norm and classifier: what would the network say if it ended there?"
    )
    _grid(
        lesson,
        "core.experiments.lens:lens",
        "The likeliest token after each sub-layer",
        "why_lens",
        "Read a column from top to bottom: where does the token that was written appear first?",
    )


def decoder_lens(lesson: Lesson) -> None:
    """The decoder reading an earlier layer of the encoder (DecoderLens)."""
    st.write(
        "Let the decoder look at an earlier layer of the encoder instead of the last, through the "
        "encoder's own final norm (DecoderLens, Langedijk et al. 2023): what does it then make of "
        "the sentence?"
    )
    _grid(
        lesson,
        "core.experiments.lens:decoder_lens",
        "The likeliest token when the decoder reads layer k of the encoder",
        "why_decoder_lens",
        "Words that stand there from the first row need no context; others come with the layers.",
    )


def _grid(lesson: Lesson, function: str, title: str, key: str, look_for: str) -> None:
    record = lesson.record
    result = lesson.ask(function)
    columns = labels(record.target_out, 1)
    names = results.target_labels(lesson.card, tuple(np.unique(result.ids).tolist()))
    rows = [row.label for row in result.rows]
    texts = [[names[int(i)] for i in row] for row in result.ids]
    own = [f"{word}: " for word in columns]
    hovers = [
        [
            f"{row}<br>likeliest: <b>{tick(texts[r][t])}</b> {result.probabilities[r, t]:.4f}<br>"
            f"{tick(own[t])}{result.written_probabilities[r, t]:.4f}, "
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
            f"the more probable, the {stronger}; the last row is the output"
            + (", bit for bit" if result.exact else ""),
            1.0,
            False,
            visit.theme(),
        ),
        key,
        look_for,
    )
