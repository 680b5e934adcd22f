"""Declares the effect of positions on vectors: rotations, vector lengths, a 2-D projection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.chart import Axis, Cells, Chart, Mark, note, numbers, words, words_below
from app.figures.positions import formula_of, wavelength, wavelength_words
from app.figures.style import AXIS, FLOOR, FRAMED, INK, LINE, NARROW, THIRD, Ink, small, tick
from app.look.numbers import number, percent
from core.analysis.position_table import Sums

SHOWN = 8  # dimensions of the rotation matrix that are drawn
_LONGEST = 14
_PLANE = 440  # px high


def rotation_figure(matrix: NDArray, dimensions: Sequence[int], k: int) -> Chart:
    """Draw the rows and columns `dimensions` of R_k with their numbers; zeros stay blank."""
    shown = matrix[np.ix_(dimensions, dimensions)]
    names = [str(d) for d in dimensions]
    N, cell = len(names), 40
    texts = [["" if v == 0 else number(v, 2) for v in line] for line in np.round(shown, 4)]
    hover = "row %{y}, column %{x}: <b>%{z:.4f}</b>"
    axes = {
        "x": words(names, cell, 6, **FRAMED, side="top", tickangle=0),
        "y": words(names, cell, 6, "dimension", from_top=True, **FRAMED),
    }
    return Chart(
        f"R, for k = {k}",
        f"{N} of its {len(matrix)} rows and columns",
        axes,
        [Cells(shown, 1, True, hover, texts=texts, text_size=12)],
        86 + cell * N + 16,
        (60, 12, 86, 16),
        max(60 + cell * N + 12, 340),
    )


def circles_figure(table: NDArray, position: int, k: int, dimensions: Sequence[int]) -> Chart:
    """Draw pairs of dimensions as points on circles: PE(p) → PE(p+k) rotates each pair.

    `table` is [length, d_model]; `dimensions` are the even dimensions of the pairs.
    """
    axes, marks, notes = {}, [], []
    columns, d_model, formula = len(dimensions), table.shape[1], formula_of(table) or "paper"
    square = {**AXIS, "range": [-1.25, 1.25], "tickvals": []}
    turn = np.linspace(0, 2 * np.pi, 90)
    for i, even in enumerate(dimensions):
        n = "" if i == 0 else str(i + 1)
        over = {"xaxis": f"x{n}", "yaxis": f"y{n}"}
        domain = [i / columns + 0.01, (i + 1) / columns - 0.01]
        axes[f"x{n}"] = Axis(square | {"domain": domain, "anchor": f"y{n}"})
        axes[f"y{n}"] = Axis(square | {"scaleanchor": f"x{n}", "anchor": f"x{n}"})
        place = {"xref": "paper", "yref": "paper", "xanchor": "center", "yanchor": "top"}
        waves = f"{even} and {even + 1}<br>λ = {wavelength_words(even, d_model, formula)}"
        # Axis titles would be at different heights.
        notes.append(note(waves, (i + 0.5) / columns, 0, 12, **place))
        sine, cosine = table[:, even], table[:, even + 1]
        angle = 2 * np.pi * k / wavelength(even, d_model, formula)
        arc = np.linspace(0, angle, max(2, int(24 * abs(angle)) + 2))[:400]
        arc += np.arctan2(sine[position], cosine[position])
        for x, y, colour, width in (
            (np.cos(turn), np.sin(turn), LINE, 1),
            (1.1 * np.cos(arc), 1.1 * np.sin(arc), THIRD, 1.5),
        ):
            marks.append(Mark("line", x, y, colour=colour, width=width, more=over))
        for at, symbol in ((position, "circle-open"), (position + k, "circle")):
            hover = f"pos {at}: sin %{{y:.4f}}, cos %{{x:.4f}}"
            ends = (f"dimension {even}", sine[at]), (f"dimension {even + 1}", cosine[at])
            said = [(f"pos {at}, {name}", value) for name, value in ends]
            marks.append(Mark("dot", [cosine[at]], [sine[at]], hover, size=11, symbol=symbol,
                              said=said, more=over))  # fmt: skip
    return Chart(
        f"From pos {position} to pos {position + k}",
        "each pair of dimensions (sin, cos) turns by k · 2π / λ",
        axes,
        marks,
        290,
        (12, 12, 70, 48),
        notes=notes,
    )


def lengths_figure(sums: Sums, words: Sequence[str]) -> Chart:
    """Draw the norms of each token's embedding, its positional encoding, and their sum."""
    across, bottom, pitch = words_below(words, _LONGEST)
    x, size = np.arange(len(words)), float(np.clip(pitch * 0.4, 5, 9))
    columns = map(tick, words), sums.content, sums.position, sums.total, sums.cosine
    rows = np.array(list(zip(*columns, strict=True)), dtype=object)
    hover = (
        "<b>%{customdata[0]}</b><br>embedding: %{customdata[1]:.3f}<br>"
        "position: %{customdata[2]:.3f}<br>sum: %{customdata[3]:.3f}<br>"
        "cosine of embedding and sum: %{customdata[4]:.4f}"
    )
    marks = [
        Mark("bar", x, sums.content, hover, rows, LINE, width=0.62, series="embedding"),
        Mark("dot", x, sums.position, size=2 * size, symbol="line-ew-open", series="position"),
        Mark("dot", x, sums.total, size=size, series="sum"),
    ]
    said = "bar: embedding; dash: position; dot: their sum"
    axes = {"x": across, "y": numbers("length of the vector", ruled=5, rangemode="tozero")}
    margins = 60, 12, 72, bottom
    return Chart("How long the vectors are", said, axes, marks, 262 + bottom, margins)


