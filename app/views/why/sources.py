"""Where a token came from: seven answers by source words, and the exact one that judges them."""

import re

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.figures.style import tick
from app.figures.why import Grid, words_grid_figure
from app.look.labels import label, labels
from app.look.numbers import number, scientific
from app.state import visit
from app.views.shared.choices import choose_token
from app.views.shared.figure import show
from app.views.shared.lesson import Lesson
from app.views.shared.long_work import Bar
from core.analysis.attribution import MAX_LIVE, agreement, source_words


def sources(lesson: Lesson) -> None:
    """Each method's scores for one target token, and how often it ranks as the referee does."""
    record = lesson.record
    words = source_words(record.source)
    st.write(
        "Attention weights are one answer to where a token came from; there are others, and they "
        "disagree. The referee is exact: hide every subset of the source words, and take what each "
        "word adds to the token's log-probability on the average (Shapley values)."
    )
    if not words:
        st.caption("This sentence has no word to ask about.")
        return
    bar = Bar()
    answers = lesson.ask("core.experiments.attribution:attributions")
    referee = lesson.ask(
        "core.experiments.attribution:shapley",
        progress=lambda done, total: bar.done(done, total, "subsets"),
        waits=bar.waits,
    )
    bar.empty()
    tokens = labels(record.target_out, 1)
    with st.container(width=280):
        chosen = choose_token("Token", tokens, max(0, len(tokens) - 3), "why_token")
    columns = ["".join(label(record.source[i]) for i in word) for word in words]
    named = {**answers.scores, "Shapley (the referee)": referee.values}
    values = np.stack([scores[chosen] for scores in named.values()])
    largest = np.abs(values).max(1, keepdims=True)
    shares = values / np.where(largest > 0, largest, 1)
    grid = Grid(
        list(named),
        columns,
        shares,
        [cells(row) for row in values],
        [
            [f"{name}<br>{tick(columns[n])}: <b>{number(v)}</b>" for n, v in enumerate(row)]
            for name, row in zip(named, values, strict=True)
        ],
    )
    show(
        words_grid_figure(
            grid,
            f"Where “{tokens[chosen]}” came from",
            "each row is coloured by its own largest; units differ, the last rows are nats",
            1.0,
            True,
            visit.theme(),
        ),
        "why_sources",
        "Compare each row with the last: a method that colours other words than the referee tells "
        "another story than the network.",
    )
    agrees = agreement(answers, referee)
    st.container(key="why_agreement").table(
        {
            "method": list(agrees),
            "this token": [number(float(one.spearman[chosen]), 2) for one in agrees.values()],
            "all tokens": [number(one.mean_spearman, 2) for one in agrees.values()],
        },
        border="horizontal",
        hide_index=True,
    )
    how = (
        f"exact, from all {referee.subsets:,} subsets"
        if referee.exact
        else f"sampled from {referee.permutations} orders, for more than {MAX_LIVE} words are too "
        f"many for all subsets; ± {float((referee.high - referee.low)[chosen].max() / 2):.2f} nats "
        "at most here (95 %)"
    )
    st.caption(
        f"Rank agreement with the Shapley values (Spearman): 1 is the same order. They are {how}, "
        "and add up to the difference between all words and none to "
        f"{scientific(referee.largest_error)}."
    )


def cells(row: NDArray) -> list[str]:
    """A row's numbers as its cells have room for: .12, or .012 where the largest is small."""
    size = float(np.abs(row).max())
    places = int(np.clip(1 - np.floor(np.log10(size)), 2, 3)) if size > 0 else 2
    return [re.sub(r"^(−?)0\.", r"\1.", number(v, places)) for v in row]
