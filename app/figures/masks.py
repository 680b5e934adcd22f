"""Draws the mask of one kind of attention as this pass had it: which token may look at which."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.figures.style import (
    PALETTES,
    hover_axis,
    labels,
    layout,
    text_width,
    word_ticks,
)
from core.record import TranslationRecord

FUTURE = "the future: written later"
PADDING = "padding: no token at all"
_OTHER = "closed"
_HATCH = {FUTURE: "/", PADDING: "x", _OTHER: "\\"}
_LONGEST = 16  # characters of a label beside the grid; the hover shows all of it
_GRID = 560  # px that a long sentence's grid may take


def mask_figure(record: TranslationRecord, kind: str, theme: str) -> go.Figure:
    """The boolean mask [query, key] of "encoder", "decoder" or "cross"; closed cells are hatched.

    Rows of the decoder and of cross-attention are the tokens fed in: a mask is about what is read,
    not about what is produced from it.
    """
    mask = record.mask(kind)
    palette = PALETTES[theme]
    rows, row_words = _queries(record, kind)
    columns, keys = _keys(record, kind)
    cell = int(np.clip(_GRID / max(mask.shape), 6, 30))
    row_ticks, column_ticks = (word_ticks(words, cell, _LONGEST) for words in (rows, columns))

    size = column_ticks["tickfont"]["size"]
    upright = cell < 16
    gap = 1 if cell >= 12 else 0  # lines between smaller cells would be a grey veil
    frame = {"showline": True, "mirror": True, "linecolor": palette.line}
    column_height = text_width(columns, size, _LONGEST) * (1 if upright else 0.75) + 12
    left = text_width(rows, row_ticks["tickfont"]["size"], _LONGEST) + 44
    top = 78 + column_height + 26
    grid_width, grid_height = cell * mask.shape[1], cell * mask.shape[0]

    q, k = ("S", "S") if kind == "encoder" else ("T", "T" if kind == "decoder" else "S")
    lengths = f"{mask.shape[0]}, {mask.shape[1]}"
    figure = go.Figure(
        layout=layout(
            theme,
            f"{kind.capitalize()} mask: {int(mask.sum()):,} of {mask.size:,} cells are open",
            f"bool [{q}, {k}] = [{lengths}], True = may look<br>"
            f"broadcast over batch and heads: [1, 1, {lengths}]",
            height=round(top + grid_height + 48),
        )
    )
    figure.update_layout(
        width=round(max(left + grid_width + 60, 400)),
        margin={"l": left, "t": top, "b": 48, "r": max(60, 400 - left - grid_width)},
        plot_bgcolor=palette.hairline,  # shows in the gaps between open cells
        barmode="overlay",
        bargap=0,
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": -6 / grid_height,
            "yanchor": "top",
            "bgcolor": "rgba(0,0,0,0)",
            "font": {"size": 13, "color": palette.second},
            "itemclick": False,
            "itemdoubleclick": False,
        },
        showlegend=True,
        xaxis={
            **column_ticks,
            **frame,
            "side": "top",
            "tickangle": -90 if upright else -45,
            "title": {"text": f"column: {keys} looked at (key)"},
        },
        yaxis={
            **row_ticks,
            **frame,
            "range": row_ticks["range"][::-1],
            "title": {"text": f"row: {row_words} (query)"},
        },
        xaxis2={**hover_axis(columns, "x"), "side": "top"},
        yaxis2={
            **hover_axis(_hover_rows(record, kind, rows), "y"),
            "range": row_ticks["range"][::-1],
            "side": "right",
        },
    )
    figure.add_trace(_cells(mask, palette.page, gap, "%{y}<br>may look at <b>%{x}</b><br>M = 0"))
    figure.add_trace(_swatch("may look", palette.page, palette.line))
    for reason, closed in closed_cells(record, kind).items():
        figure.add_trace(hatching(closed, reason, _HATCH[reason], theme))
        hover = f"%{{y}}<br>may not look at <b>%{{x}}</b><br>{reason}, M = −∞"
        figure.add_trace(_cells(closed, "rgba(0,0,0,0)", 0, hover))
    return figure


def closed_cells(record: TranslationRecord, kind: str) -> dict[str, NDArray[np.bool_]]:
    """The cells that are closed, [query, key], by the reason why; together they are ~mask."""
    closed = ~record.mask(kind)
    keys = record.target_in if kind == "decoder" else record.source
    padding = closed & np.array([token.special and token.piece == "<pad>" for token in keys])
    future = closed & ~padding & np.triu(np.ones(closed.shape, bool), 1)
    if kind != "decoder":
        future[:] = False
    cells = {FUTURE: future, PADDING: padding, _OTHER: closed & ~padding & ~future}
    return {reason: cells for reason, cells in cells.items() if cells.any()}


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


def _queries(record: TranslationRecord, kind: str) -> tuple[list[str], str]:
    if kind == "encoder":
        return labels(record.source, 1), f"{record.source_language} token that looks"
    return labels(record.target_in, 0), f"{record.target_language} token fed in"


def _keys(record: TranslationRecord, kind: str) -> tuple[list[str], str]:
    if kind == "decoder":
        return labels(record.target_in, 0), f"{record.target_language} token"
    return labels(record.source, 1), f"{record.source_language} token"


def _hover_rows(record: TranslationRecord, kind: str, rows: Sequence[str]) -> list[str]:
    """What a hover calls a row: for the decoder also what the row goes on to predict."""
    if kind == "encoder":
        return list(rows)
    produced = labels(record.target_out, 1)
    return [f"{row}, fed in to predict {out}" for row, out in zip(rows, produced, strict=True)]


def _cells(where: NDArray[np.bool_], colour: str, gap: int, hover: str) -> go.Heatmap:
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


def _swatch(name: str, colour: str, border: str) -> go.Bar:
    """Only a line in the legend."""
    marker = {"color": colour, "line": {"width": 1, "color": border}}
    return go.Bar(x=[None], y=[None], name=name, marker=marker, hoverinfo="skip")
