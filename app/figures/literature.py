"""Declares the charts of the literature board: of all claims, and of one claim."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from app.figures.amounts import amount, axis_title, scaled, with_interval
from app.figures.chart import Axis, Chart, Mark, numbers, rule
from app.figures.style import ABOVE, BELOW, INK, SECOND, THIRD, Ink, escape, text_width, tick
from core.atlas.claims.board import Row
from core.atlas.claims.claim import DIFFERS, FAILS, HOLDS, OPEN, Estimate, in_brief

MEAN = "mean of all"
PUBLISHED = "published"
_ROW = 28  # px
_LONGEST = 24
_WIDEST = 64  # characters of a hover's line
_HOVER = "%{customdata}"
SHORT = {HOLDS: "hold", FAILS: "do not hold", DIFFERS: "differ", OPEN: "undecided"}
"""The verdicts in the order of the board's chart and of its tables."""


def board_columns(rows: Sequence[Row]) -> dict[int, Row]:
    """Return the claims by their column in the board's chart, numbered from 1 in this order."""
    columns: dict[int, Row] = {}
    start = 0
    for verdict in SHORT:
        group = [row for row in rows if row.verdict == verdict]
        columns |= dict(enumerate(group, start))
        start += len(group) + bool(group)
    return columns


def board_figure(rows: Sequence[Row], networks: int) -> Chart:
    """Draw each claim as a column with a dot and an interval for each network.

    Claims are numbered and grouped by verdict, in the order of SHORT. The dotted line is each
    claim's threshold, and the shaded side is the claimed one. Distances from the threshold are
    shares of the column's largest. Blue intervals lie on the claimed side, orange ones on the
    other; those of undecided claims are grey. A claim that was not measured has a cross. A chosen
    dot is larger.
    """
    columns = board_columns(rows)
    # Numbers alternate between two lines: on a narrow page, one line has no room for all.
    below: dict[float, str] = {
        x: f"<br>{n}" if n % 2 == 0 else f"{n}<br>" for n, x in enumerate(columns, 1)
    }
    for verdict, word in SHORT.items():
        if at := [x for x, row in columns.items() if row.verdict == verdict]:
            lines = textwrap.wrap(word, 6, break_long_words=False)
            middle = (at[0] + at[-1]) / 2
            below[middle] = "<br>".join([below.get(middle, "<br>"), *lines])
    dots: dict[Ink, list[_Dot]] = {}
    for x, row in columns.items():
        for colour, dot in _column(x, row, networks):
            dots.setdefault(colour, []).append(dot)
    marks = []
    for colour, found in dots.items():
        at, value, low, high, told = zip(*found, strict=True)
        style = {"color": colour, "thickness": 1.5, "width": 0}
        marks.append(Mark("dot", at, value, _HOVER, told, colour, 5, ends=(low, high),
                          end_style=style, series=_SIDES[colour], more=_CHOSEN))  # fmt: skip
    absent = [x for x, row in columns.items() if not row.estimates]
    if absent:
        told = [_hover(columns[x], networks) for x in absent]
        marks.append(Mark("dot", absent, [0] * len(absent), _HOVER, told, THIRD, 7,
                          symbol="x-thin-open", series="not measured", more=_CHOSEN))  # fmt: skip
    last = max(columns)
    names = [columns[x].claim.claim if x in columns else "" for x in range(last + 1)]
    sides = {"tickmode": "array", "tickvals": [-0.5, 0.5], "ticktext": ["against", "for"]}
    ticks = {"tickmode": "array", "tickvals": list(below), "ticktext": list(below.values())}
    between = {"tickvals": [x + 0.5 for x in range(-1, last + 1)], "showgrid": True}
    grid = {"minor": between | {"gridcolor": Ink("hairline")}, "range": [-0.7, last + 0.7]}
    axes = {
        "x": Axis(ticks | grid | {"tickangle": 0}, names),
        "y": Axis(sides | {"range": [-1.06, 1.06], "tickangle": -90}),
    }
    shapes = [_shaded("y", 0, 1.06), rule("y", 0, INK, "dot", 1.5)]
    return Chart("", "", axes, marks, 300, (26, 4, 4, 76), shapes=shapes)


class _Dot(NamedTuple):
    """A network's value and interval in the board's chart, as drawn."""

    x: float
    value: float
    low: float
    high: float
    hover: str


