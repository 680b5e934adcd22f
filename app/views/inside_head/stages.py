"""The seven stages inside a head: what each is called, its formula with numbers, its figure."""

import math
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from app.figures import inside_head as figures
from app.look.numbers import number
from app.views.shared.figure import show as show_figure
from core.analysis.inside_head import PLACES, InsideHead


@dataclass(frozen=True)
class Stage:
    """One stage: `name` finds its code, `words` are Markdown and hold no token."""

    name: str
    title: str
    formula: str
    words: str
    figure: go.Figure | None


def show(stages: list[Stage], architecture: str) -> None:
    """The stages from top to bottom: name, formula and words left, numbers and code right."""
    for n, stage in enumerate(stages, start=1):
        with st.container(key=f"stage_{stage.name}"):
            left, right = st.columns([2, 3], gap="large")
            with left:
                st.markdown(f"##### {n} · {stage.title}")
                st.latex(stage.formula)
                st.write(stage.words)
            with right:
                if stage.figure is not None:
                    show_figure(stage.figure, f"inside_{stage.name}", alt=stage.title)
                code = "\n".join(
                    f"# {place.file}: {place.function}\n{place.line}"
                    for place in PLACES[architecture][stage.name]
                )
                st.code(code, language="python", wrap_lines=True)


def stages(
    inside: InsideHead, key: int, keys: list[str], written: float, theme: str
) -> list[Stage]:
    """What each stage shows of one query and one key; `written` is the weight in the map."""
    E, D, K = len(inside.q_E), len(inside.x_D), len(inside.weights_K)
    h, heads = inside.head + 1, len(inside.parts_HD)
    score, scaled, masked = (a[key] for a in (inside.scores_K, inside.scaled_K, inside.masked_K))
    exp, weight = inside.exps_K[key], inside.weights_K[key]
    largest, total = inside.masked_K.max(), inside.exps_K.sum()
    masked_keys = int((~inside.open_K).sum())
    lowest = "−∞" if inside.masked_K.min() == -math.inf else "a very low score"
    lengths = np.linalg.norm(inside.parts_HD, axis=-1)
    return [
        Stage(
            "project",
            "Query and key",
            _under(rf"q &= x_q W_{{{h}}}^Q + b_{{{h}}}^Q", rf"k &= x_k W_{{{h}}}^K + b_{{{h}}}^K"),
            f"Each position of a sentence is {D} numbers, x. The head's own matrices make a query "
            f"of the one that looks and a key of each that it may look at: {E} numbers each. "
            "Orange is below zero, blue above; point at a cell for its number.",
            figures.projection_figure(inside, key, theme),
        ),
        Stage(
            "product",
            "Their product, term by term",
            rf"q \cdot k = \sum_{{e=1}}^{{{E}}} q_e k_e = {tex(score)}",
            f"Multiply q and k above number by number; the sum of the {E} products is the score. "
            "A bar above zero is a dimension on which the two agree, one below takes away.",
            figures.product_figure(inside, key, theme),
        ),
        Stage(
            "scale",
            "Scaled",
            rf"s_k = \frac{{q \cdot k}}{{\sqrt{{d_k}}}} = "
            rf"\frac{{{tex(score)}}}{{\sqrt{{{E}}}}} = {tex(scaled)}",
            f"The same for each of the {K} keys; the chosen one is bold. Without the root, sums of "
            "many products would grow so large that one key took everything. The code scales q "
            "before the product, which gives the same number.",
            figures.scores_figure(inside.scaled_K, np.ones(K, bool), keys, key, theme),
        ),
        Stage(
            "mask",
            "Masked",
            _under(rf"s_k + M_{{qk}} &= {tex(masked)}", r"M_{qk} &\in \{0, -\infty\}"),
            f"{masked_keys} of {K} keys are masked: they are written later, so {lowest} stands "
            "there instead of a score."
            if masked_keys
            else f"All {K} keys are unmasked, so no score changes.",
            figures.scores_figure(inside.masked_K, inside.open_K, keys, key, theme)
            if masked_keys
            else None,
        ),
        Stage(
            "softmax",
            "Softmax",
            _under(
                r"A_{qk} &= \frac{e^{s_k - s_\text{max}}}{\sum_j e^{s_j - s_\text{max}}}",
                rf"&= \frac{{e^{{{tex(masked)} - ({tex(largest)})}}}}{{{tex(total)}}} "
                rf"= \frac{{{tex(exp)}}}{{{tex(total)}}}",
                rf"&= {tex(weight)}",
            ),
            "Taking the largest score away first changes no share and keeps the numbers small. The "
            f"pass itself wrote {number(written, 7)} into its map, in 32 bits; worked out again "
            f"here in 64 it is {number(weight, 7)}.",
            figures.softmax_figure(inside, keys, key, theme),
        ),
        Stage(
            "values",
            "A mixture of values",
            _under(
                rf"z_{{{h}}} &= \sum_k A_{{qk}}\, v_k",
                rf"v_k &= x_k W_{{{h}}}^V + b_{{{h}}}^V",
            ),
            f"Each key has a value too, {E} numbers. A row here is a value times its weight, so "
            "most rows are nearly empty; their sum, z, is what the head adds up to.",
            figures.values_figure(inside, keys, theme),
        ),
        Stage(
            "output",
            "Its part of the output",
            rf"\text{{output}} = \sum_{{h=1}}^{{{heads}}} z_h W_h^O + b^O",
            f"This head's {E} rows of Wᴼ turn z into {D} numbers, which are added to the other "
            "heads'. How long each head's part is: "
            + ", ".join(f"head {n} {number(x, 2)}" for n, x in enumerate(lengths, start=1))
            + ".",
            figures.output_figure(inside, theme),
        ),
    ]


def _under(*lines: str) -> str:
    """Formulas aligned where each has its `&`, under each other: no column has room for two."""
    return r"\begin{aligned} " + r" \\ ".join(lines) + r" \end{aligned}"


def tex(value: float) -> str:
    """A number inside a formula."""
    return number(value).replace("−", "-").replace(",", "{,}").replace("∞", r"\infty")
