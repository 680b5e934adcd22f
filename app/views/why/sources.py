"""Where a token came from: attribution methods compared with Shapley values."""

import math
import re
import time
from collections.abc import Mapping

import numpy as np
import streamlit as st
from numpy.typing import NDArray

import core
from app.figures.style import tick
from app.figures.why import Grid, terms_figure, words_grid_figure
from app.look.labels import labels, word_labels
from app.look.markdown import plain
from app.look.numbers import number, percent, within
from app.views.shared.choices import choose_token
from app.views.shared.figure import show
from app.views.shared.inspection import Inspection
from app.views.shared.progress_bar import ProgressBar
from app.views.why.cost import PERMUTATIONS
from core.analysis.attribution import (
    MAX_LIVE,
    Agreement,
    Attributions,
    Shapley,
    agreement,
    source_words,
)
from core.frozen import Doubles

SHAPLEY = "Shapley values"
_SOON_S = 0.5  # after this time, finished methods are shown while the others are computed
METHODS = {
    "weights": "Cross-attention weights, averaged over layers and heads (read this way by "
    "Bahdanau et al. 2015).",
    "norms": "Cross-attention weights times the length of the vector that each key adds, averaged "
    "over layers and heads (Kobayashi et al. 2020).",
    "rollout": "Weights traced back through the encoder's layers, half of each layer being its "
    "residual connection (Abnar & Zuidema 2020).",
    "norm rollout": "Like rollout, with the norms of what attention and the residual connection "
    "add (after Kobayashi et al. 2021).",
    "gradient × input": "The gradient of the log-probability with respect to each word's "
    "embedding, times the embedding (Shrikumar et al. 2016).",
    "relevance (AttnLRP)": "The part of the token's logit that reaches the word when each layer "
    "passes it back by rules that keep the sum (Achtibat et al. 2024).",
    "value zeroing, all layers": "The loss of log-probability when the word's values are set to 0 "
    "in all encoder and cross-attention layers. Mohebbi et al. (2023) zero one layer and compare "
    "states.",
    "leave-one-out": "The loss of log-probability when the word is hidden (Li et al. 2016).",
}
"""Description and source of each method."""


def show_sources(inspection: Inspection) -> None:
    """Show one token's Shapley values, all methods' scores, and their rank correlations."""
    record = inspection.record
    words = source_words(record.source)
    if not words:
        st.caption("This sentence has no word to ask about.")
        return
    sampled = len(words) > MAX_LIVE
    st.write(
        "Attention weights are one answer to the question where a token came from; other methods "
        "give other answers. All are compared with Shapley values: how much revealing a word adds "
        "to the token's log-probability, averaged over all orders of revealing the words. "
        + (
            f"More than {MAX_LIVE} words have too many orders to try them all: with {len(words)} "
            f"words here, the values are sampled from {PERMUTATIONS} orders and have 95 % "
            "intervals."
            if sampled
            else f"With {len(words)} word{'s' if len(words) > 1 else ''} here they are exact: "
            "every subset of the words was hidden once."
        )
    )
    tokens = labels(record.target_out, 1)
    with st.container(width=280):
        chosen = choose_token("Token", tokens, max(0, len(tokens) - 3), "why_token")
    columns = word_labels(record.source, words, 1)
    bar, place, shown, start = ProgressBar(), st.empty(), 0, time.monotonic()

    def show_so_far(answers: Attributions) -> None:
        """Show the finished methods, unless all of them were finished within `_SOON_S`."""
        nonlocal shown
        if len(answers.scores) > shown and time.monotonic() - start > _SOON_S:
            shown = len(answers.scores)
            with place.container():
                _show_methods(answers.scores, None, chosen, tokens[chosen], columns)

    def on_subset(done: int, total: int) -> None:
        bar.show_progress(done, total, "subsets of the words for the Shapley values")
        show_so_far(answers)

    answers = inspection.run_experiment(
        core.attributions,
        on_progress=lambda done, total: bar.show_progress(done, total, "batches of the methods"),
        on_so_far=show_so_far,
    )
    shapley = inspection.run_experiment(
        core.shapley, None, PERMUTATIONS, on_progress=on_subset, on_wait=bar.show_queue
    )
    bar.empty()
    place.empty()
    _show_values(shapley, chosen, tokens[chosen], columns)
    _show_methods(answers.scores, shapley, chosen, tokens[chosen], columns)
    _show_parts(answers.parts, chosen, tokens[chosen])
    _show_agreement(agreement(answers, shapley), shapley, chosen)
    if not inspection.card.model.norm_first:
        st.caption(
            "This network applies a layer norm after each sub-layer. Norm rollout ignores these "
            "norms."
        )


def _show_values(shapley: Shapley, chosen: int, token: str, columns: list[str]) -> None:
    """Show the Shapley values as bars, with intervals if they are sampled."""
    values, low, high = (a[chosen] for a in (shapley.values, shapley.low, shapley.high))
    nothing, everything = float(shapley.nothing[chosen]), float(shapley.everything[chosen])
    with st.container(key="why_seen"):
        st.text(
            f"With all words hidden, “{token}” has a probability of {percent(math.exp(nothing))}; "
            f"with all of them visible, {percent(math.exp(everything))} "
            f"({number(everything - nothing, 2, sign='+')} nats)."
        )
    including_zero = int(((low <= 0) & (high >= 0)).sum())
    show(
        terms_figure(
            columns,
            values.tolist(),
            f"What each source word adds to “{token}”",
            "Shapley values, exact"
            if shapley.exact
            else f"Shapley values, sampled from {shapley.permutations} orders; lines: 95 % "
            "intervals",
            "nats",
            intervals=None if shapley.exact else (low.tolist(), high.tolist()),
        ),
        "why_shapley",
        "For every token, the values add up to the difference between all words and none"
        f"{within(shapley.largest_error)}. They were computed from {shapley.subsets:,} subsets of "
        "the words." + ("" if shapley.exact else _zero_in_intervals(including_zero, len(columns))),
    )


