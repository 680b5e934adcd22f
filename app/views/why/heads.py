"""Ablates every head and every pair of heads: which matter, which back each other up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, repeat
from typing import cast

import numpy as np
import streamlit as st

import core
from app.components.question import Asked
from app.figures.steps import heads_figure
from app.figures.why import pairs_figure, terms_figure
from app.lessons.texts import text
from app.look.labels import ATTENTION, labels
from app.look.markdown import plain
from app.look.numbers import number, percent
from app.state import address, session, waiting
from app.views.shared import asked
from app.views.shared.choices import choose, choose_token_or_all
from app.views.shared.figure import show
from app.views.shared.inspection import Inspection
from app.views.shared.progress_bar import ProgressBar
from app.views.shared.question import Outcome, covered, in_lesson
from app.views.shared.section import duration_in_words
from app.views.why.cost import count_heads, seconds_left
from core.analysis.head_effects import HeadEffects
from core.kinds import KINDS

FIRST_S = 0.5
"""Seconds of head effects before the rest of the page is drawn."""
EACH_S = 1.0
"""Seconds of head effects between two drawings; a click waits at most this long."""
PAUSE_S = 0.2
"""Seconds after which the browser requests the next heads."""
_SHOWN = 12
_LITTLE = 0.05  # nats: changes a probability by about 5 %


def head_name(kind: str, layer: int, head: int) -> str:
    """Return a head's name, counted from 1."""
    return f"{kind} {layer + 1}.{head + 1}"


def questions(inspection: Inspection) -> Iterator[asked.Candidate]:
    """Yield the questions about the head that matters most, then about cross-attention.

    A page opened from a lesson's link waits for the effects of all heads. Otherwise the page waits
    `FIRST_S` at most, and the question follows once these effects are known.
    """

    def unfinished() -> Asked:
        done, total = progress.done - 1, progress.total - 1  # without the pass with all heads
        message = text("why", "matters.unfinished", done=done, total=total)
        raise asked.NotAskable(message, later=True)

    if in_lesson():
        bar = ProgressBar()
        effects = inspection.run_experiment(
            core.head_effects,
            on_progress=lambda done, total: bar.show_progress(done, total, "heads"),
            on_wait=bar.show_queue,
        )
        bar.empty()
    else:
        progress = inspection.advance_experiment(core.head_effects, seconds=FIRST_S)
        if progress.done < progress.total:
            yield unfinished
            return
        effects = progress.so_far
    # A link's token is in the session only once its widget has been drawn.
    linked, tokens = address.requested("why_for"), range(len(inspection.record.target_out))
    token = session.get("why_for")
    if linked is not None and linked in map(str, tokens):
        token = int(linked)
    yield from asked.important_heads(inspection.record, effects, token if token in tokens else None)
    yield from asked.cross_attention(inspection.record)


def show_looks(found: Outcome) -> None:
    """Show where each head looks in the row that a question is about."""
    assert found.asked is not None
    at, question = found.asked.place, found.asked.question
    assert at is not None and at.query is not None
    word = labels(at.record.target_out, 1)[at.query]
    kind, layer, head = cast("tuple[str, int, int]", question.options[question.best])
    outlined = (layer, head) if found.shown and kind == "cross" else None
    look = text("why", f"matters.look{'-shown' * (outlined is not None)}", word=word)
    figure = heads_figure(at.record, at.query, width=250, outlined=outlined)
    show(figure, "pictured_why", plain(look))


@waiting.fragment
def show_important_heads(inspection: Inspection, hidden: bool) -> None:
    """Show the heads whose ablation changes the translation, or one token, most.

    If the ranking is `hidden` because it answers the question, all heads are ablated all the same.
    If some heads are still to be ablated after the `FIRST_S` that the question waited, show the
    ranking so far; a timer ablates the others.
    """
    token = None
    if not covered("why", hidden):
        words = labels(inspection.record.target_out, 1)
        with st.container(width=320):
            token = choose_token_or_all("For", words, "The whole translation", "why_for")
    progress = inspection.advance_experiment(core.head_effects, seconds=0)
    if progress.done == progress.total:
        if not hidden:
            _show_ranking(inspection, progress.so_far, token)
    else:
        seconds = chain([0.0], repeat(EACH_S))  # the first call only draws
        waiting.fragment(_ablate_the_rest, every_s=PAUSE_S)(inspection, token, seconds, hidden)


def _ablate_the_rest(
    inspection: Inspection, token: int | None, seconds: Iterator[float], hidden: bool
) -> None:
    """Show the ranking so far, then ablate a few more heads; rerun the page after the last one.

    The ranking comes first because Streamlit greys out the previous run's elements until the new
    run has drawn them again.
    """
    progress = inspection.advance_experiment(core.head_effects, seconds=0)
    if progress.done == progress.total:
        st.rerun()
    effects = progress.so_far
    left = [
        f"layer{'s' * (len(layers) > 1)} {_range(layers)} of the {ATTENTION[kind]}"
        for kind in KINDS[::-1]
        if (layers := [n + 1 for n, of in enumerate(effects.of(kind)) if np.isnan(of).any()])
    ]
    more = seconds_left(inspection, effects)
    time = f", in {duration_in_words(more)}" if more >= 1 else ""
    with st.container(key="why_unfinished"):
        st.progress(
            progress.done / progress.total,
            f"{progress.done - 1:,} of {progress.total - 1:,} heads have been switched off, the "
            f"last layers first. Still to come{time}: {'; '.join(left)}.",
        )
    if not hidden:
        _show_ranking(inspection, effects, token)
    if more := next(seconds):
        progress = inspection.advance_experiment(core.head_effects, seconds=more)
        if progress.done == progress.total:
            st.rerun()