def _column(x: int, row: Row, networks: int) -> Iterator[tuple[Ink, _Dot]]:
    """Yield the colour and the dot of each network of a claim."""
    claim, way = row.claim, 1 if row.claim.above else -1
    ends = [abs(end - claim.threshold) for e in row.estimates.values() for end in (e.low, e.high)]
    unit = max([*ends, 1e-12])
    for i, (name, one) in enumerate(row.estimates.items()):
        low, value, high = sorted(
            way * (end - claim.threshold) / unit for end in (one.low, one.value, one.high)
        )
        decided = row.verdict != OPEN and low * high > 0
        colour = (ABOVE if value > 0 else BELOW) if decided else THIRD
        at = x + 0.64 * ((i + 0.5) / len(row.estimates) - 0.5)
        said = f"{name}: {with_interval(one.value, one.low, one.high, claim.unit)}"
        yield colour, _Dot(at, value, low, high, _hover(row, networks, said))


_CHOSEN = {"selected": {"marker": {"size": 11}}, "unselected": {"marker": {"opacity": 1}}}
_SIDES = {ABOVE: "on the claimed side", BELOW: "on the other side", THIRD: "undecided"}


def _hover(row: Row, networks: int, *more: str) -> str:
    """Return the lines of a hover: the claim, its verdict, and more."""
    brief = f"{row.verdict}: {in_brief(row.claim, row.estimates, networks, row.mean)}"
    texts = row.claim.claim, brief, *more
    return "<br>".join(escape(line) for text in texts for line in textwrap.wrap(text, _WIDEST))


def _shaded(axis: str, start: float, end: float) -> dict[str, object]:
    """Return a shape that shades a range of an axis, below everything."""
    other = "y" if axis == "x" else "x"
    span = {f"{axis}0": start, f"{axis}1": end, f"{axis}ref": axis}
    span |= {f"{other}0": 0, f"{other}1": 1, f"{other}ref": f"{other} domain"}
    look = {"fillcolor": Ink("well"), "line": {"width": 0}, "layer": "below"}
    return {"type": "rect"} | span | look


def claim_figure(row: Row) -> Chart:
    """Draw a dot with its interval for each network and for their mean.

    The dotted line is the threshold; the side that the claim predicts is shaded. Diamonds are the
    published number or range. A short line on a network's row is the value expected by chance.
    """
    claim, unit = row.claim, row.claim.unit
    estimates: dict[str, Estimate] = dict(row.estimates)
    if row.mean is not None:
        estimates[MEAN] = row.mean
    names = [*estimates, *([PUBLISHED] if claim.published else [])]
    values, low, high = (
        np.array([scaled(getattr(one, name), unit) for one in estimates.values()])
        for name in ("value", "low", "high")
    )
    told = [
        f"{tick(name)}: {with_interval(one.value, one.low, one.high, unit)}"
        for name, one in estimates.items()
    ]
    focus, hover = Ink("focus"), _HOVER
    interval = {"color": focus, "thickness": 1.5, "width": 4}
    dots = Mark("dot", values, list(range(len(values))), hover, told, focus, 9,
                ends=(low, high), end_style=interval, sideways=True)  # fmt: skip
    marks = [dots]
    nulls = [(y, one.null) for y, one in enumerate(estimates.values()) if one.null is not None]
    chance = [scaled(null, unit) for _, null in nulls]
    if nulls:
        told = [f"{claim.null}: {amount(null, unit)}" for _, null in nulls]
        rows = [y for y, _ in nulls]
        marks.append(Mark("dot", chance, rows, hover, told, SECOND, 14, series="by chance",
                          symbol="line-ns-open", sideways=True))  # fmt: skip
    published = [scaled(value, unit) for value in claim.published]
    if published:
        told = [f"{PUBLISHED}: {amount(value, unit)}" for value in claim.published]
        rows = [len(estimates)] * len(published)
        marks.append(Mark("dotted line", published, rows, hover, told, INK, 10, 1.5,
                          symbol="diamond", sideways=True))  # fmt: skip
    threshold = scaled(claim.threshold, unit)
    drawn = [threshold, *values, *low, *high, *chance, *published]
    space = 0.06 * ((max(drawn) - min(drawn)) or 1.0)
    ends = min(drawn) - space, max(drawn) + space
    shaded = (threshold, ends[1]) if claim.above else (ends[0], threshold)
    ticks = {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": [tick(name, _LONGEST) for name in names],
        "range": [len(names) - 0.5, -0.5],
    }
    axes = {"x": numbers(escape(axis_title(unit)), ends, 5), "y": Axis(ticks, names)}
    margins = 24 + text_width(names, 13, _LONGEST), 16, 8, 52
    height = 16 + _ROW * len(names) + 48
    shapes = [_shaded("x", *shaded), rule("x", threshold, Ink("wrong"), "dot", 1.5)]
    return Chart("", "", axes, marks, height, margins, shapes=shapes)
