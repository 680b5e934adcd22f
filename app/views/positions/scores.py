"""Splits the first layer's scores into content and position parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

import core
from app.components.map_row import map_row
from app.components.map_row.payload import Map, MapRow, Scale, sides
from app.look.numbers import scientific
from app.views.shared.choices import choose
from app.views.shared.lesson import Lesson
from core.record.record import TranslationRecord

if TYPE_CHECKING:  # imports torch
    from core.experiments.score_parts import ScoreParts

KINDS = {"encoder": "Encoder", "decoder": "Decoder"}
PARTS = ("content", "position")
LIMIT = 1e-5


def scores(lesson: Lesson) -> None:
    """Show the four content and position maps and the bias map, which add up to the score."""
    record = lesson.record
    st.write(
        "In the first layer query and key are still sums of content (the token's embedding) and "
        "position, so their product splits into four: content or position of the query, with "
        "content or position of the key."
    )
    kind = choose("Attention", KINDS, "encoder", "parts_kind")
    parts = lesson.run(
        core.score_parts,
        lesson.source_ids,
        lesson.target_ids,
        kind,
    )
    map_row(_row(record, kind, parts), key="score_parts")
    st.caption(
        "All six maps share one scale, as wide as the chosen head needs. The first name is the "
        "query's part (row), the second the key's (column). Stripes along the diagonal of "
        "position · position come from distances; differences in content · content come from the "
        "tokens themselves."
    )
    st.latex(
        r"s_{qk} = \frac{1}{\sqrt{d_k}} \sum_{a, b} (W^Q \tilde{a}_q) \cdot (W^K \tilde{b}_k)"
        r"\qquad a, b \in \{\text{content, position, bias}\}"
    )
    if parts.norm_first:
        st.latex(
            r"\mathrm{LN}(c + p) = \underbrace{\gamma\,\frac{c - \mu_c}{\sigma}}_{\text{content}}"
            r" + \underbrace{\gamma\,\frac{p - \mu_p}{\sigma}}_{\text{position}} + "
            r"\underbrace{\beta}_{\text{bias}} \qquad \sigma^2 = "
            r"\mathrm{Var}(c + p) + \epsilon"
        )
        st.write(
            "Where every term goes: c is the embedding · √d_model, p the position. This network "
            "normalises before it attends. The mean of a sum is the sum of the means, so each part "
            "loses its own, μ; σ belongs to the whole sum and divides both, so the part of a "
            "position is also scaled by the token it is added to. The bias part is the LayerNorm's "
            "β through the projection plus the projection's own bias, for query and for key; the "
            "fifth map adds the five products in which it takes part. Of these, the ones with the "
            "bias on the key's side are the same for a whole row: the softmax takes them away."
        )
    else:
        st.write(
            "Where every term goes: c is the embedding · √d_model, p the position. This network "
            "normalises after it attends, so the projections read the sum itself. "
            "The bias part is the projection's own bias, for query and for key; the fifth map adds "
            "the five products in which it takes part."
        )
    st.write(
        f"Over all heads, the parts add to the score within **{scientific(parts.largest_error)}** "
        f"(limit {scientific(LIMIT)})."
    )


def _row(record: TranslationRecord, kind: str, parts: ScoreParts) -> MapRow:
    """Return all heads of the first layer; the six maps of a head share one scale."""
    tokens, first = (record.source, 1) if kind == "encoder" else (record.target_in, 0)
    language = record.source_language if kind == "encoder" else record.target_language
    numbers = range(first, first + len(tokens))
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
    return MapRow(KINDS[kind], [0], *sides(tokens, numbers, language), maps, parts.mask)