def _zero_in_intervals(count: int, intervals: int) -> str:
    """Say how many intervals include 0, and what that leaves open."""
    if not count:
        return f" None of the {intervals} intervals includes 0."
    include, words = ("includes", "that word helps") if count == 1 else ("include", "these help")
    return f" {count} of the {intervals} intervals {include} 0: whether {words} is uncertain."


def _show_methods(
    scores: Mapping[str, Doubles],
    shapley: Shapley | None,
    chosen: int,
    token: str,
    columns: list[str],
) -> None:
    """Show the scores of all methods as a grid, with the Shapley values, if known, last."""
    named = dict(scores) if shapley is None else {**scores, SHAPLEY: shapley.values}
    values = np.stack([score[chosen] for score in named.values()])
    largest = np.abs(values).max(1, keepdims=True)
    shares = values / np.where(largest > 0, largest, 1)
    texts = [narrow_numbers(row) for row in values]
    hovers = [
        [f"{name}<br>{tick(columns[n])}: <b>{number(v, 3)}</b>" for n, v in enumerate(row)]
        for name, row in zip(named, values, strict=True)
    ]
    rows = list(named)
    if shapley is not None and not shapley.exact:
        low, high = shapley.low[chosen], shapley.high[chosen]
        half = (high - low) / 2
        rows.append("± (95 %)")
        shares = np.vstack((shares, np.zeros(len(half))))
        texts[-1] = [without_leading_zero(number(v, 2)) for v in values[-1]]
        texts.append([without_leading_zero(number(v, 2)) for v in half])
        hovers[-1] = [
            f"{SHAPLEY}<br>{tick(columns[n])}: <b>{number(v, 2)}</b>, 95 %: "
            f"{number(low[n], 2)} to {number(high[n], 2)}"
            for n, v in enumerate(values[-1])
        ]
        hovers.append([f"{tick(columns[n])}: ± {number(v, 2)} nats" for n, v in enumerate(half)])
    show(
        words_grid_figure(
            Grid(rows, columns, shares, texts, hovers),
            f"Where “{token}” came from, by each method",
            "colours: relative to the row's largest; the first four rows are shares or lengths, "
            "relevance is in logits, the others in nats",
            1.0,
            True,
        ),
        "why_sources" if shapley else f"why_sources_{len(scores)}",
        "Compare each row with the Shapley values. A method that highlights other words "
        "answers a different question."
        if shapley
        else "The other rows, the last of them the Shapley values, are still being computed.",
    )


def _show_parts(parts: Mapping[str, Doubles], chosen: int, token: str) -> None:
    """Say how the relevances divide a token's logit."""
    *shares, logit = (float(values[chosen]) for values in parts.values())
    source, prefix, biases, softmax = (number(share, 1, sign="+") for share in shares)
    with st.container(key="why_parts"):
        st.text(
            f"By relevance, the logit of “{token}”, {number(logit, 1)}, comes from the source "
            f"({source}), the target so far ({prefix}), biases ({biases}) and a rest that linear "
            f"parts of the softmaxes leave ({softmax}). The relevances add up to the logit"
            f"{within(abs(sum(shares) - logit))}."
        )


def _show_agreement(agrees: dict[str, Agreement], shapley: Shapley, chosen: int) -> None:
    """Show each method's rank correlation with the Shapley values, best first."""
    ordered = sorted(agrees, key=lambda method: -_nan_last(agrees[method].of(chosen)))
    st.container(key="why_agreement").table(
        {
            "method": ordered,
            "what it is": [plain(METHODS[method]) for method in ordered],
            "this token": [_rho(agrees[method], chosen) for method in ordered],
            "all tokens": [_rho(agrees[method], None) for method in ordered],
        },
        border="horizontal",
        hide_index=True,
    )
    note = (
        "Spearman's rank correlation with the Shapley values, best for this token first: 1 is the "
        "same order of words, 0 no relation, −1 the reverse. *All tokens* is the mean over the "
        "translation."
    )
    if len(shapley.words) == 1:
        note = "With one word there is no order to compare."
    if not shapley.exact:
        both = [(a, b) for n, a in enumerate(ordered) for b in ordered[n + 1 :]]
        open_pairs = [
            sum(not agrees[a].differs(agrees[b], token) for a, b in both)
            for token in (chosen, None)
        ]
        note += (
            " The ranges are 95 % bootstrap intervals over the sampled orders. Pairs of methods "
            "whose order these intervals leave undecided: "
            f"{open_pairs[0]} of {len(both)} for this token, {open_pairs[1]} for all tokens."
        )
    st.container(key="why_agreement_note").caption(note)


def _rho(agrees: Agreement, token: int | None) -> str:
    """Format a correlation with two decimals if exact, else its interval with one."""
    if not len(agrees.resampled):
        return number(agrees.of(token), 2)
    low, high = agrees.interval(token)
    ends = [number(end, 1) for end in (low, high)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _nan_last(value: float) -> float:
    return -2.0 if math.isnan(value) else value


def narrow_numbers(row: NDArray) -> list[str]:
    """Format a row for narrow cells: .12, or .012 if the largest is small."""
    size = float(np.abs(row).max())
    places = int(np.clip(1 - np.floor(np.log10(size)), 2, 3)) if size > 0 else 2
    return [without_leading_zero(number(v, places)) for v in row]


def without_leading_zero(text: str) -> str:
    """Drop the 0 before a decimal point."""
    return re.sub(r"^(−?)0\.", r"\1.", text)