def _range(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}"


def _show_ranking(inspection: Inspection, effects: HeadEffects, token: int | None) -> None:
    """Show the heads ablated so far that matter most."""
    ranked = effects.ranked(token)
    if not ranked:
        return
    first, heads = ranked[0], count_heads(inspection)
    words = labels(inspection.record.target_out, 1)
    what = "the whole translation" if token is None else f"“{words[token]}”"
    before = float(effects.log_probs.sum() if token is None else effects.log_probs[token])
    of = f"of {heads}" if len(ranked) == heads else f"of the {len(ranked)} switched off so far"
    with st.container(key="why_matters"):
        st.text(
            f"Head {first.head + 1} of layer {first.layer + 1} of the {ATTENTION[first.kind]} "
            f"matters most{'' if len(ranked) == heads else ' so far'}: without it, the "
            f"{_from_to(what, before, before + first.change)} "
            f"({number(first.change, 2, sign='+')} nats)."
        )
    shown = ranked[:_SHOWN]
    little = sum(abs(head.change) < _LITTLE for head in ranked)
    harm = sum(head.change > 0 for head in shown)
    show(
        terms_figure(
            [head_name(head.kind, head.layer, head.head) for head in shown],
            [head.change for head in shown],
            f"The {len(shown)} heads {of} that matter most",
            "each switched off alone, with the same target: change of log-probability",
            "nats",
        ),
        "why_heads",
        f"{harm} of these {len(shown)} heads {'lower' if harm > 1 else 'lowers'} the "
        "probability: it rises when the head is switched off."
        if harm
        else "Switching off any of these heads lowers the probability.",
    )
    if len(ranked) == heads:
        st.caption(_few_effects(little, heads))


def _few_effects(little: int, heads: int) -> str:
    """Say how many heads hardly change the log-probability when switched off alone."""
    if not little:
        return (
            "Every head matters by itself: switching off any one of them changes the "
            f"log-probability by {_LITTLE} nats or more."
        )
    matter = "matters little by itself" if little == 1 else "matter little by themselves"
    which = "it off" if little == 1 else "off any one of them"
    return (
        f"{little} of {heads} heads ({percent(little / heads)}) {matter}: switching {which} "
        f"changes the log-probability by less than {_LITTLE} nats. Another head may do the same "
        "work, which the next section tests."
    )


def _from_to(what: str, before: float, after: float) -> str:
    """Describe a change by probabilities, or by log-probabilities if those look the same."""
    ends = [percent(math.exp(log_prob)) for log_prob in (before, after)]
    if ends[0] != ends[1]:
        return f"probability of {what} goes from {ends[0]} to {ends[1]}"
    ends = [number(log_prob, 2) for log_prob in (before, after)]
    return f"log-probability of {what} goes from {ends[0]} to {ends[1]}"


def show_pairs(inspection: Inspection, hidden: bool) -> None:
    """Show the interaction of all pairs of heads of a kind; their single effects answer."""
    if covered("why_pairs", hidden):
        return
    kind = choose("Attention", {k: k.capitalize() for k in KINDS}, "cross", "why_pairs")
    bar = ProgressBar()
    effects = inspection.run_experiment(
        core.pair_effects,
        kind,
        on_progress=lambda done, total: bar.show_progress(done, total, "pairs"),
        on_wait=bar.show_queue,
    )
    bar.empty()
    beyond = effects.beyond()
    ranked = effects.ranked()
    with st.container(horizontal=True, gap="medium"):
        title = f"Pairs of {kind} heads"
        show(pairs_figure(beyond, effects.heads, title), "why_pairs_map")
        with st.container(width=380, key="why_pairs_most"):
            single, both = effects.single(), effects.both()
            for pair, sign, lost in (
                (ranked[-1], 1, "less is lost"),
                (ranked[0], -1, "more is lost"),
            ):
                if sign * pair.beyond < 0.0005:  # 0.000 as it would be printed
                    st.markdown(f"**There are no two heads for which {lost} together**")
                    continue
                a, b = (layer * effects.heads + head for layer, head in (pair.first, pair.second))
                if abs(single[a]) < abs(single[b]):
                    a, b = b, a
                first, second = (".".join(str(n + 1) for n in effects.at(at)) for at in (a, b))
                repaired = both[a, b] - single[a]
                st.markdown(
                    f"**Switching off {second} too repairs what {first} lost**"
                    if single[a] < 0 and repaired > -single[a] / 2
                    else f"**For {first} and {second}, {lost} together**"
                )
                st.text(
                    f"{first} off: {_nats(single[a])}\n"
                    f"{second} off: {_nats(single[b])}\n"
                    f"both off: {_nats(both[a, b])}, {_nats(pair.beyond)} relative to the sum"
                )
                st.caption(
                    f"Once {first} is off, also switching off {second} changes the "
                    f"log-probability by {_nats(repaired)}, instead of "
                    f"{_nats(single[b])} alone."
                )
            st.latex(r"\Delta_{ab} - (\Delta_a + \Delta_b)")
            st.caption("Δ: change of the log-probability of the whole translation, in nats.")
    st.caption(
        "Switch off two heads at once. If more log-probability is lost than the two single losses "
        "add up to, the heads back each other up: once one is off, the other helps more, or hurts "
        "less. If less is lost, it is the reverse: once one is off, the other helps less, or hurts "
        "more."
    )


def _nats(value: float) -> str:
    return f"{number(float(value), 3, sign='+')} nats"
