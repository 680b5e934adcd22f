"""Declares one claim of the literature board: its statistic on each network, and the threshold."""

from __future__ import annotations

import numpy as np

from app.figures.amounts import amount, axis_title, scaled, with_interval
from app.figures.chart import Axis, Chart, Mark, numbers, rule
from app.figures.style import INK, SECOND, Ink, escape, text_width, tick
from core.atlas.claims.board import Row
from core.atlas.claims.claim import Estimate

MEAN = "mean of all"
PUBLISHED = "published"
_ROW = 28  # px
_LONGEST = 24


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
    focus, hover = Ink("focus"), "%{customdata}"
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
    predicted = {
        "type": "rect",
        **dict(zip(("x0", "x1"), shaded, strict=True)),
        "xref": "x",
        "y0": 0,
        "y1": 1,
        "yref": "y domain",
        "fillcolor": Ink("well"),
        "line": {"width": 0},
        "layer": "below",
    }
    ticks = {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": [tick(name, _LONGEST) for name in names],
        "range": [len(names) - 0.5, -0.5],
    }
    axes = {"x": numbers(escape(axis_title(unit)), ends, 5), "y": Axis(ticks, names)}
    margins = 24 + text_width(names, 13, _LONGEST), 16, 8, 52
    height = 16 + _ROW * len(names) + 48
    shapes = [predicted, rule("x", threshold, Ink("wrong"), "dot", 1.5)]
    return Chart("", "", axes, marks, height, margins, shapes=shapes)
