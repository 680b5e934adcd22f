"""Why this word and not that one: a logit difference split into terms, tested by ablation."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import streamlit as st
from numpy.typing import NDArray

import core
from app.components.notebook import notebook
from app.figures.why import Node, Ribbon, ribbons_figure, terms_figure
from app.look.labels import ATTENTION, isolated, label, labels
from app.look.markdown import plain
from app.look.numbers import number, percent, significant, within
from app.state import results
from app.views.shared.choices import choose, choose_token
from app.views.shared.figure import show
from app.views.shared.inspection import Inspection
from app.views.shared.progress_bar import ProgressBar
from core.kinds import Kind
from core.record.words import is_punctuation

if TYPE_CHECKING:  # imports torch, which takes seconds
    from core.experiments.word_choice import Rivals, WordChoice
    from core.record.record import RecordToken, TranslationRecord

_SOON_S = 0.5  # after this time, the terms are shown while their true effects are measured
_BARS = 8
_RIBBONS = 24
_ABLATED = 5
_OFFERED = 4  # whole words offered besides the default
_TRIED = 8  # largest effects of heads among which a word is sought that becomes another one
_LABEL = 18  # characters of a ribbon's label
Pair = tuple[int, int]


class Turn(NamedTuple):
    """A head, and the word that becomes another one without it: its step, and the other's id."""

    kind: str
    layer: int
    head: int
    step: int
    id: int
    probability: float
    """The probability of the other word without the head."""


def turning_word(inspection: Inspection) -> Turn | None:
    """Return the word that loses most without one head, of those that then become another word."""
    from core.record.edits import Edits

    record, bar = inspection.record, ProgressBar()
    effects = inspection.run_experiment(
        core.head_effects,
        on_progress=lambda done, total: bar.show_progress(done, total, "heads"),
        on_wait=bar.show_queue,
    )
    bar.empty()
    changes = sorted(
        (float(change), kind, *at)
        for kind, changes_LHT in effects.changes.items()
        for at, change in np.ndenumerate(changes_LHT)
        if _is_word(record.target_out[at[-1]])
    )
    for change, kind, layer, head, step in changes[:_TRIED]:
        without = results.inspect(
            inspection.card,
            record.source_text,
            edits=Edits(heads_off=frozenset({(kind, layer, head)})),
            target_ids=inspection.target_ids,
        )
        other = without.alternatives[step][0]
        if change < 0 and other.id != record.target_out[step].id and _is_word(other):
            chance = math.exp(float(without.alternative_log_probs[step, 0]))
            return Turn(kind, layer, head, step, other.id, chance)
    return None


def show_word_choice(inspection: Inspection) -> None:
    """Compare a token with one alternative: terms, and in a fold their sum and removals."""
    record = inspection.record
    words = labels(record.target_out, 1)
    turn = turning_word(inspection)
    usual = max(0, len(words) - 3) if turn is None else turn.step
    # Streamlit's select box has extra space above; centring aligns it with the buttons.
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.container(width=260):
            step = choose_token("Token", words, usual, "why_step")
        own = record.target_out[step]
        rivals = inspection.run_experiment(core.rivals, step)
        turned = turn.id if turn and turn.step == step else None
        ids, first = _alternatives(inspection, rivals, step, turned)
        other = choose("rather than", ids, first, "why_other")
    notebook(values={"OTHER": str(other)}, key="notebook_choices_other")
    with st.container(key="why_rank"):
        if turn and other == turned:
            st.text(_turns(turn, words[step], ids[other], rivals.probability))
        st.text(_rank(inspection, words[step], rivals))
    choice = inspection.run_experiment(core.word_choice, step, (own.id, other))
    pair = (isolated(label(own)), ids[other])
    chances = rivals.probability, rivals.probabilities[rivals.ids.index(other)]
    with st.container(key="why_difference"):
        st.text(
            f"“{pair[0]}” ({percent(chances[0])}) is "
            f"{significant(math.exp(choice.difference))} times as probable as “{pair[1]}” "
            f"({percent(chances[1])}). The factor is e to the power of the difference of their "
            f"logits, {number(choice.difference, 3, sign='+')}."
        )
    largest = choice.largest(_BARS)
    rest = float(choice.terms.sum()) - sum(term for _, term in largest)
    measured = [math.nan for _ in largest]

    def show_terms(key: str) -> None:
        show(
            terms_figure(
                [component.label for component, _ in largest] + ["all others"],
                [term for _, term in largest] + [rest],
                f"Blue: for “{pair[0]}”; orange: for “{pair[1]}”",
                "colour: a term; grey: the true effect, measured by switching the head off",
                "logit",
                [*measured, math.nan],
            ),
            key,
            "Only heads have a grey bar: how much the difference actually falls when the head is "
            "switched off.",
        )

    bar, place, start, shown = ProgressBar(), st.empty(), time.monotonic(), False
    heads = [i for i, (component, _) in enumerate(largest) if component.head is not None]
    for done, i in enumerate(heads):
        measured[i] = -_true_change(inspection, choice, largest[i][0].place)
        if time.monotonic() - start > _SOON_S:
            bar.show_progress(done + 1, len(heads), "heads switched off, for their true effects")
            if not shown:
                shown = True
                with place.container():
                    show_terms("why_terms_so_far")
    bar.empty()
    place.empty()
    show_terms("why_terms")
    fold = st.expander(
        "How the terms are computed, and how well they predict", key="open_terms", on_change="rerun"
    )
    if fold.open:
        with fold:
            with st.container(key="why_disagree"):
                st.text(_disagreement(largest, measured))
            _show_sum(inspection, choice, pair)


