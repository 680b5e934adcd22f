"""Splits the scores of a first layer into content and position, and shows every part."""

import numpy as np
import streamlit as st

from app import session
from app.figures.comparison import scientific
from app.figures.grid import Axes, signed_figure
from app.figures.style import labels
from app.views.lesson import Lesson, choose, show

KINDS = {"encoder": "Encoder", "decoder": "Decoder"}
LIMIT = 1e-5


@st.fragment
def scores(given: Lesson) -> None:
    """Four maps and the biases' map, which add to the score."""
    record = given.record
    st.write(
        "In the first layer query and key are still sums of a word and a place, so their product "
        "splits into four: word with word, word with place, place with word, place with place."
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = choose("Attention", KINDS, "encoder", "parts_kind")
        head = choose(
            "Head", {i: str(i + 1) for i in range(record.encoder.shape[1])}, 0, "parts_head"
        )
    parts = session.score_parts(given.card, given.source_ids, given.target_ids, kind)
    tokens, first = (record.source, 1) if kind == "encoder" else (record.target_in, 0)
    words = labels(tokens, first)
    language = record.source_language if kind == "encoder" else record.target_language
    axes = Axes(words, words, f"{language} that looks", f"{language} looked at")
    closed = {} if parts.mask.all() else {"closed": ~parts.mask}
    theme = session.theme()
    maps = {
        "content · content": parts.part("content", "content")[head],
        "content · position": parts.part("content", "position")[head],
        "position · content": parts.part("position", "content")[head],
        "position · position": parts.part("position", "position")[head],
        "with a bias": parts.with_bias[head],
        "The score": parts.scores[head],
    }
    limit = max(float(np.abs(values[parts.mask]).max()) for values in maps.values()) or 1.0
    with st.container(horizontal=True, gap="small", key="score_parts"):
        for name, values in maps.items():
            share = "the sum of the five" if name == "The score" else _spread(values, parts.mask)
            key = "part_" + name.lower().replace(" · ", "_").replace(" ", "_")
            show(signed_figure(values, limit, closed, axes, name, share, theme, "score"), key)
    st.caption(
        "One scale for all six. Look for stripes along the diagonal in position · position: there "
        "the head looks at places. Cells that vary in content · content are about words. The first "
        "name is the query's part (row), the second the key's (column)."
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
            "loses its own, μ; σ belongs to the whole sum and divides both, so the part of a place "
            "is also scaled by the word it stands under. The bias part is the LayerNorm's β "
            "through the projection plus the projection's own bias, for query and for key; the "
            "fifth map adds the five products in which it takes part. Of these, the ones with the "
            "bias on the key's side are the same for a whole row: the softmax takes them away."
        )
    else:
        st.write(
            "Where every term goes: c is the embedding · √d_model, p the position. This network "
            "normalises after it attends, so nothing stands between the sum and the projections. "
            "The bias part is the projection's own bias, for query and for key; the fifth map adds "
            "the five products in which it takes part."
        )
    st.write(
        f"Over all heads, the parts add to the score within **{scientific(parts.largest_error)}** "
        f"(limit {scientific(LIMIT)})."
    )


def _spread(values, mask) -> str:
    open_values = values[mask]
    return f"from {open_values.min():.2f} to {open_values.max():.2f}".replace("-", "−")