def plane_figure(sums: Sums, words: Sequence[str]) -> Chart:
    """Draw tokens on the first two principal components: ring = embedding, dot = sum.

    Zooming is enabled, as similar tokens lie close together.
    """
    N, shown = len(words), [tick(word, _LONGEST) for word in words]
    path = np.stack([sums.before, sums.after, np.full((N, 2), np.nan)], axis=1).reshape(-1, 2)
    marks = [Mark("line", path[:, 0], path[:, 1], colour=THIRD, width=1)]
    later = [[0, Ink("sequential", 9)], [1, Ink("sequential", 30)]]
    names = {
        "text": shown,
        "textposition": _label_sides(sums, words),
        "textfont": small(12 if N <= 30 else FLOOR, INK),
        "cliponaxis": False,
    }
    for points, where, colour, more in (
        (sums.before, "embedding alone", THIRD, {"marker": {"symbol": "circle-open"}}),
        (sums.after, "with its position", np.arange(N),
         {"mode": "markers+text", "marker": {"colorscale": later, "line": {"width": 0}}}),
    ):  # fmt: skip
        said = [
            (f"{word}, {side} component", value)
            for word, point in zip(words, points, strict=True)
            for side, value in zip(("first", "second"), point, strict=True)
        ]
        hover = f"<b>%{{customdata}}</b>, {where}<br>%{{x:.3f}}, %{{y:.3f}}"
        marks.append(Mark("dot", points[:, 0], points[:, 1], hover, shown, colour, 8,
                          series=where, said=said, more=names | more))  # fmt: skip
    zoomed: dict[str, Any] = {"ruled": 6, "fixedrange": False}
    axes = {
        "x": numbers("first component", **zoomed),
        "y": numbers("second component", scaleanchor="x", **zoomed),
    }
    subtitle = (
        "ring: embedding; dot: with its position (stronger colour: later in the sentence)\n"
        f"principal components of both: {percent(sums.explained)} of their variance"
    )
    title, margins = "The tokens in two dimensions", (56, 40, 84, 48)
    more = {"dragmode": "zoom"}
    return Chart(title, subtitle, axes, marks, _PLANE + 84 + 48, margins, more=more)


def _label_sides(sums: Sums, words: Sequence[str]) -> list[str]:
    """Choose for each label the side where it overlaps dots and earlier labels least."""
    every = np.concatenate([sums.before, sums.after])
    width, height = np.ptp(every, axis=0) + 1e-9
    px = min(NARROW / width, _PLANE / height)
    dots = every * px
    taken: list[tuple[float, float, float, float]] = [(x - 5, x + 5, y - 5, y + 5) for x, y in dots]
    sides = []
    for (x, y), word in zip(sums.after * px, words, strict=True):
        half = 3.4 * min(len(word), _LONGEST)
        boxes = {
            "middle right": (x + 6, x + 6 + 2 * half, y - 7, y + 7),
            "middle left": (x - 6 - 2 * half, x - 6, y - 7, y + 7),
            "top center": (x - half, x + half, y + 5, y + 19),
            "bottom center": (x - half, x + half, y - 19, y - 5),
            "top right": (x + 3, x + 3 + 2 * half, y + 3, y + 17),
            "top left": (x - 3 - 2 * half, x - 3, y + 3, y + 17),
            "bottom right": (x + 3, x + 3 + 2 * half, y - 17, y - 3),
            "bottom left": (x - 3 - 2 * half, x - 3, y - 17, y - 3),
        }
        side = min(boxes, key=lambda name: sum(_overlap(boxes[name], box) for box in taken))
        taken.append(boxes[side])
        sides.append(side)
    return sides


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> float:
    """Return the overlap area of two boxes (left, right, low, high)."""
    return max(0.0, min(a[1], b[1]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[2], b[2]))