def _show_sum(inspection: Inspection, choice: WordChoice, pair: tuple[str, str]) -> None:
    """Explain the terms, and show all of them as ribbons, then predicted and true effects."""
    record = inspection.record
    st.write(
        "A token's logit is the dot product of the decoder's final state with the token's output "
        "vector. That state is a sum: the embedding, the position, the outputs of all heads and "
        "feed-forward layers, and constant terms (biases, norm shifts). So the difference of two "
        f"logits is a sum too. All {len(choice.terms)} terms add up to it"
        f"{within(choice.largest_error)}, with layer norms fixed at their actual scale."
    )
    show(
        ribbons_figure(
            _ribbons(inspection, choice),
            pair,
            "The same sum as ribbons",
            "left: tokens; middle: layers",
        ),
        "why_ribbons",
        f"{plain(record.source_language)} tokens contribute through cross-attention heads, "
        f"{plain(record.target_language)} tokens through the decoder's self-attention heads. The "
        "total width of the blue ribbons minus that of the orange ones is the difference. Blue "
        f"favours “{plain(pair[0])}”, orange “{plain(pair[1])}”.",
    )
    _show_ablations(inspection, choice)


def _turns(turn: Turn, word: str, other: str, probability: float) -> str:
    """Say which word becomes which without a head."""
    return (
        f"Without head {turn.head + 1} of layer {turn.layer + 1} of the {ATTENTION[turn.kind]}, "
        f"“{word}” ({percent(probability)}) becomes “{other}” ({percent(turn.probability)})."
    )


def _rank(inspection: Inspection, word: str, rivals: Rivals) -> str:
    """Say whether the token has the largest logit of its step and, if not, why it was written."""
    chance = percent(rivals.probability)
    if rivals.rank == 1:
        return f"At this step “{word}” has the largest logit, so the largest probability: {chance}."
    ordinal = {2: "second", 3: "third"}.get(rivals.rank, _ordinal(rivals.rank))
    above = results.target_tokens(inspection.card, rivals.ids[: rivals.rank - 1])
    if not inspection.record.hypotheses:
        why = ": the translation was given, not searched for"
    elif inspection.decode.beam > 1:
        why = ": beam search compares whole translations, and its best one has this token here"
    elif all(token.special for token in above):
        are = "is" if len(above) == 1 else "are"
        why = f": {', '.join(isolated(label(token)) for token in above)} {are} never generated"
    else:
        why = ""
    return f"At this step “{word}” has only the {ordinal}-largest logit ({chance}){why}."


