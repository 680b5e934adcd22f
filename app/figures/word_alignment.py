"""Draws a word alignment: source words left, target words right, and a line for each link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from app.figures.style import BARE, escape, layout, signed_colours, text_width, tick
from app.look.palette import PALETTES

_ROW = 24  # px per word of the longer side
_LONGEST = 16  # characters of a word
_WIDTHS = 1.0, 5.0  # px of a line: for the value 0, and for the largest value


def alignment_figure(
    source: Sequence[str],
    target: Sequence[str],
    values: Mapping[tuple[int, int], float],
    texts: Mapping[tuple[int, int], str],
    languages: tuple[str, str],
    title: str,
    subtitle: str,
    theme: str,
) -> go.Figure:
    """Draw links (source word, target word) as lines; a larger value makes a thicker line.

    Both sides fill the height, so a translation in the same order has nearly parallel lines.
    `texts` are the values as hover text.
    """
    ink = PALETTES[theme]
    blue = signed_colours(theme)[1]
    rows = [(np.arange(len(words)) + 0.5) / max(1, len(words)) for words in (source, target)]
    most = max(values.values(), default=0) or 1.0
    thin, thick = _WIDTHS
    figure = go.Figure(
        [
            go.Scatter(
                x=[0, 1],
                y=[rows[0][s], rows[1][t]],
                mode="lines+markers",
                line={"color": blue, "width": thin + (thick - thin) * value / most},
                marker={"color": blue, "size": 6},
                customdata=[f"{tick(source[s])} – {tick(target[t])}: <b>{escape(texts[s, t])}</b>"]
                * 2,
                hovertemplate="%{customdata}<extra></extra>",
            )
            for (s, t), value in sorted(values.items())
        ],
        layout(
            theme,
            escape(title),
            escape(subtitle),
            height=96 + _ROW * max(len(source), len(target), 1),
        ),
    )
    # Plotly draws an axis and its labels only if it has a trace.
    figure.add_trace(go.Scatter(x=[None], y=[None], yaxis="y2", hoverinfo="skip"))
    left, right = (
        {
            **BARE,
            "tickmode": "array",
            "tickvals": at.tolist(),
            "ticktext": [tick(word, _LONGEST) for word in words],
            "tickfont": {"size": 13, "color": ink.ink},
            "range": [1, 0],
        }
        for at, words in zip(rows, (source, target), strict=True)
    )
    sides = [f"source: {languages[0]}", f"target: {languages[1]}"]
    return figure.update_layout(
        margin={
            "l": 24 + text_width([*source, "x"], 13, _LONGEST),
            "r": 24 + text_width([*target, "x"], 13, _LONGEST),
            "t": 84,
            "b": 12,
        },
        xaxis={
            **BARE,
            "side": "top",
            "tickmode": "array",
            "tickvals": [0, 1],
            "ticktext": sides,
            "range": [-0.04, 1.04],
        },
        yaxis=left,
        yaxis2={**right, "overlaying": "y", "side": "right"},
    )
