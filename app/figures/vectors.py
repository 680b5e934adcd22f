"""Draws the effect of positions on vectors: rotations, vector lengths, a 2-D projection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.figures.grid import cell_numbers
from app.figures.positions import wavelength, wavelength_words
from app.figures.style import (
    FLOOR,
    NARROW,
    curve,
    diverging,
    framed_axis,
    layout,
    marker_style,
    ruled_axis,
    sequential,
    tick,
    word_ticks,
    words_below,
)
from app.look.numbers import number, percent
from app.look.palette import PALETTES
from core.analysis.position_table import Sums

SHOWN = 8  # dimensions of the rotation matrix that are drawn
_LONGEST = 14
_PLANE = 440  # px high


def rotation_figure(matrix: NDArray, dimensions: Sequence[int], k: int, theme: str) -> go.Figure:
    """Draw the rows and columns `dimensions` of R_k with their numbers; zeros stay blank."""
    shown = matrix[np.ix_(dimensions, dimensions)]
    names = [str(d) for d in dimensions]
    N, cell = len(names), 40
    ticks = word_ticks(names, cell, 6)
    figure = go.Figure(
        go.Heatmap(
            z=shown,
            zmin=-1,
            zmax=1,
            colorscale=diverging(theme),
            showscale=False,
            xgap=1,
            ygap=1,
            text=[["" if v == 0 else number(v, 2) for v in line] for line in np.round(shown, 4)],
            hovertemplate="row %{y}, column %{x}: <b>%{z:.4f}</b><extra></extra>",
        ),
        layout(
            theme,
            f"R, for k = {k}",
            f"{N} of its {len(matrix)} rows and columns",
            height=86 + cell * N + 16,
        ),
    )
    figure.add_trace(cell_numbers(figure.data[0], 12))
    figure.update_layout(
        width=max(60 + cell * N + 12, 340),
        margin={"l": 60, "r": 12, "t": 86, "b": 16},
        xaxis={**ticks, **framed_axis(theme), "side": "top", "tickangle": 0},
        yaxis={
            **ticks,
            **framed_axis(theme),
            "range": ticks["range"][::-1],
            "title": {"text": "dimension"},
        },
    )
    return figure


def circles_figure(
    table: NDArray, position: int, k: int, dimensions: Sequence[int], theme: str
) -> go.Figure:
    """Draw pairs of dimensions as points on circles: PE(p) → PE(p+k) rotates each pair.

    `table` is [length, d_model]; `dimensions` are the even dimensions of the pairs.
    """
    palette = PALETTES[theme]
    figure = go.Figure(
        layout=layout(
            theme,
            f"From pos {position} to pos {position + k}",
            "each pair of dimensions (sin, cos) turns by k · 2π / λ",
            height=290,
        )
    )
    columns = len(dimensions)
    base = figure.layout.xaxis.to_plotly_json()
    for i, even in enumerate(dimensions):
        name = "" if i == 0 else str(i + 1)
        figure.update_layout(
            {
                f"xaxis{name}": {
                    **base,
                    "domain": [i / columns + 0.01, (i + 1) / columns - 0.01],
                    "range": [-1.25, 1.25],
                    "tickvals": [],
                    "anchor": f"y{name}",
                },
                f"yaxis{name}": {
                    **base,
                    "range": [-1.25, 1.25],
                    "tickvals": [],
                    "scaleanchor": f"x{name}",
                    "anchor": f"x{name}",
                },
            }
        )
        figure.add_annotation(  # axis titles would be at different heights
            text=f"{even} and {even + 1}<br>λ = {wavelength_words(even, table.shape[1])}",
            x=(i + 0.5) / columns,
            y=0,
            xref="paper",
            yref="paper",
            xanchor="center",
            yanchor="top",
            showarrow=False,
            font={"size": 12, "color": palette.second},
        )
        turn = np.linspace(0, 2 * np.pi, 90)
        axes = {"xaxis": f"x{name}", "yaxis": f"y{name}"}
        figure.add_trace(curve(np.cos(turn), np.sin(turn), palette.line, 1, **axes))
        sine, cosine = table[:, even], table[:, even + 1]
        start = np.arctan2(sine[position], cosine[position])
        angle = 2 * np.pi * k / wavelength(even, table.shape[1])
        arc = start + np.linspace(0, angle, max(2, int(24 * abs(angle)) + 2))
        arc = arc[:400]
        figure.add_trace(curve(1.1 * np.cos(arc), 1.1 * np.sin(arc), palette.third, 1.5, **axes))
        for at, symbol in ((position, "circle-open"), (position + k, "circle")):
            figure.add_trace(
                go.Scatter(
                    x=[cosine[at]],
                    y=[sine[at]],
                    **axes,
                    mode="markers",
                    marker=marker_style(11, palette.ink, symbol),
                    hovertemplate=f"pos {at}: sin %{{y:.4f}}, cos %{{x:.4f}}<extra></extra>",
                )
            )
    figure.update_layout(margin={"l": 12, "r": 12, "t": 70, "b": 48})
    return figure


def lengths_figure(sums: Sums, words: Sequence[str], theme: str) -> go.Figure:
    """Draw the norms of each token's embedding, its positional encoding, and their sum."""
    palette = PALETTES[theme]
    N = len(words)
    ticks, bottom, pitch = words_below(words, _LONGEST)
    figure = go.Figure(
        layout=layout(
            theme,
            "How long the vectors are",
            "bar: embedding; dash: position; dot: their sum",
            height=round(72 + 190 + bottom),
        )
    )
    size = float(np.clip(pitch * 0.4, 5, 9))
    shown = [tick(word) for word in words]
    data = np.array(
        list(zip(shown, sums.content, sums.position, sums.total, sums.cosine, strict=True)),
        dtype=object,
    )
    hover = (
        "<b>%{customdata[0]}</b><br>embedding: %{customdata[1]:.3f}<br>"
        "position: %{customdata[2]:.3f}<br>sum: %{customdata[3]:.3f}<br>"
        "cosine of embedding and sum: %{customdata[4]:.4f}<extra></extra>"
    )
    figure.add_trace(
        go.Bar(
            x=np.arange(N),
            y=sums.content,
            width=0.62,
            marker={"color": palette.line, "line": {"width": 0}},
            customdata=data,
            hovertemplate=hover,
        )
    )
    for values, symbol, wide in (
        (sums.position, "line-ew-open", 2 * size),
        (sums.total, "circle", size),
    ):
        figure.add_trace(
            go.Scatter(
                x=np.arange(N),
                y=values,
                mode="markers",
                marker=marker_style(wide, palette.ink, symbol),
                hoverinfo="skip",
            )
        )
    figure.update_layout(
        margin={"l": 60, "r": 12, "t": 72, "b": bottom},
        xaxis=ticks,
        yaxis={
            "title": {"text": "length of the vector"},
            "rangemode": "tozero",
            **ruled_axis(theme),
        },
    )
    return figure


