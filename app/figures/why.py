"""Draws the figures of Ask why: additive terms, word grids, pairs of heads, ribbons."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.figures.grid import Axes, cell_numbers, colour_bar_below, empty_grid
from app.figures.style import (
    diverging,
    escape,
    layout,
    ruled_axis,
    sequential,
    signed_colours,
    text_width,
    tick,
    word_ticks,
    words_below,
)
from app.look.numbers import number
from app.look.palette import PALETTES

_BAR, _TALL_BAR = 24, 36  # px per bar; the tall one has two bars or a two-line name
_ROW = 26  # px per row of a word grid
_LONGEST = 34  # characters of a bar's name
_PLOT = 780  # px: width of a figure on a small desktop screen
_LETTER = 6.2  # px per character in a cell
_PAD, _FLOW = 20, 180  # px: gap between nodes, more than a label; height of all ribbons
_MIN_CELL = 22  # px: narrower cells show no word


def terms_figure(
    names: Sequence[str],
    values: Sequence[float],
    title: str,
    subtitle: str,
    unit: str,
    theme: str,
    measured: Sequence[float] = (),
    intervals: tuple[Sequence[float], Sequence[float]] | None = None,
) -> go.Figure:
    """Draw the terms of a sum as horizontal bars in the given order: blue > 0, orange < 0.

    A name may have two lines. `measured` adds a second, grey bar per term, such as the effect of
    its ablation; NaN draws no bar. `intervals` are the ends (low, high) of error bars.
    """
    below, above = signed_colours(theme)
    lines = [name.split("\n") for name in names]
    left = 24 + text_width([line for name in lines for line in name], 13, _LONGEST)
    N, bar = len(names), _BAR if max(map(len, lines)) == 1 and not measured else _TALL_BAR
    known = [value for value in measured if not isnan(value)]
    low, high = intervals or ((), ())
    hover = f"%{{customdata}}: <b>%{{x:+.3f}}</b> {unit}<extra></extra>"
    figure = go.Figure(
        go.Bar(
            y=[n - 0.2 for n in range(N)] if measured else list(range(N)),
            x=list(values),
            orientation="h",
            width=0.36 if measured else 0.66,
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
    if measured:
        figure.add_trace(
            go.Bar(
                y=[n + 0.2 for n in range(N)],
                x=[None if isnan(value) else value for value in measured],
                orientation="h",
                width=0.3,
                marker={"color": PALETTES[theme].third, "line": {"width": 0}},
                customdata=[f"lost without {tick(' '.join(name))}" for name in lines],
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
            **ruled_axis(theme),
        },
        yaxis={
            **word_ticks(names, bar, _LONGEST),
            "ticktext": ["<br>".join(tick(line, _LONGEST) for line in name) for name in lines],
            "range": [N - 0.5, -0.5],
        },
    )


@dataclass(frozen=True)
class Grid:
    """Numbers [rows, columns] with a word and a hover text for each cell."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: NDArray
    texts: Sequence[Sequence[str]]
    hovers: Sequence[Sequence[str]]


def words_grid_figure(
    grid: Grid, title: str, subtitle: str, limit: float, signed: bool, theme: str
) -> go.Figure:
    """Draw words on coloured cells; colours span 0 to `limit`, or ±`limit` if `signed`."""
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
    if cell >= _MIN_CELL:
        figure.add_trace(cell_numbers(heat, 12))
    return figure.update_layout(
        margin={"l": left, "r": 12, "t": 66, "b": bottom},
        xaxis=ticks,
        yaxis={**word_ticks(grid.rows, _ROW, 30), "range": [len(grid.rows) - 0.5, -0.5]},
    )


def pairs_figure(beyond: NDArray, heads: int, title: str, theme: str) -> go.Figure:
    """Draw pairs' interactions [head, head] in nats: the joint effect minus both single effects."""
    N = len(beyond)
    names = [f"{n // heads + 1}.{n % heads + 1}" for n in range(N)]
    limit = float(np.abs(beyond).max()) or 1.0
    figure = empty_grid(
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
            colorbar=colour_bar_below(
                figure, "joint effect minus sum, nats", [-limit, 0, limit], ends, theme
            ),
            hovertemplate="heads %{y} and %{x}: <b>%{z:+.3f}</b> nats relative to the sum"
            "<extra></extra>",
        )
    )
    return figure


@dataclass(frozen=True)
class Node:
    """A token or layer that ribbons connect; `key` identifies it, as labels may repeat."""

    key: Hashable
    label: str


@dataclass(frozen=True)
class Ribbon:
    """A term of the sum on its way from a token through a layer to one of two candidates."""

    start: Node
    end: Node
    value: float
    """Positive in favour of the first candidate, negative in favour of the second."""


def ribbons_figure(
    ribbons: Sequence[Ribbon], ends: tuple[str, str], title: str, subtitle: str, theme: str
) -> go.Figure:
    """Draw a Sankey diagram of signed terms, each as wide as its absolute value.

    A term flows from `start` through `end` to the first of `ends` (blue, positive) or the second
    (orange, negative); the first total minus the second is the sum. Equal nodes are merged.
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
                "color": [_translucent(above if v >= 0 else below) for _, _, v in links],
                "customdata": [number(v, 3, sign="+") for _, _, v in links],
                "hovertemplate": "%{source.label} → %{target.label}: %{customdata} logit"
                "<extra></extra>",
            },
            textfont={"size": 13, "color": palette.ink},
        ),
        layout(theme, escape(title), escape(subtitle), height=82 + _PAD * most + _FLOW),
    )
    return figure.update_layout(margin={"l": 8, "r": 8, "t": 66, "b": 16})


def _translucent(colour: str) -> str:
    """Return the colour with 55 % opacity, as ribbons overlap."""
    return colour.replace("rgb(", "rgba(").replace(")", ",0.55)")
