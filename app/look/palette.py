"""Colours of the page, and the sequential and diverging colour scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Palette:
    """Colours of a theme; hues are reserved for data."""

    page: str
    ink: str
    second: str
    third: str
    line: str
    hairline: str
    control: str
    """Border of buttons and inputs: contrast 3:1 against the page."""
    selected: str
    well: str
    focus: str
    wrong: str
    hatch: str
    hatch_ground: str
    masked: str
    """Masked cells too small for hatching: a grey outside the weight scale."""
    left_out: str
    """Hidden columns: another grey outside the weight scale."""


PALETTES = {
    "light": Palette(
        page="#ffffff",
        ink="#1f2328",
        second="#5b6068",
        third="#6f747c",
        line="#d9dade",
        hairline="#e8e9ec",
        control="#85898f",
        selected="#ebecee",
        well="#f4f5f7",
        focus="#1d5fb8",
        wrong="#b35a00",
        hatch="#b9bcc3",
        hatch_ground="#f1f1f2",
        masked="#e2e3e6",
        left_out="#aaadb4",
    ),
    "dark": Palette(
        page="#111317",
        ink="#eceded",
        second="#abafb7",
        third="#868b94",
        line="#363a42",
        hairline="#272a31",
        control="#6c717a",
        selected="#2a2d34",
        well="#1b1e24",
        focus="#7fb2f7",
        wrong="#f0a350",
        hatch="#4b4f58",
        hatch_ground="#1a1c20",
        masked="#2e3037",
        left_out="#464a52",
    ),
}

STEPS = 256
"""Colours per table, so that an index fits a byte."""


def sequential_table(theme: str) -> NDArray[np.int64]:
    """Return the RGB colours of weights 0 to 1, [STEPS, 3]."""
    return sequential(np.linspace(0, 1, STEPS), theme)


def diverging_table(theme: str) -> NDArray[np.int64]:
    """Return the RGB colours of −1 to 1, [STEPS, 3]; step 128 is exactly 0."""
    return diverging(np.maximum(-1, (np.arange(STEPS) - 128) / 127), theme)


def sequential(t: NDArray, theme: str) -> NDArray[np.int64]:
    """Return blues for weights 0–1, linear in OKLab lightness; 0 is almost the background."""
    if theme == "light":
        return _oklch(0.972 - 0.692 * t, 0.006 + 0.132 * _bell(t, 0.55, 0.74), 255 + 8 * t)
    return _oklch(0.222 + 0.748 * t, 0.012 + 0.128 * _bell(t, 0.5, 0.12), 262 - 22 * t)


def diverging(t: NDArray, theme: str) -> NDArray[np.int64]:
    """Return orange for −1 to 0 and blue for 0 to 1; 0 is almost the background, without hue."""
    zero, below, above = {
        "light": (0.955, (0.60, 0.13, 55), (0.50, 0.15, 258)),
        "dark": (0.27, (0.80, 0.13, 65), (0.76, 0.12, 255)),
    }[theme]
    size = np.abs(t)
    lightness, chroma, hue = (np.where(t < 0, n, p) for n, p in zip(below, above, strict=True))
    return _oklch(zero + (lightness - zero) * size, chroma * size, hue)


def _bell(t: NDArray, peak: float, end: float) -> NDArray:
    """Return chroma that rises and falls again: sRGB allows little at both ends of a blue scale."""
    falling = 1 - (1 - end) * (np.maximum(t - peak, 0) / (1 - peak)) ** 1.4
    return np.where(t < peak, np.sin(t / peak * np.pi / 2), falling)


def _oklch(lightness: NDArray, chroma: NDArray, hue_degrees: NDArray) -> NDArray:
    """Convert OKLCH to sRGB 0–255 [..., 3] (Björn Ottosson, "A perceptual color space", 2020)."""
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
