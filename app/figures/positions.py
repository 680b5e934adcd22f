"""Declares the positional encodings of one pass: table, waves, dot products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.chart import (
    OVER,
    Axis,
    Cells,
    Chart,
    Mark,
    hover_axis,
    note,
    numbers,
    words,
    words_below,
)
from app.figures.style import AXIS, LINE, SECOND, THIRD, Ink, colour_bar, small, text_width, tick
from app.lessons.texts import rules
from app.look.labels import isolated, label
from app.look.numbers import number, scientific
from core.analysis.position_table import products_by_distance
from core.config import PositionTable
from core.record.record import RecordToken

_LONGEST = 18  # characters of a label


def wavelength(dimension: int, d_model: int, table: PositionTable = "paper") -> float:
    """Return the period of dimension 2i or 2i + 1, in positions: 2π · 10000^(2i/d_model).

    In fairseq's table, d_model − 2 takes the place of d_model.
    """
    width = d_model - 2 * (table == "fairseq")
    return float(2 * np.pi * 10_000 ** (dimension // 2 * 2 / width))


def sinusoids(
    positions: NDArray, d_model: int, table: PositionTable = "paper"
) -> NDArray[np.float64]:
    """Evaluate the formula of paper §3.5 at real-valued positions [N]; return [N, d_model].

    fairseq's table begins at 2.
    """
    lengths = [wavelength(d, d_model, table) for d in range(d_model)]
    angle = 2 * np.pi * (positions[:, None] + 2 * (table == "fairseq")) / lengths
    return np.where(np.arange(d_model) % 2 == 0, np.sin(angle), np.cos(angle))


def sinusoid_table(length: int, d_model: int) -> NDArray[np.float32]:
    """Return the first rows of the sinusoidal table, [length, d_model]."""
    return sinusoids(np.arange(length), d_model).astype(np.float32)


def formula_of(table: NDArray) -> PositionTable | None:
    """Return whose formula a table [length, d_model] follows: the paper's, fairseq's, or none."""
    places, limit = np.arange(len(table)), rules("positions")["sinusoidal"]
    kinds: tuple[PositionTable, ...] = ("paper", "fairseq") if table.shape[1] > 2 else ("paper",)
    for kind in kinds:
        if np.abs(table - sinusoids(places, table.shape[1], kind)).max() < limit:
            return kind
    return None


def is_sinusoidal(table: NDArray) -> bool:
    """Return whether a table [length, d_model] is one of sines and cosines."""
    return formula_of(table) is not None


def sample_dimensions(d_model: int) -> tuple[int, ...]:
    """Return a few even (sine) dimensions, from the fastest wave to the slowest."""
    dimensions = (0, d_model // 8, d_model // 4, d_model // 2, d_model - 2)
    return tuple(sorted({dimension // 2 * 2 for dimension in dimensions}))


def table_figure(
    positions: NDArray[np.float32],
    tokens: Sequence[RecordToken] | None,
    title: str = "What is added to each token",
) -> Chart:
    """Draw the vectors added to the embeddings, [length, d_model], on a zero-centred scale.

    Without tokens, rows are labelled by pos alone.
    """
    length, d_model = positions.shape
    names = [f"pos {n}" for n in range(length)] if tokens is None else position_labels(tokens)
    row = float(np.clip(420 / length, 5, 24))
    limit, paper = float(np.abs(positions).max()), formula_of(positions)
    dimensions = [_dimension_name(d, d_model, paper) for d in range(d_model)]
    across = np.arange(0, d_model, max(2, d_model // 8))
    said = "pos" if tokens is None else "pos and its token"
    down = words(names, row, _LONGEST, said, from_top=True, full=True)
    left = text_width(names, down.properties["tickfont"]["size"], _LONGEST) + 44
    top = 118 if paper else 80
    named = "dimension: even = sine, odd = cosine" if paper else "dimension"
    ticks = numbers(named, (-0.5, d_model - 0.5), tickmode="array", tickvals=across)
    axes = {"x": replace(ticks, names=dimensions, full=True), "y": down}
    if paper:
        waves = {
            "side": "top",
            "showticklabels": True,
            "tickvals": across[::2],
            "ticktext": [number(wavelength(int(d), d_model, paper), 0) for d in across[::2]],
            "tickangle": 0,
            "tickfont": small(13),
            "title": {
                "text": "wavelength of the dimension, in positions",
                "font": small(13),
                "standoff": 8,
            },
        }
        axes["x3"] = Axis(hover_axis(dimensions, "x") | waves)
    bar = colour_bar((0, 1), [-limit, 0, limit], _ends(limit), "value added")
    hover = "%{y}<br>%{x}<br><b>%{z:.4f}</b>"
    cells = Cells(positions, limit, True, hover, bar=bar, gaps=(0, 0), more=OVER)
    subtitle = f"pos counts from 0{', as in the formula' * bool(paper)}; {d_model} dimensions"
    margins = left, 90, top, 52
    return Chart(title, subtitle, axes, [cells], top + row * length + 52, margins)


def waves_figure(
    positions: NDArray[np.float32],
    tokens: Sequence[RecordToken],
    dimensions: Sequence[int],
) -> Chart:
    """Draw some columns of the table against position, one below the other.

    Dots are the values of this pass. The line is the paper's formula if the table follows it;
    otherwise it connects the dots.
    """
    length, d_model = positions.shape
    names, N = position_labels(tokens), len(dimensions)
    placed = {"anchor": "free", "position": 0, "title": {"text": "pos and its token"}}
    across, below, pitch = words_below(names, _LONGEST)
    paper, limit = formula_of(positions), float(np.abs(positions).max())
    line_x, lines = np.arange(length), positions
    if paper:
        line_x = np.linspace(0, length - 1, max(2, min(1200, 16 * length)))
        lines = sinusoids(line_x, d_model, paper)
    axes = {"x": replace(across, properties={**across.properties, **placed})}
    strip = {
        **AXIS,
        "range": [-1.25 * limit, 1.25 * limit],
        "tickvals": [-limit, 0, limit],
        "ticktext": _ends(limit),
        "tickfont": small(10.5, THIRD),
        "zeroline": True,
        "zerolinecolor": LINE,
        "anchor": "x",
    }
    edge = {"width": 1, "color": SECOND}
    colours = {"cmin": -limit, "cmax": limit, "colorscale": Ink("diverging"), "line": edge}
    beside: dict[str, Any] = {"xref": "paper", "xshift": 12, "xanchor": "left", "align": "left"}
    marks, notes = [], []
    for place, dimension in enumerate(dimensions):
        end, y = 1 - place / N, f"y{place + 1}" if place else "y"
        axes[y] = Axis(strip | {"domain": [end - 0.86 / N, end]})
        values, over = positions[:, dimension], {"yaxis": y}
        marks.append(Mark("line", line_x, lines[:, dimension], colour=THIRD, width=1.25, more=over))
        hover = f"%{{customdata}}<br>dimension {dimension}: <b>%{{y:.4f}}</b>"
        size, shown = float(np.clip(pitch * 0.55, 5, 9)), [tick(name) for name in names]
        marks.append(
            Mark("dot", np.arange(length), values, hover, shown, values, size,
                 series=f"dimension {dimension}", more={"marker": colours, **over})
        )  # fmt: skip
        text = _dimension_name(dimension, d_model, paper).replace(", ", "<br>")
        notes.append(note(text, 1, 0, yref=y, **beside))
    subtitle = "dots: values added in this pass " + (
        "· line: the formula between them" if paper else "(learned, so there is no formula)"
    )
    bottom = 30 + below
    margins = 60, 150, 76, bottom
    return Chart("Some waves", subtitle, axes, marks, 76 + 64 * N + bottom, margins, notes=notes)


def dot_product_figure(positions: NDArray[np.float32]) -> Chart:
    """Draw PE(p)·PE(q) of all pairs of positions against their distance q − p.

    Dots are means over the pairs at one distance; error bars span minimum to maximum. For
    sinusoids they have zero length, as the product depends on the distance alone.
    """
    length, d_model = positions.shape
    distance, mean, low, high = products_by_distance(positions)
    spread, half = float((high - low).max()), d_model // 2
    marks, notes = [], []
    if formula := formula_of(positions):
        dense = np.linspace(-length + 1, length - 1, min(2000, 24 * length))
        rates = [2 * np.pi / wavelength(d, d_model, formula) for d in range(0, d_model, 2)]
        sums = np.cos(dense[:, None] * rates).sum(-1)
        marks.append(Mark("line", dense, sums, colour=THIRD, width=1.25))
        place: dict[str, Any] = {"xanchor": "left", "xshift": 8, "yshift": 12}
        notes.append(note(f"{half} · (sin² + cos²) = {half}", 0, d_model / 2, **place))
    uneven = spread > 1e-3 * max(1.0, float(np.abs(mean).max()))
    hover = (
        "distance %{x}: <b>%{y:.3f}</b><br>pairs: %{customdata[0]}, from %{customdata[1]:.3f} to "
        "%{customdata[2]:.3f}"
    )
    rows = np.stack([length - np.abs(distance), low, high], axis=-1)
    bars = {"color": THIRD, "width": 3, "visible": uneven}
    size = float(np.clip(300 / length, 4, 8))
    marks.append(
        Mark("dot", distance, mean, hover, rows, size=size, ends=(low, high), end_style=bars)
    )
    ends = 1.15 * min(0.0, float(low.min())), 1.15 * float(high.max())
    axes = {
        "x": numbers("distance q − p, in positions", (-length + 0.5, length - 0.5)),
        "y": numbers("dot product", ends, 5, LINE),
    }
    title = "Dot products PE(p) · PE(q)"
    subtitle = f"pairs at the same distance differ by up to about {scientific(spread)}"
    return Chart(title, subtitle, axes, marks, 340, (70, 20, 76, 52), notes=notes)


def position_labels(tokens: Sequence[RecordToken]) -> list[str]:
    """Return each token's label after its pos in the formula, counted from 0: pos 1 Mann."""
    return [f"pos {pos} {isolated(label(token))}" for pos, token in enumerate(tokens)]


def _ends(limit: float) -> list[str]:
    return [f"−{limit:.2g}", "0", f"{limit:.2g}"]


def wavelength_words(dimension: int, d_model: int, table: PositionTable = "paper") -> str:
    """Format a wavelength with at least three digits: 6.28, 62.8, 54,410."""
    value = wavelength(dimension, d_model, table)
    return number(value, max(0, 2 - int(np.log10(value))))


def _dimension_name(dimension: int, d_model: int, formula: PositionTable | None) -> str:
    if formula is None:
        return f"dimension {dimension}"
    wave = "sine" if dimension % 2 == 0 else "cosine"
    length = wavelength_words(dimension, d_model, formula)
    return f"dimension {dimension}: {wave}, wavelength {length}"
