"""Draws experiments: probabilities before and after an intervention, and curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from app.figures.style import (
    curve,
    escape,
    layout,
    marker_style,
    ruled_axis,
    signed_colours,
    tick,
    words_below,
)
from app.look.palette import PALETTES

_LONGEST = 14
_PLOT = 180  # px high


def change_figure(
    words: Sequence[str],
    before: NDArray,
    after: NDArray,
    names: tuple[str, str],
    title: str,
    theme: str,
    control: tuple[str, NDArray] | None = None,
) -> go.Figure:
    """Draw each token's probability before (bar) and after (dot); blue = gain, orange = loss.

    `control`, a name and values that should equal `before`, is drawn as a tick on each bar.
    """
    palette = PALETTES[theme]
    N = len(words)
    ticks, bottom, pitch = words_below(words, _LONGEST)
    lost, gained = signed_colours(theme)
    legend = [f"bar: {names[0]}", f"dot: {names[1]} (blue: more, orange: less)"]
    if control is not None:
        legend.insert(1, f"tick: {control[0]}")
    figure = go.Figure(
        layout=layout(
            theme,
            escape(title),
            "<br>".join(legend),
            height=round(64 + 18 * len(legend) + _PLOT + bottom),
        )
    )
    x = np.arange(N)
    data = np.array(
        list(zip(map(tick, words), before, after, after - before, strict=True)), dtype=object
    )
    hover = (
        "<b>%{customdata[0]}</b><br>"
        f"{names[0]}: %{{customdata[1]:.4f}}<br>{names[1]}: %{{customdata[2]:.4f}}<br>"
        "change: <b>%{customdata[3]:+.4f}</b><extra></extra>"
    )
    figure.add_trace(
        go.Bar(
            x=x,
            y=before,
            name=names[0],
            marker={"color": palette.line, "line": {"width": 0}},
            width=0.62,
            customdata=data,
            hovertemplate=hover,
        )
    )
    for wanted, colour in ((after >= before, gained), (after < before, lost)):
        at = x[wanted]
        rises = np.column_stack([before[at], after[at], np.full(len(at), np.nan)]).ravel()
        figure.add_trace(curve(np.repeat(at, 3), rises, colour, 3))
        figure.add_trace(
            go.Scatter(
                x=at,
                y=after[at],
                mode="markers",
                marker=marker_style(float(np.clip(pitch * 0.4, 5, 9)), colour),
                customdata=data[at],  # a very low bar is hard to hover
                hovertemplate=hover,
            )
        )
    if control is not None:
        figure.add_trace(
            go.Scatter(
                x=x,
                y=control[1],
                name=control[0],
                mode="markers",
                marker=marker_style(
                    float(np.clip(pitch * 0.4, 6, 16)), palette.ink, "line-ew-open"
                ),
                hoverinfo="skip",
            )
        )
    figure.update_layout(
        margin={"l": 56, "r": 12, "t": 64 + 18 * len(legend), "b": bottom},
        xaxis=ticks,
        yaxis={
            "range": [0, 1.04],
            "tickvals": [0, 0.5, 1],
            "title": {"text": "probability"},
            **ruled_axis(theme),
        },
    )
    return figure


def cheating_figure(
    steps: Sequence[int],
    masked: Sequence[float],
    opened: Sequence[float],
    last_step: int,
    chance: float,
    theme: str,
) -> go.Figure:
    """Draw the next token's mean probability by training step, with and without the mask."""
    palette = PALETTES[theme]
    figure = go.Figure(
        layout=layout(
            theme,
            "Two networks learn to predict random tokens",
            f"mean probability of the next token; guessing gives {chance:.4g}",
            height=300,
        )
    )
    figure.add_hline(y=chance, line={"color": palette.line, "width": 1, "dash": "dash"})
    for name, values, colour in (
        ("with the causal mask", masked, palette.ink),
        ("without", opened, signed_colours(theme)[0]),
    ):
        line = _dotted_line(list(steps), list(values), colour, 5, f"{name}, step %{{x}}: ")
        figure.add_trace(line.update(name=name))
        if len(values):
            figure.add_annotation(
                x=steps[-1],
                y=values[-1],
                text=f"{name}: {values[-1]:.3f}",
                xanchor="right",
                yanchor="bottom" if values[-1] < 0.5 else "top",
                yshift=8 if values[-1] < 0.5 else -8,
                showarrow=False,
                font={"size": 13, "color": palette.second},
            )
    return _with_probability_axes(figure, "training step", [0, last_step], theme)


def extrapolation_figure(
    shift: NDArray, probability: NDArray, longest: int, theme: str
) -> go.Figure:
    """Draw the mean probability of a translation's tokens against the shift of all positions.

    A dashed line marks `longest`, the largest shift whose positions all occurred in training.
    """
    palette = PALETTES[theme]
    figure = go.Figure(
        _dotted_line(shift, probability, palette.ink, 6, "all positions + %{x}: mean probability "),
        layout(
            theme,
            "The same sentence at later positions",
            "mean probability of its translation's tokens",
            height=300,
        ),
    )
    figure.add_vline(x=longest, line={"color": palette.third, "width": 1, "dash": "dash"})
    figure.add_annotation(
        x=longest,
        y=0.04,
        text="from here on, the last positions were never seen in training",
        xanchor="left",
        xshift=6,
        yanchor="bottom",
        showarrow=False,
        font={"size": 13, "color": palette.second},
    )
    return _with_probability_axes(figure, "k, added to every position", [0, int(shift[-1])], theme)


def _dotted_line(x: ArrayLike, y: ArrayLike, colour: str, size: int, hover: str) -> go.Scatter:
    """Return a line with dots; `hover` is the text before the value."""
    return go.Scatter(
        x=x,
        y=y,
        mode="lines+markers",
        line={"color": colour, "width": 2},
        marker={"size": size, "color": colour},
        hovertemplate=f"{hover}<b>%{{y:.4f}}</b><extra></extra>",
    )


def _with_probability_axes(figure: go.Figure, x: str, across: list[int], theme: str) -> go.Figure:
    extra = 0.02 * (across[1] - across[0])
    return figure.update_layout(
        margin={"l": 60, "r": 16, "t": 66, "b": 48},
        xaxis={"title": {"text": x}, "range": [across[0] - extra, across[1] + extra]},
        yaxis={
            "title": {"text": "probability"},
            "range": [0, 1.04],
            "tickvals": [0, 0.5, 1],
            **ruled_axis(theme),
        },
    )
