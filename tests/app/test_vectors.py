"""Circles and lengths of position vectors: what each mark, legend and hover stands for."""

from __future__ import annotations

import re

import numpy as np
import pytest

from app.figures.vectors import circles_figure, lengths_figure
from core.analysis.position_table import Sums

DIMENSIONS = 8
RATES = 10_000.0 ** (-np.arange(0, DIMENSIONS, 2) / DIMENSIONS)


def table(length: int) -> np.ndarray:
    """The paper's positional encoding: sines in even dimensions, cosines in odd ones."""
    angles = np.arange(length)[:, None] * RATES
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, DIMENSIONS)


def test_a_circles_dots_are_the_sine_upwards_and_the_cosine_to_the_right():
    position, k, pairs = 4, 3, [0, 6]
    figure = circles_figure(table(12), position, k, pairs, "light")
    dots = [trace for trace in figure.data if trace.mode == "markers"]
    expected = [(even, at) for even in pairs for at in (position, position + k)]
    assert len(dots) == len(expected)
    for dot, (even, at) in zip(dots, expected, strict=True):
        angle = at * RATES[even // 2]
        assert dot.y[0] == pytest.approx(np.sin(angle))
        assert dot.x[0] == pytest.approx(np.cos(angle))
        said = dot.hovertemplate.replace("%{y:.4f}", "SINE").replace("%{x:.4f}", "COSINE")
        assert said == f"pos {at}: sin SINE, cos COSINE<extra></extra>"
        assert dot.marker.symbol == ("circle-open" if at == position else "circle")
    assert figure.layout.title.text == "From pos 4 to pos 7"
    names = [note.text.split("<br>")[0] for note in figure.layout.annotations]
    assert names == ["0 and 1", "6 and 7"]


def test_lengths_are_drawn_as_the_legend_says():
    content, position, total = np.array([[3.0, 5.0], [1.5, 1.25], [4.0, 6.5]])
    flat = np.zeros((2, 2))
    sums = Sums(content, position, total, np.array([0.9, 0.8]), flat, flat, 1.0)
    figure = lengths_figure(sums, ["one", "two"], "light")
    marks = {
        "bar": figure.data[0],
        "dash": next(t for t in figure.data[1:] if t.marker.symbol == "line-ew-open"),
        "dot": next(t for t in figure.data[1:] if t.marker.symbol == "circle"),
    }
    meanings = {"embedding · √d_model": content, "position": position, "their sum": total}
    legend = dict(re.findall(r"(bar|dash|dot): (.+?)(?= · (?:bar|dash|dot):|$)", subtitle(figure)))
    assert legend.keys() == marks.keys()
    for mark, meaning in legend.items():
        np.testing.assert_array_equal(marks[mark].y, meanings[meaning])
    hover = re.sub(r"</?b>|<extra></extra>", "", marks["bar"].hovertemplate).split("<br>")
    columns = list(zip(*marks["bar"].customdata, strict=True))
    named = {}
    for line in hover[1:]:
        name, value = line.rsplit(": ", 1)
        named[name] = columns[int(re.findall(r"customdata\[(\d)\]", value)[0])]
    assert named == {
        "embedding · √d_model": tuple(content),
        "position": tuple(position),
        "sum": tuple(total),
        "cosine of embedding and sum": (0.9, 0.8),
    }
    assert figure.layout.yaxis.title.text == "length of the vector"


def subtitle(figure) -> str:
    return figure.layout.title.subtitle.text