def plane_figure(sums: Sums, words: Sequence[str], theme: str) -> go.Figure:
    """Draw tokens on the first two principal components: ring = embedding, dot = sum.

    Zooming is enabled, as similar tokens lie close together.
    """
    palette = PALETTES[theme]
    N = len(words)
    shown = [tick(word, _LONGEST) for word in words]
    scale = [[0, sequential(theme)[9][1]], [1, sequential(theme)[30][1]]]
    figure = go.Figure(
        layout=layout(
            theme,
            "The tokens in two dimensions",
            "ring: embedding; dot: with its position (stronger colour: later in the "
            "sentence)<br>"
            f"principal components of both: {percent(sums.explained)} of their variance",
            height=_PLANE + 84 + 48,
        )
    )
    sides = _label_sides(sums, words)
    path = np.stack([sums.before, sums.after, np.full((N, 2), np.nan)], axis=1).reshape(-1, 2)
    figure.add_trace(curve(path[:, 0], path[:, 1], palette.third, 1))
    for points, where, marker in (
        (sums.before, "embedding alone", {"symbol": "circle-open", "color": palette.third}),
        (
            sums.after,
            "with its position",
            {"color": np.arange(N), "colorscale": scale, "line": {"width": 0}},
        ),
    ):
        figure.add_trace(
            go.Scatter(
                x=points[:, 0],
                y=points[:, 1],
                mode="markers" if points is sums.before else "markers+text",
                marker={"size": 8, **marker},
                text=shown,
                textposition=sides,
                textfont={"size": 12 if N <= 30 else FLOOR, "color": palette.ink},
                cliponaxis=False,
                customdata=shown,
                hovertemplate=f"<b>%{{customdata}}</b>, {where}<br>%{{x:.3f}}, %{{y:.3f}}"
                "<extra></extra>",
            )
        )
    grid = {**ruled_axis(theme, 6), "fixedrange": False}
    figure.update_layout(
        dragmode="zoom",
        margin={"l": 56, "r": 40, "t": 84, "b": 48},
        xaxis={**grid, "title": {"text": "first component"}},
        yaxis={**grid, "title": {"text": "second component"}, "scaleanchor": "x"},
    )
    return figure


def _label_sides(sums: Sums, words: Sequence[str]) -> list[str]:
    """Choose for each label the side where it overlaps dots and earlier labels least."""
    every = np.concatenate([sums.before, sums.after])
    width, height = np.ptp(every, axis=0) + 1e-9
    px = min(NARROW / width, _PLANE / height)
    dots = every * px
    taken: list[tuple[float, float, float, float]] = [(x - 5, x + 5, y - 5, y + 5) for x, y in dots]
    sides = []
    for (x, y), word in zip(sums.after * px, words, strict=True):
        half = 3.4 * min(len(word), _LONGEST)
        boxes = {
            "middle right": (x + 6, x + 6 + 2 * half, y - 7, y + 7),
            "middle left": (x - 6 - 2 * half, x - 6, y - 7, y + 7),
            "top center": (x - half, x + half, y + 5, y + 19),
            "bottom center": (x - half, x + half, y - 19, y - 5),
            "top right": (x + 3, x + 3 + 2 * half, y + 3, y + 17),
            "top left": (x - 3 - 2 * half, x - 3, y + 3, y + 17),
            "bottom right": (x + 3, x + 3 + 2 * half, y - 17, y - 3),
            "bottom left": (x - 3 - 2 * half, x - 3, y - 17, y - 3),
        }
        side = min(boxes, key=lambda name: sum(_overlap(boxes[name], box) for box in taken))
        taken.append(boxes[side])
        sides.append(side)
    return sides


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> float:
    """Return the overlap area of two boxes (left, right, low, high)."""
    return max(0.0, min(a[1], b[1]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[2], b[2]))
