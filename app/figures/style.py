"""Shared plotly styling: colour scales, escaped labels, axes, layout."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from app.look import palette
from app.look.palette import PALETTES

FONT = '"Source Sans", sans-serif'  # Streamlit's own
FLOOR = 10.5  # px: minimum label size
NARROW = 620  # px: plot width on a small desktop screen; label sizes are chosen for it
CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "showSendToCloud": False,
    "modeBarButtons": [["toImage"]],
    "toImageButtonOptions": {"format": "svg", "filename": "headlight"},
}
"""Plotly configuration for `st.plotly_chart`: the only button saves the figure."""

BARE = {"showgrid": False, "zeroline": False, "ticks": "", "fixedrange": True}
"""Axis properties: no lines, no tick marks, no zooming."""

Colourscale = list[list[Any]]
_STOPS = 33  # plotly interpolates between them in RGB, with no visible difference


def sequential(theme: str) -> Colourscale:
    """Return the blue scale for weights 0–1."""
    return _scale(palette.sequential(np.linspace(0, 1, _STOPS), theme))


def diverging(theme: str) -> Colourscale:
    """Return the orange–blue scale; its middle stop is zero."""
    return _scale(palette.diverging(np.linspace(-1, 1, _STOPS), theme))


def signed_colours(theme: str) -> tuple[str, str]:
    """Return the colours of negative and of positive bars."""
    scale = diverging(theme)
    return scale[4][1], scale[28][1]


def _scale(colours: NDArray) -> Colourscale:
    at = np.linspace(0, 1, _STOPS).tolist()
    return [[t, f"rgb({r},{g},{b})"] for t, (r, g, b) in zip(at, colours.tolist(), strict=True)]


def escape(text: str) -> str:
    """Escape text so that plotly shows it literally: no tags, entities or TeX.

    Plotly uses labels as keys of plain objects, so `__proto__` is escaped too.
    """
    shown = html.escape(text, quote=False).replace("$", "&#36;")
    return shown.replace("__proto__", "&#95;_proto__")


def tick(text: str, longest: int = 60) -> str:
    """Return a label for plotly: cut to `longest` characters, bidi-isolated, escaped."""
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text):
        text = f"\u2066{text}\u2069"  # keep right-to-left text from reordering its neighbours
    return escape(text)


def layout(theme: str, title: str, subtitle: str, height: int) -> dict[str, Any]:
    """Return the base layout of all figures: the page's font and colours, no decoration."""
    inks = PALETTES[theme]
    axis = {
        **BARE,
        "showline": False,
        "tickfont": {"color": inks.second, "size": 13},
        "title": {"font": {"color": inks.second, "size": 13}, "standoff": 10},
    }
    return {
        "template": "none",
        "height": height,
        "paper_bgcolor": inks.page,
        "plot_bgcolor": inks.page,
        "font": {"family": FONT, "size": 13, "color": inks.ink},
        "title": {
            "text": title,
            "font": {"size": 16, "weight": 600, "color": inks.ink},
            "subtitle": {"text": subtitle, "font": {"size": 13, "color": inks.second}},
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 8},
        },
        "margin": {"l": 60, "r": 20, "t": 80, "b": 50, "autoexpand": False},
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": False,
        "hoverlabel": {
            "bgcolor": inks.page,
            "bordercolor": inks.third,
            "font": {"family": FONT, "size": 14, "color": inks.ink},
            "align": "left",
            "namelength": 0,
        },
        "xaxis": axis,
        "yaxis": axis,
    }


def framed_axis(theme: str) -> dict[str, Any]:
    """Return axis properties that draw a line on both sides of the plot."""
    return {"showline": True, "mirror": True, "linecolor": PALETTES[theme].line}


def ruled_axis(theme: str, ticks: int = 5) -> dict[str, Any]:
    """Return axis properties for thin grid lines at about `ticks` ticks."""
    return {"showgrid": True, "gridcolor": PALETTES[theme].hairline, "nticks": ticks}


def empty_trace(xaxis: str = "x") -> go.Scatter:
    """Return an empty trace: plotly draws an axis and its labels only if it has a trace."""
    return go.Scatter(x=[None], y=[None], xaxis=xaxis, hoverinfo="skip")


def marker_style(size: float, colour: str, symbol: str = "circle") -> dict[str, Any]:
    """Return marker properties; open symbols get an outline."""
    line = {"width": 2 if symbol.endswith("open") else 0, "color": colour}
    return {"symbol": symbol, "size": size, "color": colour, "line": line}


def curve(x: ArrayLike, y: ArrayLike, colour: str, width: float = 1.25, **axes: str) -> go.Scatter:
    """Return a line without hover text."""
    line = {"color": colour, "width": width}
    return go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", **axes)


def colour_bar(
    domain: tuple[float, float], values: list[float], texts: list[str], theme: str, word: str = ""
) -> dict[str, Any]:
    """Return a flat colour bar right of the plot; `domain` is its vertical range (0–1)."""
    low, high = domain
    inside = 1 - 1e-4  # plotly drops a tick that rounding puts past the bar's end
    small = {"size": 12, "color": PALETTES[theme].second}
    return {
        "x": 1,
        "xanchor": "left",
        "xpad": 8,
        "y": (low + high) / 2,
        "yanchor": "middle",
        "ypad": 0,
        "lenmode": "fraction",
        "len": high - low,
        "thickness": 8,
        "outlinewidth": 0,
        "tickvals": [value * inside if value else value for value in values],
        "ticktext": texts,
        "tickfont": small,
        "title": {"text": word, "side": "right", "font": small},
    }


def word_ticks(words: Sequence[str], pitch: float, longest: int) -> dict[str, Any]:
    """Return ticks 0, 1, 2 … labelled with words, `pitch` px apart; skip some if too dense."""
    size = min(13.0, max(FLOOR, 0.86 * pitch))
    step = int(np.ceil(0.95 * size / pitch))
    shown = range(0, len(words), step)
    return {
        "tickmode": "array",
        "tickvals": list(shown),
        "ticktext": [tick(words[i], longest) for i in shown],
        "tickfont": {"size": size},
        "range": [-0.5, len(words) - 0.5],
    }


def words_below(
    words: Sequence[str], longest: int, width: float = NARROW
) -> tuple[dict[str, Any], float, float]:
    """Return vertical labels under a plot: their ticks, their height in px, their pitch in px."""
    pitch = width / len(words)
    ticks = word_ticks(words, pitch, longest)
    below = 16 + text_width(words, ticks["tickfont"]["size"], longest)
    return {**ticks, "tickangle": -90}, below, pitch


def hover_axis(words: Sequence[str], overlaying: str) -> dict[str, Any]:
    """Return an invisible overlay axis that gives hovers the uncut word as %{x} or %{y}."""
    return {
        **BARE,
        "overlaying": overlaying,
        "tickmode": "array",
        "tickvals": list(range(len(words))),
        "ticktext": [tick(word) for word in words],
        "showticklabels": False,
        "range": [-0.5, len(words) - 0.5],
    }


def text_width(words: Sequence[str], size: float, longest: int) -> float:
    """Estimate the width in px of the longest word, cut to `longest` characters."""
    return 0.54 * size * max(min(len(word), longest) for word in words)
