"""Shows one row of a head from scores to weights, under three mask values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st
from numpy.typing import NDArray

from app.figures import masks
from app.lessons.texts import text
from app.look.glossary import meaning
from app.look.numbers import number, scientific
from app.state import results
from app.views.shared.axes import axis_words
from app.views.shared.choices import choose, choose_token
from app.views.shared.figure import show
from app.views.shared.inspection import Inspection
from app.views.shared.question import covered

if TYPE_CHECKING:  # imports torch
    from core.experiments.mask_value import MaskedRow

FILLS = {-math.inf: "−∞", -1e4: "−10⁴", -1e9: "−10⁹"}
ROW_CHOICES = tuple(f"closing_{name}" for name in ("layer", "head", "row", "fill", "precision"))
PRECISIONS = {"float32": "float32", "bfloat16": "bfloat16"}


def _say(key: str, **values: Any) -> str:
    return text("masks", f"row.{key}", **values)


def show_mask_values(inspection: Inspection, hidden: bool) -> None:
    """Show a row of the decoder's self-attention: scores, masked scores, weights, unless hidden."""
    from core.experiments.mask_value import masked_rows

    if covered("masks", hidden):
        return
    record = inspection.record
    st.markdown(
        _say("about"),
        help=meaning("softmax", "weight"),
    )
    layers, heads = record.decoder.shape[:2]
    produced, words = axis_words(record, "decoder")
    # Streamlit's select box has extra space above; centring aligns it with the buttons.
    with st.container(horizontal=True, vertical_alignment="center"):
        layer = choose("Layer", {i: str(i + 1) for i in range(layers)}, 0, "closing_layer")
        head = choose("Head", {i: str(i + 1) for i in range(heads)}, 0, "closing_head")
        with st.container(width=220):
            row = choose_token("Row (token produced)", produced, len(words) // 2, "closing_row")
        fill = choose("Mask value", FILLS, -math.inf, "closing_fill")
        precision = choose("Precision", PRECISIONS, "float32", "closing_precision")
    scores = results.quantity(inspection.card, record, "scores")["decoder"]
    mask = record.decoder_mask[row]
    variants = masked_rows(scores[layer, head, row], mask)
    variant = next(v for v in variants if (v.fill, v.precision) == (fill, precision))
    title = f"Row {row + 1}, producing “{produced[row]}”: layer {layer + 1}, head {head + 1}"
    masked = int((~mask).sum())
    show(
        masks.row_figure(
            scores[layer, head, row],
            variant.scores,
            variant.weights,
            mask,
            FILLS[fill],
            words,
            title,
        ),
        "closing_strip",
        _look_for(masked, len(words) - masked, variant.on_masked) if masked else _say("nothing"),
    )
    shape = inspection.card.model
    score = r"\frac{q_q \cdot k_k}{\sqrt{d_k}}" if shape.scale_scores else r"q_q \cdot k_k"
    st.latex(
        r"A_{qk} = \frac{e^{s_{qk} + M_{qk}}}{\sum_j e^{s_{qj} + M_{qj}}}"
        rf"\qquad s_{{qk}} = {score}" + " + b_{k-q}" * bool(shape.relative_buckets)
    )
    fold = st.expander(_say("fold"), key="closing_table", on_change="rerun")
    if fold.open:
        with fold:
            _show_values(variants)


def _look_for(masked: int, unmasked: int, on_masked: float) -> str:
    """Say what to look for in the strip: the masked cells, and the cells that get the weight."""
    share = "all" if on_masked == 0 else "rest"
    return _say(
        "one" if masked == 1 else "several",
        masked=masked,
        weight=_say("zero.name") if on_masked == 0 else scientific(on_masked),
        others=_say(f"{share}-{'one' if unmasked == 1 else 'several'}", count=unmasked),
    )


def _show_values(variants: Sequence[MaskedRow]) -> None:
    """Show each mask value's effect by precision, in this row and in a fully masked one."""
    st.write(_say("values"))
    st.table(
        [
            {
                "mask value": FILLS[v.fill],
                "precision": v.precision,
                "in this precision": number(v.rounded, 0),
                "weight on masked cells": scientific(v.on_masked),
                "largest change of an unmasked weight": scientific(v.change),
                "fully masked, replaced": _span(v.all_written),
                "fully masked, added": _span(v.all_added),
            }
            for v in variants
        ]
    )
    st.caption(_say("ranges"))


def _span(weights: NDArray) -> str:
    """Format the range of weights: each 0.083, 0.010 to 0.400, or NaN."""
    low, high = f"{weights.min():.3f}", f"{weights.max():.3f}"
    if math.isnan(weights.max()):
        return "NaN"
    return f"each {low}" if low == high else f"{low} to {high}"
