"""Answers whether the scratch code trains as well: two networks of one recipe, BLEU and maps."""

import streamlit as st
from numpy.typing import NDArray

from app import controls
from app.figures import comparison
from app.look.glossary import meaning
from app.look.markdown import plain
from app.look.numbers import number
from app.state import atlases, models, results
from app.state.models import Implementation
from app.views.comparison.names import CODE
from app.views.shared.figure import show
from app.views.shared.progress_bar import ProgressBar
from core.analysis.first_cell import first_cell
from core.checkpoint.folder import Card
from core.data.corpora import about
from core.record.record import TranslationRecord

QUESTION = "Does it train as well?"


def counterpart(card: Card) -> Card | None:
    """Return the network that the other code trained by the same recipe, if there is one."""
    recipe = card.training.get("recipe")
    return next(
        (
            other
            for other in models.cards().values()
            if recipe is not None
            and (other.direction, other.training.get("recipe")) == (card.direction, recipe)
            and (other.architecture, other.model) == (_OTHER[card.architecture], card.model)
        ),
        None,
    )


_OTHER = {"scratch": "baseline", "baseline": "scratch"}


def scores_of(pair: tuple[Card, Card]) -> dict[str, list[list[float]]]:
    """Return the BLEU of both networks on each corpus that both were measured on in the same way.

    The last one is that of their atlases, with its 95 % interval.
    """
    finals = [card.metrics.get("final", {}) for card in pair]
    scores = {
        about([corpus]): [[of[corpus]["sacrebleu"]] for of in finals]
        for corpus, score in finals[0].items()
        if score.get("beam") == finals[1].get(corpus, {}).get("beam")
    }
    found = [atlases.shipped_atlas(card) for card in pair]
    bleu = [atlas.arrays["bleu"] for atlas in found if atlas and "bleu" in atlas.arrays]
    if len(bleu) == 2 and found[0] is not None:
        scores[f"{found[0].origin.sentences:,} sentences, greedily"] = [
            [float(v) for v in of] for of in bleu
        ]
    return scores


def verdict(scores: dict[str, list[list[float]]], names: tuple[str, str]) -> str:
    """Say on how many corpora the first network's BLEU is at least the second's, and by how much.

    Overlapping intervals of two networks do not show that they are equal, so no line says so.
    """
    if not scores:
        return "**Two networks, one recipe; their BLEU was not measured.**"
    gaps = [first[0] - second[0] for first, second in scores.values()]
    told = ", ".join(number(gap, 1, sign="+") for gap in gaps)
    reached = f"{sum(round(gap, 1) >= 0 for gap in gaps)} of {len(gaps)} sets"
    return f"**At least as well on {reached} by BLEU, compared with {names[1]}: {told}.**"


def intervals_note(scores: dict[str, list[list[float]]], names: tuple[str, str]) -> str:
    """Say which dot is whose, and what has an interval: a network's BLEU, never the difference."""
    has_lines = any(len(one) > 1 for of in scores.values() for one in of)
    return (
        f"Filled: {names[0]}. Open: {names[1]}. "
        + "Lines: each network’s own 95\u00a0% interval. " * has_lines
        + "The differences have none, so this does not show that they are equal."
    )


def agreement(first_QK: NDArray, second_QK: NDArray) -> str:
    """Say in how many rows of two maps of the same tokens the largest weight is at the same key."""
    same, rows = int((first_QK.argmax(-1) == second_QK.argmax(-1)).sum()), len(first_QK)
    return f"In {same} of {rows} row{'s' * (rows > 1)}, both look most at the same token"


def show_training(chosen: controls.Selection, card: Card, record: TranslationRecord) -> None:
    """Show BLEU, and a head of both networks on the same sentence and translation.

    Raises ValueError with a user-facing message.
    """
    other = counterpart(card)
    if other is None:
        why = (
            "its weights were converted from elsewhere"
            if card.imported is not None
            else f"no network here was trained by its recipe in {CODE[_OTHER[card.architecture]]}"
        )
        st.markdown(f"##### {QUESTION} **Nothing to compare {plain(card.title)} with:** {why}.")
        return
    pair, names = (card, other), (CODE[card.architecture], CODE[other.architecture])
    scores = scores_of(pair)
    st.markdown(
        f"##### {QUESTION} {verdict(scores, names)}",
        help=meaning("BLEU", "bootstrap", "head", "weight", "log-probability"),
    )
    left, right = st.columns([2, 3], gap="medium")
    if scores:
        with left:
            show(
                comparison.bleu_figure(scores, names),
                "bleu_of_both",
                intervals_note(scores, names),
            )
    first, second = (Implementation(one) for one in pair)
    target = record.translation
    shared = [results.inspect(one, chosen.source, target) for one in (first, second)]
    with right:
        bar = ProgressBar()
        matching = results.matched_heads(
            (first, second), ((chosen.source, target),), bar.show_queue
        )["cross"]
        bar.empty()
        cell = first_cell(shared[0].cross, shared[0].source, shared[0].target_out)
        shown = (cell.layer, cell.head) if cell else (max(0, len(shared[0].cross) - 2), 0)
        heads = [shown, matching.of(*shown)]
        probabilities = " and ".join(number(one.log_prob, 2) for one in shared)
        maps = [one.cross[at] for one, at in zip(shared, heads, strict=True)]
        show(
            comparison.pair_figure(shared, heads, names),
            "heads_of_both",
            f"{agreement(*maps)}. The two heads are matched by their weights on this sentence. "
            f"Log-probability of this translation: {probabilities}.",
        )
