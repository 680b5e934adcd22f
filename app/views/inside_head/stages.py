"""The seven stages inside a head: formulas with numbers, figures, tables of all numbers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.figures import inside_head as figures
from app.figures.chart import Chart
from app.look.glossary import meaning
from app.look.markdown import plain
from app.look.numbers import number, percent, scientific
from app.state import waiting
from app.views.shared.figure import show
from app.views.shared.question import covered
from core.analysis.inside_head import InsideHead, code_of, largest
from core.config import ModelConfig

_WEIGHTS = 3  # number of largest weights shown by name
_ANSWERS = ("softmax", "values", "output")  # stages that show weights


@dataclass(frozen=True)
class Stage:
    """One stage: `name` is its key in `PLACES` of core.analysis.inside_head.

    `short` is its title in the overview, `words` are Markdown, `result` is what it adds to the
    line of results, or "". `table` returns all numbers by column, shown under `table_title`.
    """

    name: str
    title: str
    short: str
    terms: tuple[str, ...]
    formula: str
    words: str
    result: str
    figure: Chart | None
    table_title: str = ""
    table: Callable[[], dict[str, Any]] | None = None


def show_stages(stages: list[Stage], inside: InsideHead, architecture: str, hidden: bool) -> None:
    """Show a stage per tab: formula and text on the left; figure, table and code on the right.

    If `hidden`, the stages from the weights on are covered, as they answer the page's question.
    """
    tabs = st.tabs(
        [f"{n} · {stage.short}" for n, stage in enumerate(stages, start=1)], key="head_stages"
    )
    for n, (stage, tab) in enumerate(zip(stages, tabs, strict=True), start=1):
        with tab, st.container(key=f"stage_{stage.name}"):
            if covered(f"head_{stage.name}", hidden and stage.name in _ANSWERS):
                continue
            left, right = st.columns([2, 3], gap="large")
            with left:
                st.subheader(
                    f"{n} · {stage.title}",
                    anchor=f"stage-{stage.name}",
                    help=meaning(*stage.terms),
                )
                st.latex(stage.formula)
                st.write(stage.words)
            with right:
                if stage.figure is not None:
                    show(stage.figure, f"inside_{stage.name}", alt=stage.title)
                if stage.table is not None:
                    _show_table(stage.name, stage.table_title, stage.table)
                code = "\n".join(
                    f"# {place.file}: {place.function}\n{place.line}"
                    for place in dict.fromkeys(
                        place
                        for ran in (architecture, "referee")
                        for place in code_of(inside, ran, stage.name)
                    )
                )
                if code:
                    st.expander("In the code").code(code, language="python", wrap_lines=True)


@waiting.fragment
def _show_table(name: str, title: str, table: Callable[[], dict[str, Any]]) -> None:
    """Show a table in an expander, computed when it is opened."""
    fold = st.expander(title, key=f"numbers_{name}", on_change="rerun")
    if fold.open:
        with fold:
            made = pd.DataFrame(table())
            numbers = made.select_dtypes("float64").columns
            st.dataframe(
                made.style.format(number, numbers),
                hide_index=True,
                height=320,
                key="head_row" if name == "softmax" else f"table_{name}",
            )


def stages(
    inside: InsideHead,
    model: ModelConfig,
    key: int,
    keys: list[str],
    first: int,
    map_weight: float,
) -> list[Stage]:
    """Return the stages for one query and one key.

    `keys` are the keys' labels, numbered from `first`; `map_weight` is the weight in the map.
    """
    E, D, K = len(inside.q_E), len(inside.x_D), len(inside.weights_K)
    h, heads = inside.head + 1, len(inside.parts_HD)
    complete = inside.scaled_K
    if inside.distance_K is not None:
        complete = complete + inside.distance_K
    product, score, masked = (a[key] for a in (inside.scores_K, complete, inside.masked_K))
    exp, weight = inside.exps_K[key], inside.weights_K[key]
    highest, total = inside.masked_K.max(), inside.exps_K.sum()
    masked_keys = int((~inside.open_K).sum())
    lengths = np.linalg.norm(inside.parts_HD, axis=-1)
    bias = {part: rf" + b_{{{h}}}^{part}" if model.qkv_bias else "" for part in "QKV"}
    return [
        Stage(
            "project",
            "Query and key",
            "Query, key",
            ("query", "key", "head"),
            _aligned(rf"q &= x_q W_{{{h}}}^Q{bias['Q']}", rf"k &= x_k W_{{{h}}}^K{bias['K']}"),
            f"Each position enters this attention as a vector x of {D} numbers. The head's own "
            "matrices turn the query's vector into q and the key's vector into k, "
            f"{E} numbers each. Orange is below zero, blue above; point at a cell for its number.",
            "",
            figures.projection_figure(inside, key),
            f"All {D} numbers of both vectors x",
            lambda: {
                "dimension": np.arange(1, D + 1),
                "x of the query": inside.x_D,
                "x of the key": inside.memory_KD[key],
            },
        ),
        Stage(
            "product",
            "Dot product",
            "Dot product",
            ("dot product",),
            rf"q \cdot k = \sum_{{e=1}}^{{{E}}} q_e k_e = {tex(product)}",
            "Multiply q and k dimension by dimension; the sum of the products is the dot product "
            f"q·k. {_largest_terms(inside.products_KE[key], product)} Blue raises q·k, orange "
            "lowers it.",
            f"q·k = {number(product, 2)}",
            figures.product_figure(inside, key),
            f"All {E} numbers of q and k, and their products",
            lambda: {
                "dimension": np.arange(1, E + 1),
                "q": inside.q_E,
                "k": inside.k_KE[key],
                "q × k": inside.products_KE[key],
            },
        ),
        Stage(
            "scale",
            "Scaled",
            "Scaled",
            ("dₖ",),
            _score_formula(inside, key),
            _score_words(inside),
            f"÷ √{E} = {number(score, 2)}" if inside.divisor != 1 else f"score {number(score, 2)}",
            figures.scores_figure(complete, np.ones(K, bool), keys, key),
        ),
        Stage(
            "mask",
            "Masked",
            "Masked",
            ("mask",),
            _mask_formula(score, masked, bool(inside.open_K[key])),
            f"{masked_keys} of {K} keys {'is' if masked_keys == 1 else 'are'} masked, because the "
            "decoder may not read tokens that come later: "
            f"{'−∞' if inside.masked_K.min() == -math.inf else 'a very low score'} replaces "
            "the score."
            if masked_keys
            else f"None of these {K} keys is masked, so no score changes.",
            f"{masked_keys} of {K} masked" if masked_keys else "",
            figures.scores_figure(inside.masked_K, inside.open_K, keys, key)
            if masked_keys
            else None,
        ),
        Stage(
            "softmax",
            "Softmax",
            "Softmax",
            ("softmax", "weight"),
            _aligned(
                r"A_{qk} &= \frac{e^{s_k - s_\text{max}}}{\sum_j e^{s_j - s_\text{max}}}",
                rf"&= \frac{{e^{{{tex(masked, 4)} - ({tex(highest, 4)})}}}}{{{tex(total, 4)}}} "
                rf"= \frac{{{tex(exp, 4)}}}{{{tex(total, 4)}}}",
                rf"&= {tex(weight)}",
            ),
            "The largest score is subtracted first, which changes no weight and keeps the "
            f"exponentials small. The weight in the map of the pass, in float32, differs from this "
            f"one, in float64, by {scientific(abs(map_weight - weight))}.",
            f"weight {short(weight)}",
            figures.softmax_figure(inside, keys, key),
            f"All {K} keys: product, score, exponential and weight",
            lambda: {
                "key": _numbered(keys, first),
                "q·k": inside.scores_K,
                "scaled": inside.scaled_K,
                **({} if inside.distance_K is None else {"bias by distance": inside.distance_K}),
                "masked": inside.masked_K,
                "e^(s − max)": inside.exps_K,
                "weight": inside.weights_K,
            },
        ),
        Stage(
            "values",
            "Weighted values",
            "Values",
            ("value",),
            _aligned(
                rf"z_{{{h}}} &= \sum_k A_{{qk}}\, v_k",
                rf"v_k &= x_k W_{{{h}}}^V{bias['V']}",
            ),
            f"Each key also has a value v of {E} numbers. A row of the picture is a value times "
            "its weight, so a key with little weight leaves a pale row. The rows add up to z, the "
            f"result of the head. {_largest_weights(inside.weights_K, keys)}",
            "",
            figures.values_figure(inside, keys),
            f"All {E} numbers of z, and what each key adds",
            lambda: {
                "dimension": np.arange(1, E + 1),
                "z": inside.z_E,
                **dict(zip(_numbered(keys, first), inside.weighted_KE, strict=True)),
            },
        ),
        Stage(
            "output",
            "The head's part of the output",
            "Output",
            ("norm",),
            rf"\text{{output}} = \sum_{{h=1}}^{{{heads}}} z_h W_h^O" + " + b^O" * model.linear_bias,
            f"This head's {E} rows of Wᴼ turn z into {D} numbers. The parts of all {heads} heads "
            f"{'and the bias ' * model.linear_bias}add up to the output of the attention. "
            f"{_rank(lengths, inside.head)}",
            "",
            figures.output_figure(inside),
            f"All {D} numbers of each head's part, the bias and the output",
            lambda: {
                "dimension": np.arange(1, D + 1),
                **{f"head {n}": part for n, part in enumerate(inside.parts_HD, start=1)},
                "bias": inside.bias_D,
                "output": inside.output_D,
            },
        ),
    ]


def _numbered(keys: list[str], first: int) -> list[str]:
    return [f"{first + n} {word}" for n, word in enumerate(keys)]


def _largest_terms(terms: np.ndarray, product: float) -> str:
    """Say how much the largest products add to q·k, and how much all others add."""
    named = largest(terms, figures.TERMS)
    part = float(terms[named].sum())
    others = len(terms) - len(named)
    if not others:
        return ""
    return (
        f"The {len(named)} largest of {len(terms)} products add up to {short(part)}, the other "
        f"{others} to {short(product - part)}; q·k is {short(product)}."
    )


def _largest_weights(weights: np.ndarray, keys: list[str]) -> str:
    """Name the keys with the largest weights, and their total weight."""
    named = largest(weights, _WEIGHTS)
    words = ", ".join(f"“{plain(keys[k])}” {percent(weights[k])}" for k in named)
    if len(named) == len(keys):
        return f"The weights: {words}."
    return (
        f"The {len(named)} largest of {len(keys)} weights: {words}; together "
        f"{percent(weights[named].sum())}."
    )


def _rank(lengths: np.ndarray, head: int) -> str:
    """Rank this head's part by length among the parts of all heads."""
    rank = int((lengths > lengths[head]).sum()) + 1
    if len(lengths) == 1:
        return ""
    if rank == 1:
        return "Its part is the longest here."
    return f"By length, its part ranks number {rank} of {len(lengths)} here."


