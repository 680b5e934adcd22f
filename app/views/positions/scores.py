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
    st.write(
        "In the first layer, query and key are computed from sums of content (the token's "
        "embedding) and position. So their dot product splits into four products (content or "
        "position of the query times content or position of the key), plus products with a bias."
    )
    kind = choose("Attention", KINDS, "encoder", "parts_kind")
    parts = inspection.run(core.score_parts, inspection.source_ids, inspection.target_ids, kind)
    map_row(_map_row(record, kind, parts), key="score_parts")
    st.caption(
        "Six maps: the four products, the sum of the products with a bias, and the score. They "
        "share one scale, which fits the chosen head. In a map's name, the part of the query (row) "
        "comes first, then the part of the key (column). Diagonal stripes in position · position "
        "come from distances; differences in content · content come from the tokens."
    )
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
        st.write(
            "How the terms are split: ã is part a of the vector that attention reads, c is the "
            "embedding, as it is added, and p the position. This network is pre-norm: attention "
            "reads the normalised sum. The mean of a sum is the sum of the means, so each part has "
            "its own mean μ subtracted. σ is the standard deviation of the whole sum and divides "
            "both parts, so the position part also depends on the token. The bias part "
            "is the projected β of the layer norm plus the projection's own bias, for query and "
            "key. The fifth map adds up the five products that contain a bias. Those with the bias "
            "of the key are constant along a row, so the softmax cancels them."
        )
    else:
        st.write(
            "How the terms are split: ã is part a of the vector that attention reads, c is the "
            "embedding, as it is added, and p the position. This network is post-norm: attention "
            "reads the sum itself. The bias part is the "
            "projection's own bias, for query and key. The fifth map adds up the five products "
            "that contain a bias."
        )
    st.write(
        "Over all heads, the parts add up to the score within "
        f"**{scientific(parts.largest_error)}** (limit {scientific(LIMIT)})."
    )


def _map_row(record: TranslationRecord, kind: str, parts: ScoreParts) -> MapRow:
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
