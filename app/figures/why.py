"""Declares the charts of Ask why: additive terms, word grids, pairs of heads, ribbons."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import isnan

import numpy as np
from numpy.typing import NDArray

from app.figures.chart import OVER, Cells, Chart, Flows, Mark, numbers, words, words_below
from app.figures.grid import ALONE, Axes
from app.figures.style import ABOVE, BELOW, INK, THIRD, Ink, by_sign, small, text_width, tick
from app.look.numbers import number

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
    measured: Sequence[float] = (),
    intervals: tuple[Sequence[float], Sequence[float]] | None = None,
) -> Chart:
    """Draw the terms of a sum as horizontal bars in the given order: blue > 0, orange < 0.

    A name may have two lines. `measured` adds a second, grey bar per term, such as the effect of
    its ablation; NaN draws no bar. `intervals` are the ends (low, high) of error bars.
    """
    N, plain = len(names), [tick(name.replace("\n", " ")) for name in names]
    pitch = _TALL_BAR if measured or any("\n" in name for name in names) else _BAR
    low, high = intervals or ((), ())
    hover, rows = f"%{{customdata}}: <b>%{{x:+.3f}}</b> {unit}", plain
    if intervals is not None:
        hover = f"%{{customdata[0]}}: <b>%{{x:+.2f}}</b> {unit}, 95 %: %{{customdata[1]}}"
        ends = zip(plain, low, high, strict=True)
        rows = [[n, f"{number(a, 2, sign='+')} to {number(b, 2, sign='+')}"] for n, a, b in ends]
    places = [n - 0.2 for n in range(N)] if measured else list(range(N))
    bar = Mark("bar", list(values), places, hover, rows, by_sign(values), sideways=True,
               width=0.36 if measured else 0.66, ends=intervals,
               end_style={"color": INK, "width": 4})  # fmt: skip
    marks = [bar]
    if measured:
        known = [None if isnan(value) else value for value in measured]
        lost = [f"lost without {name}" for name in plain]
        beside = [n + 0.2 for n in range(N)]
        marks.append(replace(bar, x=known, y=beside, rows=lost, colour=THIRD, width=0.3,
                             series="true effect"))  # fmt: skip
    reached = [0.0, *values, *(v for v in measured if not isnan(v)), *low, *high]
    extra = 0.04 * ((max(reached) - min(reached)) or 1.0)
    ends = min(reached) - extra, max(reached) + extra
    axes = {
        "x": numbers(unit, ends, 5, Ink("control")),
        "y": words(names, pitch, _LONGEST, from_top=True),
    }
    margins = 24 + text_width(names, 13, _LONGEST), 16, 66, 52
    more = {"barmode": "overlay"} if measured else {}
    return Chart(title, subtitle, axes, marks, 118 + pitch * N, margins, more=more)


@dataclass(frozen=True)
class Grid:
    """Numbers [rows, columns] with a word and a hover text for each cell."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: NDArray
    texts: Sequence[Sequence[str]]
    hovers: Sequence[Sequence[str]]


def words_grid_figure(grid: Grid, title: str, subtitle: str, limit: float, signed: bool) -> Chart:
    """Draw words on coloured cells; colours span 0 to `limit`, or ±`limit` if `signed`."""
    across, bottom, _ = words_below(grid.columns, 14)
    left = 20 + text_width(grid.rows, 13, 30)
    cell = (_PLOT - left) / len(grid.columns)
    texts = [[tick(word, max(2, int(cell / _LETTER))) for word in row] for row in grid.texts]
    size = 12 if cell >= _MIN_CELL else 0
    cells = Cells(grid.values, limit, signed, "%{customdata}", grid.hovers, texts, size)
    axes = {"x": across, "y": words(grid.rows, _ROW, 30, from_top=True)}
    height = 66 + _ROW * len(grid.rows) + bottom
    return Chart(title, subtitle, axes, [cells], height, (left, 12, 66, bottom))


def pairs_figure(beyond: NDArray, heads: int, title: str) -> Chart:
    """Draw pairs' interactions [head, head] in nats: the joint effect minus both single effects."""
    names = [f"{n // heads + 1}.{n % heads + 1}" for n in range(len(beyond))]
    limit = float(np.abs(beyond).max()) or 1.0
    axes = Axes(names, names, "first: layer.head", "second: layer.head", size=ALONE)
    ends = [number(-limit, 2), "0", number(limit, 2)]
    bar = axes.colour_bar("joint effect minus sum, nats", [-limit, 0, limit], ends)
    hover = "heads %{y} and %{x}: <b>%{z:+.3f}</b> nats relative to the sum"
    cells = Cells(beyond, limit, True, hover, bar=bar, gaps=(0, 0), more=OVER)
    return axes.chart(title, "orange: more is lost together; blue: less", [cells])


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
    ribbons: Sequence[Ribbon], ends: tuple[str, str], title: str, subtitle: str
) -> Chart:
    """Draw a Sankey diagram of signed terms, each as wide as its absolute value.

    A term flows from `start` through `end` to the first of `ends` (blue, positive) or the second
    (orange, negative); the first total minus the second is the sum. Equal nodes are merged.
    """
    starts = list(dict.fromkeys(r.start for r in ribbons))
    middles = list(dict.fromkeys(r.end for r in ribbons))
    at_start = {node: i for i, node in enumerate(starts)}
    at_middle = {node: len(starts) + i for i, node in enumerate(middles)}
    last = len(starts) + len(middles)
    links = [(at_start[r.start], at_middle[r.end], r.value) for r in ribbons]
    for node in middles:
        for side, sign in ((last, 1), (last + 1, -1)):
            share = sum(max(0.0, sign * r.value) for r in ribbons if r.end == node)
            if share:
                links.append((at_middle[node], side, sign * share))
    above, below = (replace(ink, opacity=0.55) for ink in (ABOVE, BELOW))  # ribbons overlap
    flows = Flows(
        [*(node.label for node in (*starts, *middles)), *ends],
        links,
        _LONGEST,
        "%{source.label} → %{target.label}: %{customdata} logit",
        [number(value, 3, sign="+") for *_, value in links],
        {
            "node": {"color": THIRD, "thickness": 10, "pad": _PAD},
            "link": {"color": [above if value >= 0 else below for *_, value in links]},
            "textfont": small(13, INK),
        },
    )
    height = 82 + _PAD * max(len(starts), len(middles)) + _FLOW
    return Chart(title, subtitle, {}, [flows], height, (8, 8, 66, 16))
