"""Draws one small grid of cells, query on rows and key on columns: weights, scores, or a mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.figures.style import (
    PALETTES,
    diverging,
    escape,
    hover_axis,
    layout,
    sequential,
    text_width,
    word_ticks,
)

LONGEST = 12  # characters of a label beside a grid; the hover shows all of it
_GRID = 216  # px for a grid: three beside each other on a desktop screen, one on a phone
_LEAST = 310  # px that a title and a subtitle need

Closed = Mapping[str, NDArray[np.bool_]]
"""The closed cells [query, key] by the reason why."""


@dataclass(frozen=True)
class Axes:
    """The words on both sides of a grid and what they are; `ids` stand beneath the columns."""

    rows: Sequence[str]
    columns: Sequence[str]
    row_title: str
    column_title: str
    ids: Sequence[int] | None = None


def frame(axes: Axes, title: str, subtitle: str, theme: str, foot: int = 66) -> go.Figure:
    """The grid without its cells: words on both axes, `foot` px beneath for a bar or a legend."""
    palette = PALETTES[theme]
    cell = int(np.clip(_GRID / max(len(axes.rows), len(axes.columns)), 6, 24))
    row_ticks, column_ticks = (
        word_ticks(words, cell, LONGEST) for words in (axes.rows, axes.columns)
    )
    above = text_width(axes.columns, column_ticks["tickfont"]["size"], LONGEST) + 12
    left = text_width(axes.rows, row_ticks["tickfont"]["size"], LONGEST) + 34
    if axes.ids is not None:
        foot += 40
    top = 60 + 26 + above
    width, height = cell * len(axes.columns), cell * len(axes.rows)
    line = {"showline": True, "mirror": True, "linecolor": palette.line}
    figure = go.Figure(
        layout=layout(theme, escape(title), subtitle, height=round(top + height + foot))
    )
    figure.update_layout(
        width=round(max(left + width + 12, _LEAST)),
        margin={"l": left, "t": top, "b": foot, "r": max(12, _LEAST - left - width)},
        barmode="overlay",
        bargap=0,
        xaxis={
            **column_ticks,
            **line,
            "side": "top",
            "tickangle": -90,
            "title": {"text": f"column: {axes.column_title}", "standoff": 6},
        },
        yaxis={
            **row_ticks,
            **line,
            "range": row_ticks["range"][::-1],
            "title": {"text": f"row: {axes.row_title}", "standoff": 6},
        },
        xaxis2={**hover_axis(axes.columns, "x"), "side": "top"},
        yaxis2={
            **hover_axis(axes.rows, "y"),
            "range": row_ticks["range"][::-1],
            "side": "right",
        },
    )
    figure.add_trace(go.Scatter(x=[None], y=[None], hoverinfo="skip"))  # or no axis is drawn
    if axes.ids is not None:
        figure.update_layout(xaxis3=_beneath(axes.ids, cell, palette.second))
        figure.add_trace(go.Scatter(x=[None], y=[None], xaxis="x3", hoverinfo="skip"))
    return figure


def weights_figure(
    weights: NDArray, closed: Closed, axes: Axes, title: str, subtitle: str, theme: str
) -> go.Figure:
    """Weights [query, key] on the scale 0 to 1 that all maps share."""
    figure = frame(axes, title, subtitle, theme)
    bar = _bar(figure, theme, "weight", [0, 0.5, 1], ["0", "0.5", "1"])
    _fill(figure, weights, 0, 1, sequential(theme), bar, "weight <b>%{z:.4f}</b>")
    return close(figure, closed, theme)


def signed_figure(
    values: NDArray,
    limit: float,
    closed: Closed,
    axes: Axes,
    title: str,
    subtitle: str,
    theme: str,
    what: str,
) -> go.Figure:
    """Values of either sign [query, key], zero-centred on −limit … limit, which the bar states."""
    figure = frame(axes, title, subtitle, theme)
    inside = limit * (1 - 1e-4)  # plotly leaves out a tick that rounding puts beyond the bar's end
    ends = [f"−{limit:.3g}", "0", f"{limit:.3g}"]
    bar = _bar(figure, theme, what, [-inside, 0, inside], ends)
    _fill(figure, values, -limit, limit, diverging(theme), bar, f"{what} <b>%{{z:.4f}}</b>")
    return close(figure, closed, theme)


def close(
    figure: go.Figure, closed: Closed, theme: str, shapes: Mapping[str, str] | None = None
) -> go.Figure:
    """Hatch the closed cells of a grid, which then say nothing else: forbidden is not unused."""
    for reason, cells in closed.items():
        shape = "/" if shapes is None else shapes[reason]
        figure.add_trace(hatching(cells, reason, shape, theme).update(xaxis="x2", yaxis="y2"))
    return figure


def hatching(closed: NDArray[np.bool_], reason: str, shape: str, theme: str) -> go.Bar:
    """Hatched bars over the closed cells, one for each run of them in a row: few at any size."""
    palette = PALETTES[theme]
    edges = np.diff(np.pad(closed, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    row, start = np.nonzero(edges == 1)
    _, end = np.nonzero(edges == -1)
    return go.Bar(
        y=row,
        base=start - 0.5,
        x=end - start,
        width=1.0,
        orientation="h",
        name=reason,
        hoverinfo="skip",
        marker={
            "color": palette.hatch_ground,
            "line": {"width": 0},
            "pattern": {
                "shape": shape,
                "fillmode": "overlay",
                "fgcolor": palette.hatch,
                "bgcolor": palette.hatch_ground,
                "size": 6,
                "solidity": 0.25,
            },
        },
    )


def cells(where: NDArray[np.bool_], colour: str, gap: int, hover: str) -> go.Heatmap:
    """The cells of one sort: filled, `gap` px apart, and answering to the pointer."""
    return go.Heatmap(
        z=np.where(where, 0.0, np.nan).astype(np.float32),
        xaxis="x2",
        yaxis="y2",
        colorscale=[[0, colour], [1, colour]],
        zmin=0,
        zmax=1,
        showscale=False,
        xgap=gap,
        ygap=gap,
        hoverongaps=False,
        hovertemplate=hover + "<extra></extra>",
    )


def cell_size(figure: go.Figure, columns: int) -> float:
    """px of one cell of a frame."""
    return (figure.layout.width - figure.layout.margin.l - figure.layout.margin.r) / columns


def _fill(
    figure: go.Figure,
    values: NDArray,
    low: float,
    high: float,
    scale: list,
    bar: dict[str, Any],
    hover: str,
) -> None:
    figure.add_trace(
        go.Heatmap(
            z=values,
            xaxis="x2",
            yaxis="y2",
            zmin=low,
            zmax=high,
            colorscale=scale,
            colorbar=bar,
            hovertemplate="%{y}<br>%{x}<br>" + hover + "<extra></extra>",
        )
    )


def _beneath(ids: Sequence[int], cell: float, colour: str) -> dict[str, Any]:
    """The token ids under the columns, as a third axis."""
    return {
        **word_ticks([str(id) for id in ids], cell, 6),
        "overlaying": "x",
        "side": "bottom",
        "tickangle": -90,
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
        "ticks": "",
        "title": {"text": "id", "font": {"size": 12, "color": colour}, "standoff": 4},
    }


def _bar(
    figure: go.Figure, theme: str, words: str, values: list[float], texts: list[str]
) -> dict[str, Any]:
    """A flat colour bar under a figure's grid, as wide as the grid."""
    palette, margin = PALETTES[theme], figure.layout.margin
    height = figure.layout.height - margin.t - margin.b
    return {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "xpad": 0,
        "y": -8 / height,
        "yanchor": "top",
        "ypad": 0,
        "lenmode": "pixels",
        "len": figure.layout.width - margin.l - margin.r,
        "thickness": 10,
        "outlinewidth": 0,
        "tickvals": values,
        "ticktext": texts,
        "tickfont": {"size": 12, "color": palette.second},
        "title": {
            "text": words,
            "side": "bottom",
            "font": {"size": 12, "color": palette.second},
        },
    }
