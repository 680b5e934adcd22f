"""Shows one row of one head on its way from score to weight, and three mask values."""

import math

import streamlit as st

from app.figures import masks
from app.look.labels import labels
from app.look.numbers import number, scientific
from app.state import results, visit, waiting
from app.views.shared.choices import choose, choose_token
from app.views.shared.figure import show
from app.views.shared.lesson import Lesson

FILLS = {-math.inf: "−∞", -1e4: "−10⁴", -1e9: "−10⁹"}
PRECISIONS = {"float32": "float32", "bfloat16": "bfloat16"}


@waiting.fragment
def mask_value(lesson: Lesson) -> None:
    """A row of the decoder's self-attention: raw scores, after the mask, weights."""
    from core.experiments.mask_value import masked_rows

    record = lesson.record
    st.write(
        "A masked cell has a score like any other; the mask overwrites it before the softmax. Here "
        "is one row of the decoder, which looks back at what is written."
    )
    layers, heads = record.decoder.shape[:2]
    words = labels(record.target_in, 0)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        layer = choose("Layer", {i: str(i + 1) for i in range(layers)}, 0, "closing_layer")
        head = choose("Head", {i: str(i + 1) for i in range(heads)}, 0, "closing_head")
        with st.container(width=220):
            row = choose_token("Row", words, len(words) // 2, "closing_row")
        fill = choose("Mask value", FILLS, -math.inf, "closing_fill")
        precision = choose("Precision", PRECISIONS, "float32", "closing_precision")
    scores = results.quantity(lesson.card, record, "scores")["decoder"]
    mask = record.decoder_mask[row]
    ways = masked_rows(scores[layer, head, row], mask)
    way = next(w for w in ways if (w.fill, w.precision) == (fill, precision))
    title = f"Row {row + 1}, layer {layer + 1}, head {head + 1}"
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
        "Look at the masked cells: before the mask they score like any other; after the softmax "
        "they hold exactly 0, and the others share 1.",
    )
    st.latex(
        r"A_{qk} = \frac{e^{s_{qk} + M_{qk}}}{\sum_j e^{s_{qj} + M_{qj}}}"
        r"\qquad s_{qk} = \frac{q_q \cdot k_k}{\sqrt{d_k}}"
    )
    st.write(
        "**−∞, −10⁴ or −10⁹?** Other code writes a very low number into masked cells, or adds it "
        "to the score. As long as one cell is unmasked, that changes nothing but rounding: the "
        "exponential of either is 0. The difference shows in a row where all is masked, such as a "
        "sentence of padding: −∞ has no answer (NaN), which is why the attention of this project "
        "gives 0 there; a number written in spreads attention evenly over what should be masked; a "
        "number added keeps the scores apart if the precision has room for both, and the row looks "
        "as if there were no mask."
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
        "Look at the last column: −10⁴ added in float32 leaves a row that differs from cell to "
        "cell, as if unmasked; in bfloat16, which keeps eight bits, the sum forgets the score."
    )


def _span(weights) -> str:
    """The least and the greatest of some weights: 0.083, or 0.01 to 0.4; or NaN."""
    low, high = f"{weights.min():.3f}", f"{weights.max():.3f}"
    if math.isnan(weights.max()):
        return "NaN"
    return f"each {low}" if low == high else f"{low} to {high}"
