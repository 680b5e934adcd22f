"""What every figure shares: palette, colour scales, token labels, and the common layout."""

from __future__ import annotations

import html
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.record.record import RecordToken

FONT = '"Source Sans", sans-serif'  # Streamlit's own
FLOOR = 10.5  # px: no label is smaller
CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "showSendToCloud": False,
    "modeBarButtons": [["toImage"]],
    "toImageButtonOptions": {"format": "svg", "filename": "headlight"},
}
"""For st.plotly_chart: one button, which saves the picture."""


@dataclass(frozen=True)
class Palette:
    """The page's colours; colour beyond ink and grey is for data only."""

    page: str
    ink: str
    second: str
    third: str
    line: str
    hairline: str
    hatch: str
    hatch_ground: str


PALETTES = {
    "light": Palette(
        page="#ffffff",
        ink="#1f2328",
        second="#5b6068",
        third="#6f747c",
        line="#d9dade",
        hairline="#e8e9ec",
        hatch="#b9bcc3",
        hatch_ground="#f1f1f2",
    ),
    "dark": Palette(
        page="#111317",
        ink="#eceded",
        second="#abafb7",
        third="#868b94",
        line="#363a42",
        hairline="#272a31",
        hatch="#4b4f58",
        hatch_ground="#1a1c20",
    ),
}

Colourscale = list[list[Any]]
_STOPS = 33  # between them plotly mixes in RGB: close enough that no eye sees the difference


def sequential(theme: str) -> Colourscale:
    """One blue for weights 0–1, lightness linear in OKLab: zero is almost the page."""
    t = np.linspace(0, 1, _STOPS)
    if theme == "light":
        colours = _oklch(0.972 - 0.692 * t, 0.006 + 0.132 * _bell(t, 0.55, 0.74), 255 + 8 * t)
    else:
        colours = _oklch(0.222 + 0.748 * t, 0.012 + 0.128 * _bell(t, 0.5, 0.12), 262 - 22 * t)
    return _scale(t, colours)


def diverging(theme: str) -> Colourscale:
    """Orange below zero, blue above, the page between; the middle stop is zero."""
    zero, below, above = {
        "light": (0.955, (0.60, 0.13, 55), (0.50, 0.15, 258)),
        "dark": (0.27, (0.80, 0.13, 65), (0.76, 0.12, 255)),
    }[theme]
    t = np.linspace(-1, 1, _STOPS)
    size = np.abs(t)
    lightness, chroma, hue = (np.where(t < 0, n, p) for n, p in zip(below, above, strict=True))
    return _scale((t + 1) / 2, _oklch(zero + (lightness - zero) * size, chroma * size, hue))


def _bell(t: NDArray, peak: float, end: float) -> NDArray:
    """Chroma rises to its peak and falls: neither end of a blue scale can hold much of it."""
    falling = 1 - (1 - end) * (np.maximum(t - peak, 0) / (1 - peak)) ** 1.4
    return np.where(t < peak, np.sin(t / peak * np.pi / 2), falling)


def _oklch(lightness: NDArray, chroma: NDArray, hue_degrees: NDArray) -> NDArray:
    """OKLCH → sRGB 0–255 [..., 3] (Björn Ottosson, "A perceptual color space", 2020)."""
    a = chroma * np.cos(np.radians(hue_degrees))
    b = chroma * np.sin(np.radians(hue_degrees))
    cubes = np.stack(
        [
            (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3,
            (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3,
            (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3,
        ],
        axis=-1,
    )
    to_linear = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.707614701],
        ]
    )
    linear = np.clip(cubes @ to_linear.T, 0, 1)
    gamma = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.round(255 * np.clip(gamma, 0, 1)).astype(int)


def _scale(t: NDArray, colours: NDArray) -> Colourscale:
    return [
        [float(at), f"rgb({r},{g},{b})"] for at, (r, g, b) in zip(t, colours.tolist(), strict=True)
    ]


def escape(text: str) -> str:
    """Text as plotly shows it literally: no tag, no entity and no TeX in it is parsed."""
    return html.escape(text, quote=False).replace("$", "&#36;")


def label(token: RecordToken) -> str:
    """A token as a person can see it, not yet escaped: hidden characters show as ‹U+200B›."""
    text = token.text.encode("utf-8", "replace").decode()  # half a surrogate pair becomes ?
    if not text.strip(" "):
        return "␣" * max(1, len(text))
    return "".join(
        f"‹U+{ord(character):04X}›" if _hidden(text, i) else character
        for i, character in enumerate(text)
    )


def labels(tokens: Sequence[RecordToken], first_number: int) -> list[str]:
    """The tokens' labels, with repeated words told apart by their number: in₃ … in₉.

    `first_number` is the first token's: 1 for a source, 0 for a target fed in, which opens with
    <bos>.
    """
    plain = [label(token) for token in tokens]
    counts = Counter(plain)
    return [
        text if counts[text] == 1 else text + str(first_number + i).translate(_SUBSCRIPT)
        for i, text in enumerate(plain)
    ]


def tick(text: str, longest: int = 60) -> str:
    """A label ready for plotly: cut at `longest` characters, right-to-left isolated, escaped."""
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text):
        text = f"\u2066{text}\u2069"  # must not reorder the words beside it
    return escape(text)


_SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
# Unicode's default-ignorable characters that are not of category Cf, and the empty Braille cell.
_IGNORABLE = {
    *(0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0xFE00, 0xFE10),
    *range(0xE0100, 0xE01F0),
}


def _hidden(text: str, i: int) -> bool:
    """Whether a character shows nothing; an emoji's joiners and selectors show as the emoji."""
    if not _invisible(text[i]):
        return False
    if 0xFE00 <= ord(text[i]) < 0xFE10:
        return i == 0 or _invisible(text[i - 1])
    joins = text[i] == "\u200d" and 0 < i < len(text) - 1
    return not (joins and _pictograph(text[i - 1]) and _pictograph(text[i + 1]))


def _invisible(character: str) -> bool:
    category = unicodedata.category(character)
    blank = category in ("Cc", "Cf", "Zl", "Zp") or (category == "Zs" and character != " ")
    return blank or ord(character) in _IGNORABLE


def _pictograph(character: str) -> bool:
    return unicodedata.category(character) in ("So", "Sk") or character == "\ufe0f"


def layout(theme: str, title: str, subtitle: str, height: int) -> dict[str, Any]:
    """The layout that all figures start from: words in the page's font and inks, nothing else."""
    palette = PALETTES[theme]
    axis = {
        "showgrid": False,
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "fixedrange": True,
        "tickfont": {"color": palette.second, "size": 13},
        "title": {"font": {"color": palette.second, "size": 13}, "standoff": 10},
    }
    return {
        "template": "none",
        "height": height,
        "paper_bgcolor": palette.page,
        "plot_bgcolor": palette.page,
        "font": {"family": FONT, "size": 13, "color": palette.ink},
        "title": {
            "text": title,
            "font": {"size": 16, "weight": 600, "color": palette.ink},
            "subtitle": {"text": subtitle, "font": {"size": 13, "color": palette.second}},
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
            "bgcolor": palette.page,
            "bordercolor": palette.third,
            "font": {"family": FONT, "size": 14, "color": palette.ink},
            "align": "left",
            "namelength": 0,
        },
        "xaxis": axis,
        "yaxis": axis,
    }


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