def _ordinal(rank: int) -> str:
    """Format an ordinal: 4th, 11th, 21st, 1,002nd."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank:,}{'th' if rank % 100 in (11, 12, 13) else ending}"


def _alternatives(
    inspection: Inspection, rivals: Rivals, step: int, turned: int | None
) -> tuple[dict[int, str], int]:
    """Return the labels of tokens to compare with, by id, and the default.

    The default is the token that the word turns into without a head. Without one, if the written
    token starts a word, the default is a whole word, if there is one: a token that starts a word,
    that the network would not continue, and that is neither a prefix nor an extension of the
    written one. Otherwise the record's alternatives come first.
    """
    record = inspection.record
    own = record.target_out[step]
    tokens = results.target_tokens(inspection.card, rivals.ids)
    after = results.target_tokens(inspection.card, rivals.following)
    whole_words = [t for t, then in zip(tokens, after, strict=True) if _is_whole_word(t, then)]
    text = own.text.lower()
    apart = [
        token
        for token in whole_words
        if not (token.text.lower().startswith(text) or text.startswith(token.text.lower()))
    ]
    rest = [token for token in record.alternatives[step] if token.id != own.id]
    first = [token for token in tokens if token.id == turned]
    first = first or (apart[:1] if _is_word(own) else rest)
    offered = [*first, *whole_words[:_OFFERED], *rest]
    named: dict[int, str] = {}
    for token in offered:  # a word and a part of a word may look the same: keep the first
        if token.id in named or isolated(label(token)) not in named.values():
            named[token.id] = isolated(label(token))
    return named, offered[0].id


def _is_word(token: RecordToken) -> bool:
    """Return whether a token starts a word."""
    return token.starts_word and not token.special and not is_punctuation(token.text)


def _is_whole_word(token: RecordToken, then: RecordToken) -> bool:
    """Return whether a token is a whole word, given the token predicted after it."""
    return _is_word(token) and (then.starts_word or then.special or is_punctuation(then.text))


def _disagreement(largest: list, measured: list[float]) -> str:
    """Say how far the terms of heads disagree with their true effects."""
    both = [
        (component.label, term, true)
        for (component, term), true in zip(largest, measured, strict=True)
        if not math.isnan(true)
    ]
    if not both:
        return "No head is among the largest terms."
    wrong = [one for one in both if one[1] * one[2] <= 0]
    off = [one for one in both if one not in wrong and not 0.5 <= one[2] / one[1] <= 2]
    heads = "the one head shown" if len(both) == 1 else f"the {len(both)} heads shown"
    if not wrong and not off:
        return (
            f"The true effect of {'' if len(both) == 1 else 'each of '}{heads} is between half and "
            "twice its term: here the terms describe the effects well."
        )
    what = (
        "the terms as effects" if 2 * len([*wrong, *off]) > len(both) else "every term as an effect"
    )
    name, term, true = max([*wrong, *off], key=lambda one: abs(one[1] - one[2]))
    counts = [
        f"{len(ones)} {'has a true effect' if len(ones) == 1 else 'have true effects'} {share}"
        for ones, share in (
            (wrong, "of the opposite sign"),
            (off, "below half or above twice the term"),
        )
        if ones
    ]
    return (
        f"Do not read {what}. Of {heads}, {' and '.join(counts)}. The largest of these errors is "
        f"that of {name}: its term predicts that switching it off changes the difference by "
        f"{number(-term, 3, sign='+')}; the true change is {number(-true, 3, sign='+')}, because "
        "layer norms and later layers react."
    )


def _ribbons(inspection: Inspection, choice: WordChoice) -> list[Ribbon]:
    """Sum the terms of each token and layer; return the largest sums, and the rest as one sum."""
    record = inspection.record
    names = _names(record)
    ribbons = []
    for kind, edges in choice.edges.items():
        language = record.source_language if kind == "cross" else record.target_language
        for (layer, key), value in _cells(edges.sum(1)):
            start = Node((kind, key), f"{names[kind][key][:_LABEL]} ({language})")
            ribbons.append(Ribbon(start, _layer(f"{kind} layer {layer + 1}"), value))
    for component, term in zip(choice.components, choice.terms.tolist(), strict=True):
        if component.head is None:
            ribbons.append(
                Ribbon(Node("no head", "not through a head"), _layer(component.label), term)
            )
    ribbons.sort(key=lambda ribbon: -abs(ribbon.value))
    small = [ribbon.value for ribbon in ribbons[_RIBBONS:]]
    parts = [sum(v for v in small if v > 0), sum(v for v in small if v < 0)]
    rest = Node("smaller", "all smaller")
    return ribbons[:_RIBBONS] + [Ribbon(rest, rest, v) for v in parts if v]


def _layer(name: str) -> Node:
    return Node(name, name)


def _true_change(
    inspection: Inspection, choice: WordChoice, place: tuple, key: int | None = None
) -> float:
    """Return the true change of the logit difference when a head or an edge is ablated."""
    from core.record.edits import Edge, Edits

    edits = (
        Edits(heads_off=frozenset({place}))
        if key is None
        else Edits(edges=(Edge(*place, choice.step, key, 0.0),))
    )
    return inspection.run_experiment(core.true_change, choice.step, choice.words, edits)


def _show_ablations(inspection: Inspection, choice: WordChoice) -> None:
    """Show predicted and true effects of ablating the largest heads and edges."""
    names = _names(inspection.record)
    places: list[tuple[Kind, int, int, int | None]] = []
    heads = [c for c, _ in choice.largest(len(choice.terms)) if c.head is not None][:_ABLATED]
    places += [(*component.place, None) for component in heads]
    edges = sorted(
        (
            (abs(value), kind, layer, head, key)
            for kind, array in choice.edges.items()
            for (layer, head, key), value in _cells(array)
        ),
        reverse=True,
    )[:_ABLATED]
    places += [(kind, layer, head, key) for _, kind, layer, head, key in edges]
    rows: dict[str, list[str]] = {"switched off": [], "predicted": [], "true": []}
    for kind, layer, head, key in places:
        name = f"{kind} {layer + 1}.{head + 1}"
        rows["switched off"].append(
            name if key is None else plain(f"the attention edge to {names[kind][key]} in {name}")
        )
        rows["predicted"].append(number(choice.predicted(kind, layer, head, key), 3, sign="+"))
        true = _true_change(inspection, choice, (kind, layer, head), key)
        rows["true"].append(number(true, 3, sign="+"))
    st.container(key="why_tried").table(rows, border="horizontal", hide_index=True)
    st.caption(
        "Change of the logit difference when a head is switched off or one attention edge is cut. "
        "The prediction counts only the direct effect, with layer norms fixed; the true change "
        "includes how layer norms and later layers react."
    )


def _names(record: TranslationRecord) -> dict[Kind, list[str]]:
    """Return the key labels of cross- and decoder attention."""
    return {"cross": labels(record.source, 1), "decoder": labels(record.target_in, 0)}


def _cells(array: NDArray) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield the index and value of every cell."""
    return ((at, float(value)) for at, value in np.ndenumerate(array))
