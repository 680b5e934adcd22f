"""Declares a word alignment: source words left, target words right, and a line for each link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from app.figures.chart import Axis, Chart, Mark
from app.figures.style import ABOVE, BARE, INK, escape, small, text_width, tick

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
) -> Chart:
    """Draw links (source word, target word) as lines; a larger value makes a thicker line.

    Both sides fill the height, so a translation in the same order has nearly parallel lines.
    `texts` are the values as hover text.
    """
    rows = [(np.arange(len(words)) + 0.5) / max(1, len(words)) for words in (source, target)]
    most = max(values.values(), default=0) or 1.0
    thin, thick = _WIDTHS
    marks = []
    for (s, t), value in sorted(values.items()):
        told = [f"{tick(source[s])} – {tick(target[t])}: <b>{escape(texts[s, t])}</b>"] * 2
        said = [(f"{source[s]} – {target[t]}", value)]
        ends, width = [rows[0][s], rows[1][t]], thin + (thick - thin) * value / most
        marks.append(
            Mark("dotted line", [0, 1], ends, "%{customdata}", told, ABOVE, 6, width, said=said)
        )
    ticks = {**BARE, "tickmode": "array"}
    left, right = (
        ticks
        | {"tickvals": at.tolist(), "ticktext": [tick(word, _LONGEST) for word in words]}
        | {"tickfont": small(13, INK), "range": [1, 0]}
        for at, words in zip(rows, (source, target), strict=True)
    )
    sides = [f"source: {languages[0]}", f"target: {languages[1]}"]
    across = {"side": "top", "tickvals": [0, 1], "ticktext": sides, "range": [-0.04, 1.04]}
    axes = {
        "x": Axis(ticks | across),
        "y": Axis(left),
        "y2": Axis(right | {"overlaying": "y", "side": "right"}),
    }
    at_left, at_right = (24 + text_width([*words, "x"], 13, _LONGEST) for words in (source, target))
    height = 96 + _ROW * max(len(source), len(target), 1)
    return Chart(title, subtitle, axes, marks, height, (at_left, at_right, 84, 12))