def _score_formula(inside: InsideHead, key: int) -> str:
    """Return the score's formula: scaled by √dₖ or not, with a bias by distance or without."""
    E, product, scaled = len(inside.q_E), inside.scores_K[key], inside.scaled_K[key]
    symbols, numbers = r"q \cdot k", tex(product, 4)
    if inside.divisor != 1:
        symbols, numbers = (
            r"\frac{q \cdot k}{\sqrt{d_k}}",
            rf"\frac{{{tex(product, 4)}}}{{\sqrt{{{E}}}}}",
        )
    if inside.distance_K is None:
        return rf"s_k = {symbols} = {numbers} = {tex(scaled)}"
    bias = inside.distance_K[key]
    return _aligned(
        rf"s_k &= {symbols} + b_{{k-q}}", rf"&= {numbers} + ({tex(bias)}) = {tex(scaled + bias)}"
    )


def _score_words(inside: InsideHead) -> str:
    """Say how the score follows from the dot product."""
    E = len(inside.q_E)
    bias = (
        " Then this head's bias for the distance from query to key is added; all layers of the "
        "stack share it."
    ) * (inside.distance_K is not None)
    if inside.divisor == 1:
        return f"This network does not divide the dot product by √dₖ.{bias} The chosen key is bold."
    return (
        f"Every key's dot product is divided by √dₖ; the result is the score.{bias} The chosen "
        f"key is bold. Here √{E} = {math.sqrt(E):.4g}. The code scales q before the product, "
        "which gives the same score."
    )


def _mask_formula(score: float, masked: float, is_open: bool) -> str:
    if not is_open and masked > -math.inf:  # a finite mask value replaces the score
        return rf"s_k = {tex(score)} \;\rightarrow\; {tex(masked)}"
    mask = "0" if is_open else r"-\infty"
    plus = "+ 0" if is_open else r"- \infty"
    return _aligned(
        rf"M_{{qk}} &= {mask}",
        rf"s_k + M_{{qk}} &= {tex(score)} {plus}",
        rf"&= {tex(masked)}",
    )


def _aligned(*lines: str) -> str:
    """Return formulas one below the other, aligned at their `&`."""
    return r"\begin{aligned} " + r" \\ ".join(lines) + r" \end{aligned}"


def short(value: float) -> str:
    """Format with three significant digits; infinity as ∞. The tables have more digits."""
    return scientific(value) if math.isfinite(value) else number(value)


def tex(value: float, digits: int = 3) -> str:
    """Format a number for TeX; operands have a significant digit more than the result."""
    if not math.isfinite(value):
        return number(value).replace("−", "-").replace("∞", r"\infty")
    base, _, exponent = f"{value:.{digits}g}".partition("e")
    return base + (rf" \cdot 10^{{{int(exponent)}}}" if exponent else "")
