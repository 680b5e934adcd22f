"""Draws masks and the reason for each masked cell, and one row from scores to weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.figures.grid import (
    Axes,
    add_hatching,
    cell_numbers,
    cell_size,
    empty_grid,
    filled_cells,
    hatched_bars,
)
from app.figures.style import (
    FLOOR,
    colour_bar,
    diverging,
    escape,
    layout,
    sequential,
    text_width,
    tick,
    word_ticks,
)
from app.look.numbers import number
from app.look.palette import PALETTES

FUTURE = "the future: written later"
PADDING = "padding: not part of the sentence"
BOTH = "padding, and in the future"
_OTHER = "masked"
_HATCH = {FUTURE: "/", PADDING: "\\", BOTH: "x"}
_LETTER = {FUTURE: "f", PADDING: "p", BOTH: "pf"}
_LONGEST = 12
_BAR = 74  # px from the strips to the second colour bar

Bools = NDArray[np.bool_]


def reasons(padding: Bools, causal: Bools) -> dict[str, Bools]:
    """Return the masked cells [query, key] by reason, from two masks (True = may attend)."""
    by_reason = {FUTURE: padding & ~causal, PADDING: ~padding & causal, BOTH: ~padding & ~causal}
    return {reason: where for reason, where in by_reason.items() if where.any()}


def mask_figure(
    mask: Bools, masked: dict[str, Bools], axes: Axes, title: str, subtitle: str, theme: str
) -> go.Figure:
    """Draw a boolean mask [query, key] (True = may attend); hatch each masked cell by reason.

    `masked` holds the masked cells by reason, as returned by `reasons`.
    """
    palette = PALETTES[theme]
    figure = empty_grid(axes, title, subtitle, theme)
    figure.update_layout(plot_bgcolor=palette.hairline)  # visible between unmasked cells
    cell = cell_size(figure, len(axes.columns))
    gap = 1 if cell >= 12 else 0  # lines between smaller cells would grey the whole grid
    figure.add_trace(
        filled_cells(mask, palette.page, gap, "%{y}<br>may look at <b>%{x}</b><br>M = 0")
    )
    add_hatching(figure, masked, theme, _HATCH)
    for reason, where in masked.items():
        hover = f"%{{y}}<br>may not look at <b>%{{x}}</b><br>{reason}, M = −∞"
        figure.add_trace(filled_cells(where, "rgba(0,0,0,0)", 0, hover))
        if cell > 11.5:
            row, column = np.nonzero(where)
            figure.add_trace(
                go.Scatter(
                    x=column,
                    y=row,
                    xaxis="x2",  # above the hatching
                    yaxis="y2",
                    text=[_LETTER[reason]] * len(row),
                    mode="text",
                    textfont={"size": FLOOR, "color": palette.second},
                    hoverinfo="skip",
                )
            )
    return figure


def row_figure(
    scores: NDArray,
    masked: NDArray,
    weights: NDArray,
    mask: Bools,
    fill: str,
    keys: Sequence[str],
    title: str,
    theme: str,
) -> go.Figure:
    """Draw one row of a head in three strips: scores [keys], masked scores, softmax weights.

    Both strips of scores share one zero-centred scale; weights range from 0 to 1. Masked cells are
    hatched from the second strip on; `fill` is the mask value written in them.
    """
    palette = PALETTES[theme]
    K = len(keys)
    width = float(np.clip(860 / K, 12, 60))
    ticks = word_ticks(keys, width, _LONGEST)
    above = 0.8 * text_width(keys, ticks["tickfont"]["size"], _LONGEST) + 12
    top, row, left = 62 + above, 44, 118
    names = ["score q·k/√dₖ", "after the mask", "after softmax"]
    figure = go.Figure(
        layout=layout(
            theme,
            escape(title),
            "hatched: masked · scores orange below 0, blue above · weights 0 to 1",
            height=round(top + 3 * row + 16),
        )
    )
    figure.update_layout(
        width=round(left + width * K + 2 * _BAR),
        margin={"l": left, "t": top, "b": 16, "r": 2 * _BAR},
        barmode="overlay",
        bargap=0,
        xaxis={**ticks, "side": "top", "tickangle": -45 if width >= 21 else -90},
        yaxis={
            "tickmode": "array",
            "tickvals": [0, 1, 2],
            "ticktext": names,
            "range": [2.5, -0.5],
        },
    )
    limit = float(np.abs(scores).max()) or 1.0
    nothing = np.full(K, np.nan)
    after = np.where(mask, masked, np.nan)
    words = [tick(key) for key in keys]
    ends = [number(value, 1) for value in (-limit, 0, limit)]
    for rows, low, high, scale, digits, bar in (
        (
            [scores, after, nothing],
            -limit,
            limit,
            diverging(theme),
            1,
            colour_bar((0.02, 0.98), [-limit, 0, limit], ends, theme, "score"),
        ),
        (
            [nothing, nothing, np.where(mask, weights, np.nan)],
            0.0,
            1.0,
            sequential(theme),
            2,
            {**colour_bar((0.02, 0.98), [0, 1], ["0", "1"], theme, "weight"), "xpad": _BAR},
        ),
    ):
        figure.add_trace(
            go.Heatmap(
                z=np.stack(rows),
                zmin=low,
                zmax=high,
                colorscale=scale,
                colorbar=bar,
                xgap=1,
                ygap=6,
                hoverongaps=False,
                customdata=np.array([words] * 3, dtype=object),
                text=[[number(value, digits) for value in line] for line in rows],
                hovertemplate="%{customdata}<br><b>%{z:.4f}</b><extra></extra>",
            )
        )
    hidden = np.stack([np.zeros(K, bool), ~mask, ~mask])
    figure.add_trace(hatched_bars(hidden, _OTHER, "/", theme).update(width=0.86))
    figure.add_trace(_run_labels(~mask, {1: fill, 2: "0"}, palette.second))
    if width >= 30:
        figure.add_traces([cell_numbers(heat, 12) for heat in figure.data[:2]])
    return figure


def _run_labels(masked: Bools, texts: dict[int, str], colour: str) -> go.Scatter:
    """Label the masked cells of some rows: one text per run of cells, in its middle."""
    edges = np.diff(np.pad(masked, 1).astype(np.int8))
    starts, ends = np.nonzero(edges == 1)[0], np.nonzero(edges == -1)[0] - 1
    spots = [
        ((start + end) / 2, row, text if start == end else f"{text} each")
        for row, text in texts.items()
        for start, end in zip(starts, ends, strict=True)
    ]
    return go.Scatter(
        x=[x for x, _, _ in spots],
        y=[y for _, y, _ in spots],
        text=[text for _, _, text in spots],
        mode="text",
        textfont={"size": 13, "color": colour},
        hoverinfo="skip",
    )
