"""Draws answers to "why": terms that add up, grids of words and numbers, pairs, ribbons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

_BAR, _TALL_BAR = 24, 36  # px a bar takes, and one whose name has two lines
_ROW = 26  # px a row of a grid of words takes
_LONGEST = 34  # characters of a bar's name
_PLOT = 780  # px of a figure on a small desktop screen
_LETTER = 6.2  # px of a letter in a cell
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
) -> go.Figure:
    """Terms of a sum as bars from 0, one below the other in their order: blue adds.

    A name may have two lines.
    """
    below, above = signed_colours(theme)
    lines = [name.split("\n") for name in names]
    left = 24 + text_width([line for name in lines for line in name], 13, _LONGEST)
    N, bar = len(names), _BAR if max(map(len, lines)) == 1 else _TALL_BAR
    figure = go.Figure(
        go.Bar(
            y=list(range(N)),
            x=list(values),
            orientation="h",
            width=0.66,
            marker={"color": [above if v >= 0 else below for v in values], "line": {"width": 0}},
            customdata=[tick(" ".join(name)) for name in lines],
            hovertemplate=f"%{{customdata}}: <b>%{{x:+.4f}}</b> {unit}<extra></extra>",
        ),
        layout(theme, escape(title), escape(subtitle), height=66 + bar * N + 52),
    )
    ends = [min(0.0, *values), max(0.0, *values)]
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
        "orange: cover for each other; blue: need each other",
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
            colorbar=bar_beneath(figure, "nats beyond both alone", [-limit, 0, limit], ends, theme),
            hovertemplate="heads %{y} and %{x}: <b>%{z:+.4f}</b> nats<extra></extra>",
        )
    )
    return figure


@dataclass(frozen=True)
class Ribbon:
    """A part of a sum, from the word or layer that it came by to what it speaks for."""

    start: str
    end: str
    value: float
    """Above 0 for the first of the two, below 0 for the second."""


def ribbons_figure(
    ribbons: Sequence[Ribbon], ends: tuple[str, str], title: str, subtitle: str, theme: str
) -> go.Figure:
    """Ribbons as wide as their parts; what reaches the first less the second is the sum.

    A ribbon runs from `start` over `end` to the first of the `ends`, blue, or to the second.
    """
    below, above = signed_colours(theme)
    starts = list(dict.fromkeys(r.start for r in ribbons))
    middles = list(dict.fromkeys(r.end for r in ribbons))
    names = [*starts, *middles, *ends]
    at = {("start", n): i for i, n in enumerate(starts)}
    at |= {("middle", n): len(starts) + i for i, n in enumerate(middles)}
    last = len(starts) + len(middles)
    links = [(at["start", r.start], at["middle", r.end], r.value) for r in ribbons]
    for name in middles:
        for side, sign in ((last, 1), (last + 1, -1)):
            share = sum(max(0.0, sign * r.value) for r in ribbons if r.end == name)
            if share:
                links.append((at["middle", name], side, sign * share))
    palette = PALETTES[theme]
    figure = go.Figure(
        go.Sankey(
            arrangement="fixed",
            node={
                "label": [tick(name, 28) for name in names],
                "color": palette.third,
                "line": {"width": 0},
                "thickness": 10,
                "pad": 10,
            },
            link={
                "source": [a for a, _, _ in links],
                "target": [b for _, b, _ in links],
                "value": [abs(v) for _, _, v in links],
                "color": [_clear(above if v >= 0 else below) for _, _, v in links],
                "customdata": [number(v, 4, sign="+") for _, _, v in links],
                "hovertemplate": "%{source.label} → %{target.label}: %{customdata} nats"
                "<extra></extra>",
            },
            textfont={"size": 13, "color": palette.ink},
        ),
        layout(theme, escape(title), escape(subtitle), height=66 + max(260, 26 * len(starts))),
    )
    return figure.update_layout(margin={"l": 8, "r": 8, "t": 66, "b": 16})


def _clear(colour: str) -> str:
    """The same colour, half of it: ribbons lie over each other."""
    return colour.replace("rgb(", "rgba(").replace(")", ",0.55)")
