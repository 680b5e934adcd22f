"""Draws two models beside each other: maps and differences, token scores, curves, matched heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.figures.grid import Axes, bar_beneath, cell_size, frame, hatching
from app.figures.masks import closed_cells
from app.figures.style import (
    diverging,
    escape,
    hover_axis,
    layout,
    nothing,
    ruled,
    sequential,
    text_width,
    tick,
    word_ticks,
    words_below,
)
from app.look.labels import labels
from app.look.numbers import number, scientific
from app.look.palette import PALETTES
from core.analysis.matching import Matching
from core.record.record import TranslationRecord

_LONGEST = 12  # characters of a label beside a map; the hover shows all of it
_GRID = 264  # px for a map: three of them stand beside each other on a large screen, one on a phone


def row_words(record: TranslationRecord, kind: str) -> list[str]:
    """What stands beside the rows of a kind's maps: the token read, or the token produced."""
    return labels(record.source, 1) if kind == "encoder" else labels(record.target_out, 1)


def column_words(record: TranslationRecord, kind: str) -> list[str]:
    """What stands above the columns of a kind's maps: source tokens, or the tokens fed in."""
    return labels(record.target_in, 0) if kind == "decoder" else labels(record.source, 1)


def map_figure(
    record: TranslationRecord, kind: str, layer: int, head: int, title: str, theme: str
) -> go.Figure:
    """One head's weights [query, key] on the scale 0 to 1 that all maps share."""
    figure = _grid(record, kind, title, f"{kind}, layer {layer + 1}, head {head + 1}", theme)
    figure.add_trace(
        go.Heatmap(
            z=record.maps(kind)[layer, head],
            xaxis="x2",
            yaxis="y2",
            zmin=0,
            zmax=1,
            colorscale=sequential(theme),
            colorbar=_bar(figure, theme, "weight", [0, 0.5, 1], ["0", "0.5", "1"]),
            hovertemplate="%{y}<br>%{x}<br>weight <b>%{z:.7f}</b><extra></extra>",
        )
    )
    _hatch_closed(figure, record, kind, theme)
    return figure


def difference_figure(
    record: TranslationRecord,
    kind: str,
    first: NDArray[np.float32],
    second: NDArray[np.float32],
    limit: float,
    theme: str,
) -> go.Figure:
    """First minus second [query, key], zero-centred on −limit … limit; the bar states the limit.

    `record` gives the words and the mask. The subtitle names the largest difference of this map.
    """
    difference = first.astype(np.float64) - second
    largest = float(np.abs(difference).max())
    subtitle = f"largest in this map: {scientific(largest)}"
    figure = _grid(record, kind, "First − second", subtitle, theme)
    inside = limit * (1 - 1e-4)  # plotly leaves out a tick that rounding puts beyond the bar's end
    ends = [f"−{scientific(limit)}", "0", scientific(limit)]
    figure.add_trace(
        go.Heatmap(
            z=difference,
            customdata=np.stack([first, second], axis=-1),
            xaxis="x2",
            yaxis="y2",
            zmin=-limit,
            zmax=limit,
            colorscale=diverging(theme),
            colorbar=_bar(figure, theme, "difference", [-inside, 0, inside], ends),
            hovertemplate="%{y}<br>%{x}<br>%{customdata[0]:.7f} − %{customdata[1]:.7f}"
            "<br>= <b>%{z:.2e}</b><extra></extra>",
        )
    )
    _hatch_closed(figure, record, kind, theme)
    return figure


def scores_figure(record: TranslationRecord, lowest: float, title: str, theme: str) -> go.Figure:
    """The log-probability of each token of a record's target, as bars down from 0 to `lowest`."""
    palette = PALETTES[theme]
    words = labels(record.target_out, 1)
    ticks, bottom, _ = words_below(words, _LONGEST, 330)
    whole = number(record.log_prob, 3)
    subtitle = f"log-probability of the whole: {whole} ({len(words)} tokens)"
    figure = go.Figure(
        go.Bar(
            x=np.arange(len(words)),
            y=record.log_probs,
            customdata=[
                [tick(word), float(np.exp(score))]
                for word, score in zip(words, record.log_probs, strict=True)
            ],
            marker={"color": palette.third, "line": {"width": 0}},
            hovertemplate="%{customdata[0]}<br>log p = <b>%{y:.4f}</b>, p = %{customdata[1]:.4f}"
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
            "title": {"text": "log p, in nats"},
            **ruled(theme),
        },
    )
    return figure


