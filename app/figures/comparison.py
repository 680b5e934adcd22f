"""Draws comparisons of two models: token log-probabilities, training curves, matched heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from app.figures.grid import Axes, cell_size, colour_bar_below, empty_grid
from app.figures.style import escape, layout, ruled_axis, sequential, tick, words_below
from app.look.labels import ATTENTION, labels
from app.look.numbers import number
from app.look.palette import PALETTES
from core.analysis.matching import Matching
from core.record.record import TranslationRecord

_LONGEST = 12  # characters of a label; the hover shows the whole word


def scores_figure(record: TranslationRecord, lowest: float, title: str, theme: str) -> go.Figure:
    """Draw the log-probability of each target token as bars from 0 down to `lowest`."""
    palette = PALETTES[theme]
    words = labels(record.target_out, 1)
    ticks, bottom, _ = words_below(words, _LONGEST, 330)
    total = number(record.log_prob, 3)
    subtitle = f"log-probability of the translation: {total} ({len(words)} tokens)"
    figure = go.Figure(
        go.Bar(
            x=np.arange(len(words)),
            y=record.log_probs,
            customdata=[
                [tick(word), float(np.exp(score))]
                for word, score in zip(words, record.log_probs, strict=True)
            ],
            marker={"color": palette.third, "line": {"width": 0}},
            hovertemplate="%{customdata[0]}<br>probability <b>%{customdata[1]:.4f}</b>, "
            "log-probability %{y:.3f}"
            "<extra></extra>",
        ),
        layout(theme, escape(title), subtitle, height=round(76 + 170 + bottom)),
    )
    figure.update_layout(
        bargap=0.35,
        margin={"l": 62, "r": 8, "t": 76, "b": bottom},
        xaxis=ticks,
        yaxis={
            "range": [1.08 * min(lowest, -0.1), 0],
            "title": {"text": "log-probability (nats)"},
            **ruled_axis(theme),
        },
    )
    return figure


def curves_figure(curves: Mapping[str, Sequence[Mapping[str, Any]]], theme: str) -> go.Figure:
    """Draw training (points) and validation loss (line) by step for one or two named models.

    The second model is dashed and grey, so that both are visible where they coincide.
    """
    palette = PALETTES[theme]
    below = 58 + 42 * len(curves)  # on a phone, every name in the legend takes a line
    figure = go.Figure(
        layout=layout(
            theme,
            "Training",
            "nats per token; the training loss includes dropout and label smoothing",
            height=66 + 190 + below,
        )
    )
    figure.update_layout(
        margin={"l": 60, "r": 20, "t": 66, "b": below},
        showlegend=True,
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": -52 / 190,
            "yanchor": "top",
            "bgcolor": "rgba(0,0,0,0)",
            "font": {"size": 13, "color": palette.second},
            "itemclick": False,
            "itemdoubleclick": False,
        },
        xaxis={"title": {"text": "optimiser step"}, "tickformat": ",d"},
        yaxis={
            "title": {"text": "loss"},
            **ruled_axis(theme, 6),
            "rangemode": "tozero",
        },
    )
    looks = ((palette.ink, "solid", "circle-open"), (palette.third, "6px,6px", "x-thin-open"))
    for (colour, dash, symbol), (name, curve) in zip(looks, curves.items(), strict=False):
        line = {"color": colour, "width": 2, "dash": dash}
        for which, words, style in (
            ("val_loss", "validation", {"mode": "lines", "line": line}),
            (
                "train_loss",
                "training",
                {
                    "mode": "markers",
                    "marker": {
                        "size": 6,
                        "symbol": symbol,
                        "color": colour,
                        "line": {"width": 1.25, "color": colour},
                    },
                },
            ),
        ):
            figure.add_trace(
                go.Scatter(
                    x=[point["step"] for point in curve],
                    y=[point[which] for point in curve],
                    name=f"{escape(name)}: {words}",
                    hovertemplate="%{fullData.name}, step %{x:,d}: <b>%{y:.4f}</b><extra></extra>",
                    **style,
                )
            )
    return figure


def matching_figure(matching: Matching, kind: str, theme: str) -> go.Figure:
    """Draw how similar each head is to each head of the second model; rings mark the matches."""
    palette = PALETTES[theme]
    N = len(matching.partner)
    names = [f"{n // matching.heads + 1}.{n % matching.heads + 1}" for n in range(N)]
    figure = empty_grid(
        Axes(names, names, "first model: layer.head", "second model: layer.head"),
        f"Heads of the {ATTENTION[kind]}, matched",
        f"{matching.kept} of {N} are matched to the head with the same number",
        theme,
    )
    figure.add_trace(
        go.Heatmap(
            z=matching.similarity,
            xaxis="x2",
            yaxis="y2",
            zmin=0,
            zmax=1,
            colorscale=sequential(theme),
            colorbar=colour_bar_below(
                figure, "attention in common", [0, 0.5, 1], ["0", "0.5", "1"], theme
            ),
            hovertemplate="first: layer.head %{y}<br>second: layer.head %{x}<br>"
            "attention in common: <b>%{z:.4f}</b><extra></extra>",
        )
    )
    cell = cell_size(figure, N)
    for colour, size, width in ((palette.ink, cell, 2.0), (palette.page, cell - 4, 1.5)):
        figure.add_trace(  # a dark and a light ring, so that one is visible on any cell
            go.Scatter(
                x=list(matching.partner),
                y=list(range(N)),
                xaxis="x2",
                yaxis="y2",
                mode="markers",
                hoverinfo="skip",
                marker={
                    "symbol": "square-open",
                    "size": max(4.0, size),
                    "line": {"width": width, "color": colour},
                    "color": colour,
                },
            )
        )
    return figure
