"""Shared styling: colours that depend on the theme, escaped labels, ticks of words."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def _scale(colours: NDArray) -> Colourscale:
    at = np.linspace(0, 1, _STOPS).tolist()
    return [[t, f"rgb({r},{g},{b})"] for t, (r, g, b) in zip(at, colours.tolist(), strict=True)]


_SCALES = {"sequential": sequential, "diverging": diverging}


@dataclass(frozen=True)
class Ink:
    """A colour that is known once a theme is chosen.

    `name` is a field of the palette, or a colour scale: all of it, or its colour at a `stop` from
    0 to 32, with an `opacity` below 1 where colours overlap.
    """

    name: str
    stop: int | None = None
    opacity: float = 1.0

    def of(self, theme: str) -> Any:
        """Return this colour, or colour scale, in a theme."""
        if self.name not in _SCALES:
            return getattr(PALETTES[theme], self.name)
        scale = _SCALES[self.name](theme)
        if self.stop is None:
            return scale
        colour = scale[self.stop][1]
        return colour if self.opacity == 1 else f"rgba{colour[3:-1]},{self.opacity})"


INK, SECOND, THIRD, LINE, PAGE = map(Ink, ("ink", "second", "third", "line", "page"))
BELOW, ABOVE = Ink("diverging", 4), Ink("diverging", 28)
"""The colours of negative and of positive marks."""


def by_sign(values: Sequence[float] | NDArray) -> list[Ink]:
    """Return the colours of marks: orange below 0, blue from 0."""
    return [ABOVE if value >= 0 else BELOW for value in values]


def shade(share: float) -> Ink:
    """Return the blue of a weight from 0 to 1."""
    return Ink("sequential", round(share * (_STOPS - 1)))


def themed(value: Any, theme: str) -> Any:
    """Replace each `Ink` in nested dictionaries and lists by its colour."""
    if isinstance(value, Ink):
        return value.of(theme)
    if isinstance(value, dict):
        return {name: themed(inner, theme) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [themed(inner, theme) for inner in value]
    return value


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


def small(size: float, colour: Ink = SECOND) -> dict[str, Any]:
    """Return a font of `size` px."""
    return {"size": size, "color": colour}


FRAMED: dict[str, Any] = {"showline": True, "mirror": True, "linecolor": LINE}
"""Axis properties that draw a line on both sides of the plot."""

AXIS = {
    **BARE,
    "showline": False,
    "tickfont": small(13),
    "title": {"font": small(13), "standoff": 10},
}
"""The properties of the first two axes of every figure."""


def layout(height: float) -> dict[str, Any]:
    """Return the base layout of all figures: the page's font and colours, no decoration."""
    return {
        "template": "none",
        "height": round(height),
        "paper_bgcolor": PAGE,
        "plot_bgcolor": PAGE,
        "font": {"family": FONT, **small(13, INK)},
        "margin": {"autoexpand": False},
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": False,
        "hoverlabel": {
            "bgcolor": PAGE,
            "bordercolor": THIRD,
            "font": {"family": FONT, **small(14, INK)},
            "align": "left",
            "namelength": 0,
        },
        "xaxis": AXIS,
        "yaxis": AXIS,
    }


def heading(title: str, subtitle: str) -> dict[str, Any]:
    """Return the layout of a title and, below it, a subtitle, which may have several lines."""
    return {
        "text": escape(title),
        "font": {"weight": 600, **small(16, INK)},
        "subtitle": {"text": escape(subtitle).replace("\n", "<br>"), "font": small(13)},
        "x": 0,
        "xref": "container",
        "xanchor": "left",
        "y": 1,
        "yref": "container",
        "yanchor": "top",
        "pad": {"t": 8},
    }


def colour_bar(
    domain: tuple[float, float], values: Sequence[float], texts: Sequence[str], word: str = ""
) -> dict[str, Any]:
    """Return a flat colour bar right of the plot; `domain` is its vertical range (0–1)."""
    low, high = domain
    inside = 1 - 1e-4  # plotly drops a tick that rounding puts past the bar's end
    place = {"x": 1, "xpad": 8, "y": (low + high) / 2, "yanchor": "middle", "len": high - low}
    ticks = [value * inside if value else value for value in values]
    return _flat_bar(ticks, texts, word, "right") | place


def colour_bar_below(
    plot: float, values: Sequence[float], texts: Sequence[str], word: str
) -> dict[str, Any]:
    """Return a flat colour bar below a plot of `plot` px, as wide as the plot."""
    place = {"orientation": "h", "x": 0, "xpad": 0, "y": -8 / plot, "yanchor": "top", "len": 1}
    return _flat_bar(list(values), texts, word, "bottom") | place


def _flat_bar(ticks: Sequence[float], texts: Sequence[str], word: str, side: str) -> dict[str, Any]:
    return {
        "xanchor": "left",
        "ypad": 0,
        "lenmode": "fraction",  # of the plot, which is narrower on a phone
        "thickness": 8,
        "outlinewidth": 0,
        "tickvals": ticks,
        "ticktext": list(texts),
        "tickfont": small(12),
        "title": {"text": word, "side": side, "font": small(12)},
    }


def word_ticks(words: Sequence[str], pitch: float, longest: int) -> dict[str, Any]:
    """Return ticks 0, 1, 2 … labelled with words, `pitch` px apart; skip some if too dense.

    A word may have several lines.
    """
    size = min(13.0, max(FLOOR, 0.86 * pitch))
    shown = range(0, len(words), int(np.ceil(0.95 * size / pitch)))
    return {
        "tickmode": "array",
        "tickvals": list(shown),
        "ticktext": [
            "<br>".join(tick(line, longest) for line in words[i].split("\n")) for i in shown
        ],
        "tickfont": {"size": size},
        "range": [-0.5, len(words) - 0.5],
    }


def text_width(words: Sequence[str], size: float, longest: int) -> float:
    """Estimate the width in px of the longest line, cut to `longest` characters."""
    lines = (line for word in words for line in word.split("\n"))
    return 0.54 * size * max(min(len(line), longest) for line in lines)
