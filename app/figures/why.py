"""Draws answers to "why": terms that add up, grids of words and numbers, pairs, ribbons."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.figures.grid import Axes, bar_beneath, frame, numbers
from app.figures.style import (
    diverging,
    escape,
    layout,
    ruled,
    sequential,
    text_width,
    tick,
    word_ticks,
    words_below,
)
from app.look.numbers import number
from app.look.palette import PALETTES

_BAR, _TALL_BAR = 24, 36  # px a bar takes, and one whose name or bars take two lines
_ROW = 26  # px a row of a grid of words takes
_LONGEST = 34  # characters of a bar's name
_PLOT = 780  # px of a figure on a small desktop screen
_LETTER = 6.2  # px of a letter in a cell
_PAD, _FLOW = 20, 180  # px between two nodes, more than a label is high, and of all ribbons
_LEAST_CELL = 22  # px: narrower cells hold no word


def signed_colours(theme: str) -> tuple[str, str]:
    """For what lies below 0, and above."""
    scale = diverging(theme)
    return scale[4][1], scale[28][1]


def terms_figure(
    names: Sequence[str],
    values: Sequence[float],
    title: str,
    subtitle: str,
    unit: str,
    theme: str,
    tried: Sequence[float] = (),
    intervals: tuple[Sequence[float], Sequence[float]] | None = None,
) -> go.Figure:
    """Terms of a sum as bars from 0, one below the other in their order: blue adds.

    A name may have two lines. `tried` draws a second, grey bar under each, such as what the network
    loses without the term; NaN draws none. `intervals` are the ends (low, high) of error bars.
    """
    below, above = signed_colours(theme)
    lines = [name.split("\n") for name in names]
    left = 24 + text_width([line for name in lines for line in name], 13, _LONGEST)
    N, bar = len(names), _BAR if max(map(len, lines)) == 1 and not tried else _TALL_BAR
    known = [value for value in tried if not isnan(value)]
    low, high = intervals or ((), ())
    hover = f"%{{customdata}}: <b>%{{x:+.3f}}</b> {unit}<extra></extra>"
    figure = go.Figure(
        go.Bar(
            y=[n - 0.2 for n in range(N)] if tried else list(range(N)),
            x=list(values),
            orientation="h",
            width=0.36 if tried else 0.66,
            marker={"color": [above if v >= 0 else below for v in values], "line": {"width": 0}},
            customdata=[tick(" ".join(name)) for name in lines],
            hovertemplate=hover,
        ),
        layout(theme, escape(title), escape(subtitle), height=66 + bar * N + 52),
    )
    if intervals is not None:
        figure.data[0].error_x = {
            "type": "data",
            "symmetric": False,
            "array": [h - v for h, v in zip(high, values, strict=True)],
            "arrayminus": [v - at for at, v in zip(low, values, strict=True)],
            "color": PALETTES[theme].ink,
            "thickness": 1.25,
            "width": 4,
        }
        figure.data[0].hovertemplate = (
            f"%{{customdata[0]}}: <b>%{{x:+.2f}}</b> {unit}, 95 %: %{{customdata[1]}}"
            "<extra></extra>"
        )
        figure.data[0].customdata = [
            [name, f"{number(a, 2, sign='+')} to {number(b, 2, sign='+')}"]
            for name, a, b in zip(figure.data[0].customdata, low, high, strict=True)
        ]
    if tried:
        figure.add_trace(
            go.Bar(
                y=[n + 0.2 for n in range(N)],
                x=[None if isnan(value) else value for value in tried],
                orientation="h",
                width=0.3,
                marker={"color": PALETTES[theme].third, "line": {"width": 0}},
                customdata=[f"switching off {tick(' '.join(name))} takes away" for name in lines],
                hovertemplate=hover,
            )
        ).update_layout(barmode="overlay")
    reached = [0.0, *values, *known, *low, *high]
    ends = [min(reached), max(reached)]
    extra = 0.04 * ((ends[1] - ends[0]) or 1.0)
    return figure.update_layout(
        margin={"l": left, "r": 16, "t": 66, "b": 52},
        xaxis={
            "title": {"text": unit},
            "range": [ends[0] - extra, ends[1] + extra],
            "zeroline": True,
            "zerolinecolor": PALETTES[theme].control,
            **ruled(theme),
        },
        yaxis={
            **word_ticks(names, bar, _LONGEST),
            "ticktext": ["<br>".join(tick(line, _LONGEST) for line in name) for name in lines],
            "range": [N - 0.5, -0.5],
        },
    )


@dataclass(frozen=True)
class Grid:
    """A grid of numbers [rows, columns] with a word in each cell."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: NDArray
    texts: Sequence[Sequence[str]]
    hovers: Sequence[Sequence[str]]


