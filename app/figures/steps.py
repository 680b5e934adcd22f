"""Draws the cross-attention of every decoder head for one produced token."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from app.figures.grid import colour_bar_below
from app.figures.style import layout, sequential, text_width, tick, word_ticks
from app.look.labels import labels
from app.look.palette import PALETTES
from core.record.record import TranslationRecord

_LONGEST = 14  # characters of a column label; the hover shows the whole word
_WIDTH = 560


def heads_figure(record: TranslationRecord, theme: str) -> go.Figure:
    """Draw each head's last row of cross-attention, and the mean: [layers × heads + 1, source]."""
    palette = PALETTES[theme]
    L, H, _, S = record.cross.shape
    weights = record.cross[:, :, -1].reshape(L * H, S)
    rows = [*(f"{i // H + 1}.{i % H + 1}" for i in range(L * H)), "mean"]
    words = labels(record.source, 1)
    pitch = float(np.clip(340 / len(rows), 11, 20))
    cell = float(np.clip(_WIDTH / S, 7, 34))
    columns = word_ticks(words, cell, _LONGEST)
    row_ticks = word_ticks(rows, pitch, _LONGEST + 6)
    top = round(text_width(words, columns["tickfont"]["size"], _LONGEST) * 0.85 + 26 + 74)
    figure = go.Figure(
        layout=layout(
            theme,
            "Cross-attention at this step",
            "one row per head; last row: mean of all heads",
            round(top + pitch * len(rows) + 62),
        )
    )
    figure.update_layout(
        width=max(round(70 + cell * S + 40), 320),
        margin={"l": 70, "r": max(40, 320 - round(70 + cell * S)), "t": top, "b": 62},
        plot_bgcolor=palette.page,
        xaxis={
            **columns,
            "side": "top",
            "tickangle": -60 if cell < 24 else -45,
            "title": {"text": "key: source token", "standoff": 4},
        },
        yaxis={
            **row_ticks,
            "range": row_ticks["range"][::-1],
            "title": {"text": "layer.head", "standoff": 4},
        },
        # Lines between layers, and above the mean.
        shapes=[
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": at - 0.5,
                "y1": at - 0.5,
                "line": {"color": palette.third, "width": 1},
            }
            for at in range(H, L * H + 1, H)
        ],
    )
    figure.add_trace(
        go.Heatmap(
            z=np.concatenate([weights, weights.mean(0, keepdims=True)]),
            text=[[f"{row}: weight on <b>{tick(word)}</b>" for word in words] for row in rows],
            colorscale=sequential(theme),
            zmin=0,
            zmax=1,
            colorbar=colour_bar_below(figure, "weight", [0, 0.5, 1], ["0", "0.5", "1"], theme),
            xgap=1,
            ygap=1,
            hovertemplate="%{text}<br><b>%{z:.4f}</b><extra></extra>",
        )
    )
    return figure
