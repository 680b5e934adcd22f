"""Draws small query × key grids: labelled axes, hatched cells, numbers in cells."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.figures.style import (
    BARE,
    Colourscale,
    empty_trace,
    escape,
    framed_axis,
    hover_axis,
    layout,
    text_width,
    word_ticks,
)
from app.look.palette import PALETTES

LONGEST = 12  # characters of a label; the hover shows the whole word
_GRID = 216  # px of a grid: three fit in a row on a desktop screen, one on a phone
_MIN_WIDTH = 310  # px, so that a title and a subtitle fit
_FOOT = 64  # px under a grid, for ids or a colour bar

Masked = Mapping[str, NDArray[np.bool_]]
"""Masked cells [query, key] by reason."""


@dataclass(frozen=True)
class Axes:
    """Labels and titles of a grid's rows and columns; `ids` are shown under the columns."""

    rows: Sequence[str]
    columns: Sequence[str]
    row_title: str
    column_title: str
    ids: Sequence[int] = ()


def empty_grid(axes: Axes, title: str, subtitle: str, theme: str) -> go.Figure:
    """Return a grid without cells: words on both axes, and token ids below if `axes` has any."""
    cell = int(np.clip(_GRID / max(len(axes.rows), len(axes.columns)), 6, 24))
    row_ticks, column_ticks = (
        word_ticks(words, cell, LONGEST) for words in (axes.rows, axes.columns)
    )
    above = text_width(axes.columns, column_ticks["tickfont"]["size"], LONGEST) + 12
    left = text_width(axes.rows, row_ticks["tickfont"]["size"], LONGEST) + 34
    top = 60 + 26 + above
    width, height = cell * len(axes.columns), cell * len(axes.rows)
    figure = go.Figure(
        layout=layout(theme, escape(title), subtitle, height=round(top + height + _FOOT))
    )
    figure.update_layout(
        width=round(max(left + width + 12, _MIN_WIDTH)),
        margin={"l": left, "t": top, "b": _FOOT, "r": max(12, _MIN_WIDTH - left - width)},
        barmode="overlay",
        bargap=0,
        xaxis={
            **column_ticks,
            **framed_axis(theme),
            "side": "top",
            "tickangle": -90,
            "title": {"text": axes.column_title, "standoff": 6},
        },
        yaxis={
            **row_ticks,
            **framed_axis(theme),
            "range": row_ticks["range"][::-1],
            "title": {"text": axes.row_title, "standoff": 6},
        },
        xaxis2={**hover_axis(axes.columns, "x"), "side": "top"},
        yaxis2={
            **hover_axis(axes.rows, "y"),
            "range": row_ticks["range"][::-1],
            "side": "right",
        },
    )
    figure.add_trace(empty_trace())
    if axes.ids:
        figure.update_layout(xaxis3=_id_axis(axes.ids, cell, PALETTES[theme].second))
        figure.add_trace(empty_trace("x3"))
    return figure


def colour_bar_below(
    figure: go.Figure, word: str, values: Sequence[float], texts: Sequence[str], theme: str
) -> dict[str, Any]:
    """Return a flat colour bar below the plot, as wide as the plot."""
    margin = figure.layout.margin
    small = {"size": 12, "color": PALETTES[theme].second}
    return {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "xpad": 0,
        "y": -8 / (figure.layout.height - margin.t - margin.b),
        "yanchor": "top",
        "ypad": 0,
        "lenmode": "fraction",  # of the plot, which is narrower on a phone
        "len": 1,
        "thickness": 8,
        "outlinewidth": 0,
        "tickvals": list(values),
        "ticktext": list(texts),
        "tickfont": small,
        "title": {"text": word, "side": "bottom", "font": small},
    }


def add_hatching(figure: go.Figure, masked: Masked, theme: str, shapes: Mapping[str, str]) -> None:
    """Hatch the masked cells by reason: future tokens and padding have different patterns."""
    for reason, cells in masked.items():
        bars = hatched_bars(cells, reason, shapes[reason], theme)
        figure.add_trace(bars.update(xaxis="x2", yaxis="y2"))


def hatched_bars(masked: NDArray[np.bool_], reason: str, shape: str, theme: str) -> go.Bar:
    """Return hatched bars over the masked cells, one bar for each run of cells in a row."""
    palette = PALETTES[theme]
    edges = np.diff(np.pad(masked, ((0, 0), (1, 1))).astype(np.int8), axis=1)
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


def filled_cells(where: NDArray[np.bool_], colour: str, gap: int, hover: str) -> go.Heatmap:
    """Return the cells in `where`, filled with one colour, `gap` px apart, with hover text."""
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
    """Return the width of a cell, in px."""
    return (figure.layout.width - figure.layout.margin.l - figure.layout.margin.r) / columns


def _id_axis(ids: Sequence[int], cell: float, colour: str) -> dict[str, Any]:
    """Return a third axis that shows the token ids under the columns."""
    return {
        **BARE,
        **word_ticks([str(id) for id in ids], cell, 6),
        "overlaying": "x",
        "side": "bottom",
        "tickangle": -90,
        "title": {"text": "id", "font": {"size": 12, "color": colour}, "standoff": 4},
    }


def cell_numbers(heat: go.Heatmap, size: int) -> go.Scatter:
    """Return the numbers of a heat map's cells as text, black or white for contrast.

    Plotly would choose white or a dark grey, whose contrast on middle colours is below 4.5:1.
    """
    rows, columns = np.nonzero(np.array(heat.text, dtype=object) != "")
    at = (np.array(heat.z)[rows, columns] - heat.zmin) / (heat.zmax - heat.zmin)
    return go.Scatter(
        x=columns,
        y=rows,
        text=[heat.text[row][column] for row, column in zip(rows, columns, strict=True)],
        mode="text",
        textfont={"size": size, "color": [_ink(value, heat.colorscale) for value in at]},
        hoverinfo="skip",
    )


def _ink(at: float, scale: Colourscale) -> str:
    """Return black or white, whichever contrasts more with the scale's colour at `at` (0–1)."""
    colours = np.array([[int(c) for c in re.findall(r"\d+", colour)] for _, colour in scale]) / 255
    stops = [stop for stop, _ in scale]
    shown = np.array([np.interp(at, stops, channel) for channel in colours.T])
    linear = np.where(shown <= 0.04045, shown / 12.92, ((shown + 0.055) / 1.055) ** 2.4)
    return "#000000" if linear @ (0.2126, 0.7152, 0.0722) > 0.179 else "#ffffff"