def words_grid_figure(
    grid: Grid, title: str, subtitle: str, limit: float, signed: bool, theme: str
) -> go.Figure:
    """Words on cells whose colour is a number: from 0 to `limit`, or as far on both sides of 0."""
    ticks, bottom, _ = words_below(grid.columns, 14)
    left = 20 + text_width(grid.rows, 13, 30)
    height = _ROW * len(grid.rows)
    cell = (_PLOT - left) / len(grid.columns)
    letters = max(2, int(cell / _LETTER))
    figure = go.Figure(
        layout=layout(theme, escape(title), escape(subtitle), height=round(66 + height + bottom))
    )
    heat = go.Heatmap(
        z=grid.values,
        zmin=-limit if signed else 0,
        zmax=limit,
        colorscale=diverging(theme) if signed else sequential(theme),
        showscale=False,
        xgap=1,
        ygap=1,
        text=[[tick(word, letters) for word in row] for row in grid.texts],
        customdata=grid.hovers,
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.add_trace(heat)
    if cell >= _LEAST_CELL:
        figure.add_trace(numbers(heat, 12))
    return figure.update_layout(
        margin={"l": left, "r": 12, "t": 66, "b": bottom},
        xaxis=ticks,
        yaxis={**word_ticks(grid.rows, _ROW, 30), "range": [len(grid.rows) - 0.5, -0.5]},
    )


def pairs_figure(beyond: NDArray, heads: int, title: str, theme: str) -> go.Figure:
    """What each pair of heads does beyond its two single heads, [N, N] in nats."""
    N = len(beyond)
    names = [f"{n // heads + 1}.{n % heads + 1}" for n in range(N)]
    limit = float(np.abs(beyond).max()) or 1.0
    figure = frame(
        Axes(names, names, "first: layer.head", "second: layer.head"),
        title,
        "orange: more is lost together; blue: less",
        theme,
    )
    ends = [number(-limit, 2), "0", number(limit, 2)]
    figure.add_trace(
        go.Heatmap(
            z=beyond,
            xaxis="x2",
            yaxis="y2",
            zmin=-limit,
            zmax=limit,
            colorscale=diverging(theme),
            colorbar=bar_beneath(figure, "nats beyond the sum", [-limit, 0, limit], ends, theme),
            hovertemplate="heads %{y} and %{x}: <b>%{z:+.3f}</b> nats beyond the sum"
            "<extra></extra>",
        )
    )
    return figure


@dataclass(frozen=True)
class Node:
    """A word or a layer that ribbons meet in: `key` tells it from others with the same label."""

    key: Hashable
    label: str


@dataclass(frozen=True)
class Ribbon:
    """A part of a sum, from the word it came from, through a layer, to what it speaks for."""

    start: Node
    end: Node
    value: float
    """Above 0 for the first of the two, below 0 for the second."""


def ribbons_figure(
    ribbons: Sequence[Ribbon], ends: tuple[str, str], title: str, subtitle: str, theme: str
) -> go.Figure:
    """Ribbons as wide as their parts; what reaches the first less the second is the sum.

    A ribbon runs from `start` over `end` to the first of the `ends`, blue, or to the second. Nodes
    with equal keys are one node.
    """
    below, above = signed_colours(theme)
    starts = list(dict.fromkeys(r.start for r in ribbons))
    middles = list(dict.fromkeys(r.end for r in ribbons))
    names = [*(node.label for node in (*starts, *middles)), *ends]
    at_start = {node: i for i, node in enumerate(starts)}
    at_middle = {node: len(starts) + i for i, node in enumerate(middles)}
    last = len(starts) + len(middles)
    links = [(at_start[r.start], at_middle[r.end], r.value) for r in ribbons]
    for node in middles:
        for side, sign in ((last, 1), (last + 1, -1)):
            share = sum(max(0.0, sign * r.value) for r in ribbons if r.end == node)
            if share:
                links.append((at_middle[node], side, sign * share))
    palette = PALETTES[theme]
    most = max(len(starts), len(middles))
    figure = go.Figure(
        go.Sankey(
            arrangement="fixed",
            node={
                "label": [tick(name, _LONGEST) for name in names],
                "color": palette.third,
                "line": {"width": 0},
                "thickness": 10,
                "pad": _PAD,
                "hovertemplate": "%{label}<extra></extra>",
            },
            link={
                "source": [a for a, _, _ in links],
                "target": [b for _, b, _ in links],
                "value": [abs(v) for _, _, v in links],
                "color": [_clear(above if v >= 0 else below) for _, _, v in links],
                "customdata": [number(v, 3, sign="+") for _, _, v in links],
                "hovertemplate": "%{source.label} → %{target.label}: %{customdata} logit"
                "<extra></extra>",
            },
            textfont={"size": 13, "color": palette.ink},
        ),
        layout(theme, escape(title), escape(subtitle), height=82 + _PAD * most + _FLOW),
    )
    return figure.update_layout(margin={"l": 8, "r": 8, "t": 66, "b": 16})


def _clear(colour: str) -> str:
    """The same colour, half of it: ribbons lie over each other."""
    return colour.replace("rgb(", "rgba(").replace(")", ",0.55)")
