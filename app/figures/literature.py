"""Draws one claim of the literature board: its statistic on each network beside the threshold."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from app.figures.amounts import amount, axis_title, scaled, with_interval
from app.figures.style import escape, layout, marker_style, ruled_axis, text_width, tick
from app.look.palette import PALETTES
from core.atlas.claims.board import Row
from core.atlas.claims.claim import Estimate

MEAN = "mean of all"
PUBLISHED = "published"
_ROW = 28  # px
_LONGEST = 24


def claim_figure(row: Row, theme: str) -> go.Figure:
    """Draw a dot with its interval for each network and for their mean.

    The dotted line is the threshold; the side that the claim predicts is shaded. Diamonds are the
    published number or range. A short line on a network's row is the value expected by chance.
    """
    palette, claim = PALETTES[theme], row.claim
    estimates: dict[str, Estimate] = dict(row.estimates)
    if row.mean is not None:
        estimates[MEAN] = row.mean
    names = list(estimates)
    if claim.published:
        names.append(PUBLISHED)
    scale = lambda value: scaled(value, claim.unit)  # noqa: E731
    values = np.array(
        [[scale(number) for number in (e.value, e.low, e.high)] for e in estimates.values()]
    )
    figure = go.Figure(
        layout=layout(theme, "", "", height=16 + _ROW * len(names) + 48),
    )
    figure.add_trace(
        go.Scatter(
            x=values[:, 0],
            y=list(range(len(estimates))),
            mode="markers",
            marker=marker_style(9, palette.focus),
            error_x={
                "type": "data",
                "symmetric": False,
                "array": values[:, 2] - values[:, 0],
                "arrayminus": values[:, 0] - values[:, 1],
                "color": palette.focus,
                "thickness": 1.5,
                "width": 4,
            },
            customdata=[
                f"{tick(name)}: {with_interval(e.value, e.low, e.high, claim.unit)}"
                for name, e in estimates.items()
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    )
    chance = [(y, e.null) for y, e in enumerate(estimates.values()) if e.null is not None]
    if chance:
        figure.add_trace(
            go.Scatter(
                x=[scale(null) for _, null in chance],
                y=[y for y, _ in chance],
                mode="markers",
                marker=marker_style(14, palette.second, "line-ns-open"),
                customdata=[f"{claim.null}: {amount(null, claim.unit)}" for _, null in chance],
                hovertemplate="%{customdata}<extra></extra>",
            )
        )
    if claim.published:
        figure.add_trace(
            go.Scatter(
                x=[scale(value) for value in claim.published],
                y=[len(estimates)] * len(claim.published),
                mode="lines+markers",
                line={"color": palette.ink, "width": 1.5},
                marker=marker_style(10, palette.ink, "diamond"),
                customdata=[f"{PUBLISHED}: {amount(x, claim.unit)}" for x in claim.published],
                hovertemplate="%{customdata}<extra></extra>",
            )
        )
    drawn = [scale(claim.threshold), *values.ravel().tolist(), *(scale(n) for _, n in chance)]
    drawn += map(scale, claim.published)
    space = 0.06 * ((max(drawn) - min(drawn)) or 1.0)
    ends = min(drawn) - space, max(drawn) + space
    threshold = scale(claim.threshold)
    figure.add_vrect(
        x0=threshold if claim.above else ends[0],
        x1=ends[1] if claim.above else threshold,
        fillcolor=palette.well,
        line_width=0,
        layer="below",
    )
    figure.add_vline(x=threshold, line={"color": palette.wrong, "width": 1.5, "dash": "dot"})
    return figure.update_layout(
        margin={"l": 24 + text_width(names, 13, _LONGEST), "r": 16, "t": 8, "b": 52},
        xaxis={"title": {"text": escape(axis_title(claim.unit))}, "range": ends}
        | ruled_axis(theme),
        yaxis={
            "tickmode": "array",
            "tickvals": list(range(len(names))),
            "ticktext": [tick(name, _LONGEST) for name in names],
            "range": [len(names) - 0.5, -0.5],
        },
    )
