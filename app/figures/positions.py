"""Draws the positional encodings of one pass: table, waves, dot products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.figures.style import (
    colour_bar,
    curve,
    diverging,
    empty_trace,
    escape,
    hover_axis,
    layout,
    ruled_axis,
    text_width,
    tick,
    word_ticks,
    words_below,
)
from app.lessons.texts import rules
from app.look.labels import labels
from app.look.numbers import number, scientific
from app.look.palette import PALETTES
from core.analysis.position_table import products_by_distance
from core.record.record import RecordToken

_LONGEST = 18  # characters of a label


def wavelength(dimension: int, d_model: int) -> float:
    """Return the period of dimension 2i or 2i + 1, in positions: 2π · 10000^(2i/d_model)."""
    return float(2 * np.pi * 10_000 ** (dimension // 2 * 2 / d_model))


def sinusoids(positions: NDArray, d_model: int) -> NDArray[np.float64]:
    """Evaluate the formula of paper §3.5 at real-valued positions [N]; return [N, d_model]."""
    angle = 2 * np.pi * positions[:, None] / [wavelength(d, d_model) for d in range(d_model)]
    return np.where(np.arange(d_model) % 2 == 0, np.sin(angle), np.cos(angle))


def sinusoid_table(length: int, d_model: int) -> NDArray[np.float32]:
    """Return the first rows of the sinusoidal table, [length, d_model]."""
    return sinusoids(np.arange(length), d_model).astype(np.float32)


def is_sinusoidal(table: NDArray) -> bool:
    """Return whether a table [length, d_model] is the paper's sinusoidal one."""
    formula = sinusoids(np.arange(len(table)), table.shape[1])
    return bool(np.abs(table - formula).max() < rules("positions")["sinusoidal"])