def curves_figure(curves: Mapping[str, Sequence[Mapping[str, Any]]], theme: str) -> go.Figure:
    """Training and validation loss against step, of one or two models by name.

    The first is drawn in ink, the second dashed and in grey, so that both are seen where they are
    equal; validation as a line, training as points.
    """
    palette = PALETTES[theme]
    below = 58 + 42 * len(curves)  # on a phone every name in the legend takes a line
    figure = go.Figure(
        layout=layout(
            theme,
            "Training",
            "nats a token; training has dropout and smoothed labels",
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
            **ruled(theme, 6),
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
    """How alike every head of the first is to every head of the second; the pairs are ringed."""
    palette = PALETTES[theme]
    N = len(matching.partner)
    names = [f"{n // matching.heads + 1}.{n % matching.heads + 1}" for n in range(N)]
    figure = frame(
        Axes(names, names, "first model: layer.head", "second model: layer.head"),
        f"Heads of {kind} attention, matched",
        f"{matching.kept} of {N} belong to their own number",
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
            colorbar=bar_beneath(
                figure, "attention in common", [0, 0.5, 1], ["0", "0.5", "1"], theme
            ),
            hovertemplate="first: layer.head %{y}<br>second: layer.head %{x}<br>"
            "attention in common: <b>%{z:.4f}</b><extra></extra>",
        )
    )
    cell = cell_size(figure, N)
    for colour, size, width in ((palette.ink, cell, 2.0), (palette.page, cell - 4, 1.5)):
        figure.add_trace(  # two rings, dark and light: one of them shows on any cell
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


def _grid(record: TranslationRecord, kind: str, title: str, subtitle: str, theme: str) -> go.Figure:
    """The frame of a map without its cells: words on both axes, room for a bar beneath."""
    palette = PALETTES[theme]
    rows, columns = row_words(record, kind), column_words(record, kind)
    cell = int(np.clip(_GRID / max(len(rows), len(columns)), 6, 24))
    row_ticks, column_ticks = (word_ticks(words, cell, _LONGEST) for words in (rows, columns))
    above = text_width(columns, column_ticks["tickfont"]["size"], _LONGEST) + 12
    left = text_width(rows, row_ticks["tickfont"]["size"], _LONGEST) + 34
    top = 60 + 26 + above
    width, height = cell * len(columns), cell * len(rows)
    frame = {"showline": True, "mirror": True, "linecolor": palette.line}
    row_side = record.source_language if kind == "encoder" else record.target_language
    column_side = record.target_language if kind == "decoder" else record.source_language
    figure = go.Figure(
        layout=layout(theme, escape(title), subtitle, height=round(top + height + 66))
    )
    figure.update_layout(
        width=round(max(left + width + 12, 340)),
        margin={"l": left, "t": top, "b": 66, "r": max(12, 340 - left - width)},
        barmode="overlay",
        bargap=0,
        xaxis={
            **column_ticks,
            **frame,
            "side": "top",
            "tickangle": -90,
            "title": {"text": f"column: {column_side} looked at", "standoff": 6},
        },
        yaxis={
            **row_ticks,
            **frame,
            "range": row_ticks["range"][::-1],
            "title": {
                "text": f"row: {row_side} {'that looks' if kind == 'encoder' else 'produced'}",
                "standoff": 6,
            },
        },
        xaxis2={**hover_axis([f"looks at {w}" for w in columns], "x"), "side": "top"},
        yaxis2={
            **hover_axis(
                [w if kind == "encoder" else f"producing {w}" for w in rows],
                "y",
            ),
            "range": row_ticks["range"][::-1],
            "side": "right",
        },
    )
    figure.add_trace(nothing())
    return figure


def _bar(
    figure: go.Figure, theme: str, words: str, values: list[float], texts: list[str]
) -> dict[str, Any]:
    """A flat colour bar under a figure's grid, as wide as the grid."""
    palette, margin = PALETTES[theme], figure.layout.margin
    width = figure.layout.width - margin.l - margin.r
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
        "len": width,
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


def _hatch_closed(figure: go.Figure, record: TranslationRecord, kind: str, theme: str) -> None:
    """Hatch over the closed cells, on the axes of the weights: forbidden is not unused."""
    for reason, closed in closed_cells(record, kind).items():
        figure.add_trace(hatching(closed, reason, "/", theme).update(xaxis="x2", yaxis="y2"))
