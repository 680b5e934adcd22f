"""What every figure shares: colour scales, words that plotly shows literally, axes, layout."""

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
FLOOR = 10.5  # px: no label is smaller
NARROW = 620  # px that a plot has on a small desktop screen; labels are set for it
CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "showSendToCloud": False,
    "modeBarButtons": [["toImage"]],
    "toImageButtonOptions": {"format": "svg", "filename": "headlight"},
}
"""For st.plotly_chart: one button, which saves the picture."""


Colourscale = list[list[Any]]
_STOPS = 33  # between them plotly mixes in RGB: close enough that no eye sees the difference


def sequential(theme: str) -> Colourscale:
    """The palette's blue for weights 0–1."""
    return _scale(palette.sequential(np.linspace(0, 1, _STOPS), theme))


def diverging(theme: str) -> Colourscale:
    """The palette's orange and blue; the middle stop is zero."""
    return _scale(palette.diverging(np.linspace(-1, 1, _STOPS), theme))


def _scale(colours: NDArray) -> Colourscale:
    at = np.linspace(0, 1, _STOPS).tolist()
    return [[t, f"rgb({r},{g},{b})"] for t, (r, g, b) in zip(at, colours.tolist(), strict=True)]


def escape(text: str) -> str:
    """Text as plotly shows it literally: no tag, no entity and no TeX in it is parsed.

    Plotly looks labels up by their text in plain objects, of which `__proto__` is another one.
    """
    shown = html.escape(text, quote=False).replace("$", "&#36;")
    return shown.replace("__proto__", "&#95;_proto__")


def tick(text: str, longest: int = 60) -> str:
    """A label ready for plotly: cut at `longest` characters, right-to-left isolated, escaped."""
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text):
        text = f"\u2066{text}\u2069"  # must not reorder the words beside it
    return escape(text)


def layout(theme: str, title: str, subtitle: str, height: int) -> dict[str, Any]:
    """The layout that all figures start from: words in the page's font and inks, nothing else."""
    inks = PALETTES[theme]
    axis = {
        "showgrid": False,
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "fixedrange": True,
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


def framed(theme: str) -> dict[str, Any]:
    """A line on both sides of an axis."""
    return {"showline": True, "mirror": True, "linecolor": PALETTES[theme].line}


def ruled(theme: str, ticks: int = 5) -> dict[str, Any]:
    """Thin lines across the plot, at about so many ticks."""
    return {"showgrid": True, "gridcolor": PALETTES[theme].hairline, "nticks": ticks}


def nothing(xaxis: str = "x") -> go.Scatter:
    """An empty trace: plotly draws no axis, and none of its words, that has none."""
    return go.Scatter(x=[None], y=[None], xaxis=xaxis, hoverinfo="skip")


def dots(size: float, colour: str, symbol: str = "circle") -> dict[str, Any]:
    """Markers; an open symbol is drawn with a line of its own."""
    line = {"width": 2 if symbol.endswith("open") else 0, "color": colour}
    return {"symbol": symbol, "size": size, "color": colour, "line": line}


def curve(x: ArrayLike, y: ArrayLike, colour: str, width: float = 1.25, **axes: str) -> go.Scatter:
    """A line that does not answer to the pointer."""
    line = {"color": colour, "width": width}
    return go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", **axes)


def beside(
    domain: tuple[float, float], values: list[float], texts: list[str], theme: str, word: str = ""
) -> dict[str, Any]:
    """A flat colour bar to the right of `domain`, a part of the plot's height from 0 to 1."""
    low, high = domain
    inside = 1 - 1e-4  # plotly leaves out a tick that rounding puts beyond the bar's end
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
    """Ticks at 0, 1, 2 … that show the words, `pitch` px apart; too close, some are left out."""
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
    """Upright words under a plot `width` px wide: ticks, px that they take, px between two."""
    pitch = width / len(words)
    ticks = word_ticks(words, pitch, longest)
    below = 16 + text_width(words, ticks["tickfont"]["size"], longest)
    return {**ticks, "tickangle": -90}, below, pitch


def hover_axis(words: Sequence[str], overlaying: str) -> dict[str, Any]:
    """An unseen axis over another, whose %{x} or %{y} in a hover is the whole word of a cell."""
    return {
        "overlaying": overlaying,
        "tickmode": "array",
        "tickvals": list(range(len(words))),
        "ticktext": [tick(word) for word in words],
        "showticklabels": False,
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
        "fixedrange": True,
        "range": [-0.5, len(words) - 0.5],
    }


def text_width(words: Sequence[str], size: float, longest: int) -> float:
    """About how many px the longest of the words takes, cut at `longest` characters."""
    return 0.54 * size * max(min(len(word), longest) for word in words)