def sample_dimensions(d_model: int) -> tuple[int, ...]:
    """Return a few even (sine) dimensions, from the fastest wave to the slowest."""
    dimensions = (0, d_model // 8, d_model // 4, d_model // 2, d_model - 2)
    return tuple(sorted({dimension // 2 * 2 for dimension in dimensions}))


def table_figure(
    positions: NDArray[np.float32],
    tokens: Sequence[RecordToken] | None,
    theme: str,
    title: str = "What is added to each token",
    first: int = 1,
) -> go.Figure:
    """Draw the vectors added to the embeddings, [length, d_model], on a zero-centred scale.

    Without tokens, rows are labelled by pos alone; `first` is the first token's number.
    """
    length, d_model = positions.shape
    words = (
        [f"pos {n}" for n in range(length)] if tokens is None else position_labels(tokens, first)
    )
    row = float(np.clip(420 / length, 5, 24))
    ticks = word_ticks(words, row, _LONGEST)
    limit = float(np.abs(positions).max())
    paper = is_sinusoidal(positions)
    across = np.arange(0, d_model, max(2, d_model // 8))
    top = 118 if paper else 80
    figure = go.Figure(
        go.Heatmap(
            z=positions,
            xaxis="x2",
            yaxis="y2",
            zmin=-limit,
            zmax=limit,
            colorscale=diverging(theme),
            colorbar=colour_bar((0, 1), [-limit, 0, limit], _ends(limit), theme, "value added"),
            hovertemplate="%{y}<br>%{x}<br><b>%{z:.4f}</b><extra></extra>",
        ),
        layout(
            theme,
            escape(title),
            f"float32 [position, dimension] = [{length}, {d_model}]",
            height=round(top + row * length + 52),
        ),
    )
    figure.add_trace(empty_trace("x"))
    axis_range = [-0.5, d_model - 0.5]
    named = [_dimension_name(d, d_model, paper) for d in range(d_model)]
    if paper:
        quarters = across[::2]
        waves = [number(wavelength(int(d), d_model), 0) for d in quarters]
        figure.update_layout(
            xaxis3={
                **hover_axis(named, "x"),
                "side": "top",
                "showticklabels": True,
                "tickvals": quarters,
                "ticktext": waves,
                "tickangle": 0,
                "tickfont": {"size": 13, "color": PALETTES[theme].second},
                "title": {
                    "text": "wavelength of the dimension, in positions",
                    "font": {"size": 13, "color": PALETTES[theme].second},
                    "standoff": 8,
                },
            }
        )
        figure.add_trace(empty_trace("x3"))
    figure.update_layout(
        margin={"l": _left(words, ticks), "r": 90, "t": top, "b": 52},
        xaxis={
            "range": axis_range,
            "tickmode": "array",
            "tickvals": across,
            "title": {"text": "dimension: even = sine, odd = cosine" if paper else "dimension"},
        },
        yaxis={
            **ticks,
            "range": ticks["range"][::-1],
            "title": {"text": "pos" if tokens is None else "pos and its token"},
        },
        xaxis2={**hover_axis(named, "x"), "side": "top"},
        yaxis2={**hover_axis(words, "y"), "range": ticks["range"][::-1], "side": "right"},
    )
    return figure


def waves_figure(
    positions: NDArray[np.float32],
    tokens: Sequence[RecordToken],
    dimensions: Sequence[int],
    theme: str,
    first: int = 1,
) -> go.Figure:
    """Draw some columns of the table against position, one below the other.

    Dots are the values of this pass. The line is the paper's formula if the table follows it;
    otherwise it connects the dots.
    """
    length, d_model = positions.shape
    palette = PALETTES[theme]
    words = position_labels(tokens, first)
    ticks, below, pitch = words_below(words, _LONGEST)
    bottom = 30 + below
    strip, top = 64, 76
    paper = is_sinusoidal(positions)
    limit = float(np.abs(positions).max())
    line_x, lines = np.arange(length), positions
    if paper:
        line_x = np.linspace(0, length - 1, max(2, min(1200, 16 * length)))
        lines = sinusoids(line_x, d_model)
    figure = go.Figure(
        layout=layout(
            theme,
            "Some waves",
            "dots: values added in this pass · line: the formula between them"
            if paper
            else "dots: values added in this pass (learned, so there is no formula)",
            height=round(top + strip * len(dimensions) + bottom),
        )
    )
    figure.update_layout(margin={"l": 60, "r": 150, "t": top, "b": bottom})
    base = figure.layout.yaxis.to_plotly_json()
    for place, dimension in enumerate(dimensions):
        end = 1 - place / len(dimensions)
        name = "" if place == 0 else str(place + 1)
        figure.update_layout(
            {
                f"yaxis{name}": {
                    **base,
                    "domain": [end - 0.86 / len(dimensions), end],
                    "range": [-1.25 * limit, 1.25 * limit],
                    "tickvals": [-limit, 0, limit],
                    "ticktext": _ends(limit),
                    "tickfont": {"size": 10.5, "color": palette.third},
                    "zeroline": True,
                    "zerolinecolor": palette.line,
                    "anchor": "x",
                }
            }
        )
        figure.add_trace(curve(line_x, lines[:, dimension], palette.third, yaxis=f"y{name}"))
        figure.add_trace(
            go.Scatter(
                x=np.arange(length),
                y=positions[:, dimension],
                yaxis=f"y{name}",
                mode="markers",
                customdata=[tick(word) for word in words],
                marker={
                    "size": float(np.clip(pitch * 0.55, 5, 9)),
                    "color": positions[:, dimension],
                    "cmin": -limit,
                    "cmax": limit,
                    "colorscale": diverging(theme),
                    "line": {"width": 1, "color": palette.second},
                },
                hovertemplate=f"%{{customdata}}<br>dimension {dimension}: "
                "<b>%{y:.4f}</b><extra></extra>",
            )
        )
        figure.add_annotation(
            text=_dimension_name(dimension, d_model, paper).replace(", ", "<br>"),
            x=1,
            xref="paper",
            xshift=12,
            xanchor="left",
            align="left",
            y=0,
            yref=f"y{name}",
            showarrow=False,
            font={"size": 13, "color": palette.second},
        )
    figure.update_layout(
        xaxis={
            **ticks,
            "anchor": "free",
            "position": 0,
            "title": {"text": "pos and its token"},
        }
    )
    return figure


def dot_product_figure(positions: NDArray[np.float32], theme: str) -> go.Figure:
    """Draw PE(p)·PE(q) of all pairs of positions against their distance q − p.

    Dots are means over the pairs at one distance; error bars span minimum to maximum. For
    sinusoids they have zero length, as the product depends on the distance alone.
    """
    length, d_model = positions.shape
    palette = PALETTES[theme]
    distance, mean, low, high = products_by_distance(positions)
    paper = is_sinusoidal(positions)
    spread = float((high - low).max())
    figure = go.Figure(
        layout=layout(
            theme,
            "Dot products PE(p) · PE(q)",
            f"pairs at the same distance differ by up to about {scientific(spread)}",
            height=340,
        )
    )
    figure.update_layout(
        margin={"l": 70, "r": 20, "t": 76, "b": 52},
        xaxis={
            "range": [-length + 0.5, length - 0.5],
            "title": {"text": "distance q − p, in positions"},
        },
        yaxis={
            "title": {"text": "dot product"},
            "zeroline": True,
            "zerolinecolor": palette.line,
            "range": [1.15 * min(0.0, float(low.min())), 1.15 * float(high.max())],
            **ruled_axis(theme),
        },
    )
    if paper:
        dense = np.linspace(-length + 1, length - 1, min(2000, 24 * length))
        rates = [2 * np.pi / wavelength(d, d_model) for d in range(0, d_model, 2)]
        figure.add_trace(curve(dense, np.cos(dense[:, None] * rates).sum(-1), palette.third))
    figure.add_trace(
        go.Scatter(
            x=distance,
            y=mean,
            mode="markers",
            error_y={
                "type": "data",
                "symmetric": False,
                "array": high - mean,
                "arrayminus": mean - low,
                "color": palette.third,
                "thickness": 1.25,
                "width": 3,
                "visible": spread > 1e-3 * max(1.0, float(np.abs(mean).max())),
            },
            marker={"size": float(np.clip(300 / length, 4, 8)), "color": palette.ink},
            customdata=np.stack([length - np.abs(distance), low, high], axis=-1),
            hovertemplate="distance %{x}: <b>%{y:.3f}</b><br>pairs: %{customdata[0]}, from "
            "%{customdata[1]:.3f} to %{customdata[2]:.3f}<extra></extra>",
        )
    )
    if paper:
        figure.add_annotation(
            text=f"{d_model // 2} · (sin² + cos²) = {d_model // 2}",
            x=0,
            y=d_model / 2,
            xanchor="left",
            xshift=8,
            yshift=12,
            showarrow=False,
            font={"size": 13, "color": palette.second},
        )
    return figure


def position_labels(tokens: Sequence[RecordToken], first: int) -> list[str]:
    """Return each token's label after its pos in the formula, counted from 0: pos 1 Mann₂.

    `first` is the first token's number: 1 for a source, 0 for a target fed in.
    """
    return [f"pos {pos} {word}" for pos, word in enumerate(labels(tokens, first))]


def _left(words: Sequence[str], ticks: dict) -> float:
    return text_width(words, ticks["tickfont"]["size"], _LONGEST) + 44


def _ends(limit: float) -> list[str]:
    return [f"−{limit:.2g}", "0", f"{limit:.2g}"]


def wavelength_words(dimension: int, d_model: int) -> str:
    """Format a wavelength with at least three digits: 6.28, 62.8, 54,410."""
    value = wavelength(dimension, d_model)
    return number(value, max(0, 2 - int(np.log10(value))))


def _dimension_name(dimension: int, d_model: int, paper: bool) -> str:
    if not paper:
        return f"dimension {dimension}"
    wave = "sine" if dimension % 2 == 0 else "cosine"
    return f"dimension {dimension}: {wave}, wavelength {wavelength_words(dimension, d_model)}"
