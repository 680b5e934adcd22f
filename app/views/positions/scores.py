"""Splits the first layer's scores into content and position parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

import core
from app.components.map_row import map_row
from app.components.map_row.payload import Map, MapRow, Scale, sides
from app.lessons.texts import text
from app.look.numbers import scientific
from app.views.shared.choices import choose
from app.views.shared.inspection import Inspection
from core.record.record import TranslationRecord

if TYPE_CHECKING:  # imports torch
    from core.experiments.score_parts import ScoreParts

KINDS = {"encoder": "Encoder", "decoder": "Decoder"}
PARTS = ("content", "position")
LIMIT = 1e-5


def show_score_parts(inspection: Inspection) -> None:
    """Show the four content and position maps and the bias map, which add up to the score."""
    record = inspection.record
    st.write(text("positions", "scores.about"))
    kind = choose("Attention", KINDS, "encoder", "parts_kind")
    parts = inspection.run(core.score_parts, inspection.source_ids, inspection.target_ids, kind)
    map_row(_map_row(record, kind, parts), key="score_parts")
    st.caption(text("positions", "scores.look"))
    st.latex(
        r"s_{qk} = \frac{1}{\sqrt{d_k}} \sum_{a, b} (\tilde{a}_q W^Q) \cdot (\tilde{b}_k W^K)"
        r"\qquad a, b \in \{\text{content, position, bias}\}"
    )
    if parts.norm_first:
        st.latex(
            r"\mathrm{LN}(c + p) = \underbrace{\gamma\,\frac{c - \mu_c}{\sigma}}_{\text{content}}"
            r" + \underbrace{\gamma\,\frac{p - \mu_p}{\sigma}}_{\text{position}} + "
            r"\underbrace{\beta}_{\text{bias}} \qquad \sigma^2 = "
            r"\mathrm{Var}(c + p) + \epsilon"
        )
    st.write(text("positions", "scores.pre-norm" if parts.norm_first else "scores.post-norm"))
    error, limit = scientific(parts.largest_error), scientific(LIMIT)
    st.write(text("positions", "scores.measured", error=error, limit=limit))


def _map_row(record: TranslationRecord, kind: str, parts: ScoreParts) -> MapRow:
    """Return all heads of the first layer; the six maps of a head share one scale."""
    tokens = record.source if kind == "encoder" else record.target_in
    language = record.source_language if kind == "encoder" else record.target_language
    shown = {f"{a} · {b}": parts.part(a, b) for a in PARTS for b in PARTS}
    shown |= {"with a bias": parts.with_bias, "The score": parts.scores}
    largest = np.max([np.abs(values[:, parts.mask]).max(1) for values in shown.values()], axis=0)
    scale = Scale("score", np.where(largest > 0, largest, 1.0)[None])
    maps = [
        Map(
            name,
            name.lower().replace(" · ", "·"),
            "the sum of the five" if name == "The score" else "",
            values[None],
            scale,
        )
        for name, values in shown.items()
    ]
    return MapRow(
        KINDS[kind], [0], *sides(tokens, range(1, len(tokens) + 1), language), maps, parts.mask
    )
