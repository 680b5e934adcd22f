"""Switches every head off by itself, and every pair: which matter, and who covers for whom."""

import streamlit as st

from app.figures.why import pairs_figure, terms_figure
from app.look.labels import labels
from app.look.numbers import number
from app.state import visit, waiting
from app.views.shared.choices import choose, choose_token_or_all
from app.views.shared.figure import show
from app.views.shared.lesson import Lesson
from app.views.shared.long_work import Bar
from core.analysis.difference import KINDS

_SHOWN = 12


def name_of(kind: str, layer: int, head: int) -> str:
    """A head as people count it."""
    return f"{kind} {layer + 1}.{head + 1}"


@waiting.fragment
def matters(lesson: Lesson) -> None:
    """The heads without which the translation, or one token of it, changes most."""
    record = lesson.record
    words = labels(record.target_out, 1)
    with st.container(width=320):
        token = choose_token_or_all("For", words, "The whole translation", "why_for")
    effects = lesson.ask("core.experiments.head_effects:head_effects")
    ranked = effects.ranked(token)
    first = ranked[0]
    what = "the whole translation" if token is None else f"“{words[token]}”"
    with st.container(key="why_matters"):
        st.text(
            f"Without head {first.head + 1} of layer {first.layer + 1} of the {first.kind} "
            f"attention, the log-probability of {what} changes most: by "
            f"{number(first.change, 2, sign='+')} nats."
        )
    shown = ranked[:_SHOWN]
    show(
        terms_figure(
            [name_of(head.kind, head.layer, head.head) for head in shown],
            [head.change for head in shown],
            f"The {len(shown)} heads of {len(ranked)} that matter most",
            "each switched off by itself, the target kept: change of log P",
            "nats",
            visit.theme(),
        ),
        "why_heads",
        "Look how fast the bars shrink: most heads can go alone. What a head does may still be "
        "done by another one, which the next section asks.",
    )
    little = sum(abs(head.change) < 0.05 for head in ranked)
    st.caption(f"{little} of {len(ranked)} heads change less than 0.05 nats.")


def pairs(lesson: Lesson) -> None:
    """All pairs of heads of a kind, switched off together."""
    st.write(
        "Switch off two heads at once. If both together cost more than the one and the other by "
        "themselves, each covers for the other; if less, they need each other: without one, the "
        "other is of less use, or even does harm."
    )
    kind = choose("Attention", {k: k.capitalize() for k in KINDS}, "cross", "why_pairs")
    bar = Bar()
    effects = lesson.ask(
        "core.experiments.head_effects:pair_effects",
        kind,
        progress=lambda done, total: bar.done(done, total, "pairs"),
        waits=bar.waits,
    )
    bar.empty()
    beyond = effects.beyond()
    ranked = effects.ranked()
    with st.container(horizontal=True, gap="medium"):
        title = f"Pairs of {kind} heads"
        show(pairs_figure(beyond, effects.heads, title, visit.theme()), "why_pairs_map")
        with st.container(width=380):
            single, both = effects.single(), effects.both()
            for pair, meaning in (
                (ranked[0], "cover for each other most"),
                (ranked[-1], "need each other most"),
            ):
                at = [layer * effects.heads + head for layer, head in (pair.first, pair.second)]
                names = [f"{layer + 1}.{head + 1}" for layer, head in (pair.first, pair.second)]
                st.markdown(f"**{names[0]} and {names[1]} {meaning}**")
                st.text(
                    f"{names[0]} off: {number(single[at[0]], 3, sign='+')}\n"
                    f"{names[1]} off: {number(single[at[1]], 3, sign='+')}\n"
                    f"both off: {number(both[at[0], at[1]], 3, sign='+')} nats, "
                    f"{number(pair.beyond, 3, sign='+')} beyond the sum"
                )
            st.latex(r"\Delta_{ab} - (\Delta_a + \Delta_b)")
            st.caption("Δ: change of log P of the whole translation, in nats.")
