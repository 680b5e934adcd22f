"""Shows one row of one head on its way from score to weight, and three mask values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st
from numpy.typing import NDArray

from app.figures import masks
from app.look.glossary import meaning
from app.look.numbers import number, scientific
from app.state import results, visit, waiting
from app.views.shared.axes import axis_words
from app.views.shared.choices import choose, choose_token
from app.views.shared.figure import show
from app.views.shared.lesson import Lesson

if TYPE_CHECKING:  # torch comes with it
    from core.experiments.mask_value import MaskedRow

FILLS = {-math.inf: "−∞", -1e4: "−10⁴", -1e9: "−10⁹"}
PRECISIONS = {"float32": "float32", "bfloat16": "bfloat16"}


@waiting.fragment
def mask_value(lesson: Lesson) -> None:
    """A row of the decoder's self-attention: raw scores, after the mask, weights."""
    from core.experiments.mask_value import masked_rows

    record = lesson.record
    st.markdown(
        "A masked cell has a score like any other; the mask overwrites it before the softmax. Here "
        "is one row of the decoder's self-attention, which looks back at what is written.",
        help=meaning("softmax", "weight"),
    )
    layers, heads = record.decoder.shape[:2]
    produced, words = axis_words(record, "decoder")
    # Streamlit's list is taller than its buttons by the space above it: centred, their boxes align.
    with st.container(horizontal=True, vertical_alignment="center"):
        layer = choose("Layer", {i: str(i + 1) for i in range(layers)}, 0, "closing_layer")
        head = choose("Head", {i: str(i + 1) for i in range(heads)}, 0, "closing_head")
        with st.container(width=220):
            row = choose_token("Row, producing", produced, len(words) // 2, "closing_row")
        fill = choose("Mask value", FILLS, -math.inf, "closing_fill")
        precision = choose("Precision", PRECISIONS, "float32", "closing_precision")
    scores = results.quantity(lesson.card, record, "scores")["decoder"]
    mask = record.decoder_mask[row]
    ways = masked_rows(scores[layer, head, row], mask)
    way = next(w for w in ways if (w.fill, w.precision) == (fill, precision))
    title = f"Row {row + 1}, producing {produced[row]}: layer {layer + 1}, head {head + 1}"
    masked = int((~mask).sum())
    show(
        masks.row_figure(
            scores[layer, head, row],
            way.scores,
            way.weights,
            mask,
            FILLS[fill],
            words,
            title,
            visit.theme(),
        ),
        "closing_strip",
        _look_for(masked, len(words) - masked, way.on_masked)
        if masked
        else "Nothing is masked here: the last row may look at all that is written.",
    )
    st.latex(
        r"A_{qk} = \frac{e^{s_{qk} + M_{qk}}}{\sum_j e^{s_{qj} + M_{qj}}}"
        r"\qquad s_{qk} = \frac{q_q \cdot k_k}{\sqrt{d_k}}"
    )
    fold = st.expander(
        "Which mask value: −∞, −10⁴ or −10⁹?", key="closing_table", on_change="rerun"
    )
    if fold.open:
        with fold:
            _values(ways)


def _look_for(masked: int, unmasked: int, on_masked: float) -> str:
    """Where to look in the strip: at the masked cells, and at who gets the weight instead."""
    one = masked == 1
    held = "exactly 0" if on_masked == 0 else scientific(on_masked)
    return (
        f"Look at the {'masked cell' if one else f'{masked} masked cells'}: before the mask "
        f"{'it scores' if one else 'they score'} like any other; after the softmax "
        f"{'it holds' if one else 'they hold'} {held}, and the "
        + ("only other cell gets" if unmasked == 1 else f"other {unmasked} share")
        + (" all the weight." if on_masked == 0 else " the rest.")
    )


def _values(ways: Sequence[MaskedRow]) -> None:
    """What each mask value does in each precision, in this row and where every cell is masked."""
    st.write(
        "Other code writes a very low number into masked cells, or adds it to the score. As long "
        "as one cell is unmasked, that changes nothing but rounding: the exponential of either is "
        "0. The difference shows in a row in which every cell is masked, such as one of a sentence "
        "of padding: −∞ gives NaN, which is why the attention of this project returns 0 there; a "
        "number written in spreads attention evenly over what should be masked; a number added "
        "keeps the scores apart if the precision has room for both, and the row looks as if there "
        "were no mask."
    )
    st.table(
        [
            {
                "mask value": FILLS[w.fill],
                "precision": w.precision,
                "held as": number(w.held, 0),
                "weight on masked cells": scientific(w.on_masked),
                "largest change of another weight": scientific(w.change),
                "all masked, written in": _span(w.all_written),
                "all masked, added": _span(w.all_added),
            }
            for w in ways
        ]
    )
    st.caption(
        "In the last column, a range means that the sum kept the scores apart, as if nothing were "
        "masked; one number for each cell means that it lost them. Near −10⁴, float32 has steps of "
        "0.001 and bfloat16 of 64: a score smaller than half a step is lost."
    )


def _span(weights: NDArray) -> str:
    """The least and the greatest of some weights: 0.083, or 0.01 to 0.4; or NaN."""
    low, high = f"{weights.min():.3f}", f"{weights.max():.3f}"
    if math.isnan(weights.max()):
        return "NaN"
    return f"each {low}" if low == high else f"{low} to {high}"
