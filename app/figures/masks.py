"""Declares masks and the reason for each masked cell, and one row from scores to weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.figures.chart import OVER, Axis, Cells, Chart, Mark, words
from app.figures.grid import Axes, filled_cells, hatched_bars
from app.figures.style import FLOOR, PAGE, SECOND, Ink, colour_bar, text_width, tick
from app.look.numbers import number

FUTURE = "the future: written later"
PADDING = "padding: not part of the sentence"
BOTH = "padding, and in the future"
_OTHER = "masked"
_HATCH = {FUTURE: "/", PADDING: "\\", BOTH: "x"}
_LETTER = {FUTURE: "f", PADDING: "p", BOTH: "pf"}
_LONGEST = 12
_BAR = 74  # px from the strips to the second colour bar

Bools = NDArray[np.bool_]


def reasons(padding: Bools, causal: Bools) -> dict[str, Bools]:
    """Return the masked cells [query, key] by reason, from two masks (True = may attend)."""
    by_reason = {FUTURE: padding & ~causal, PADDING: ~padding & causal, BOTH: ~padding & ~causal}
    return {reason: where for reason, where in by_reason.items() if where.any()}


def mask_figure(
    mask: Bools, masked: dict[str, Bools], axes: Axes, title: str, subtitle: str
) -> Chart:
    """Draw a boolean mask [query, key] (True = may attend); hatch each masked cell by reason.

    `masked` holds the masked cells by reason, as returned by `reasons`.
    """
    cell = axes.cell_width
    gap = 1 if cell >= 12 else 0  # lines between smaller cells would grey the whole grid
    hover = "%{y}<br>may look at <b>%{x}</b><br>M = 0"
    marks: list[Mark | Cells] = [filled_cells(mask, PAGE, gap, hover, "may look at", 0)]
    marks += [hatched_bars(at, reason, _HATCH[reason], **OVER) for reason, at in masked.items()]
    for reason, where in masked.items():
        hover = f"%{{y}}<br>may not look at <b>%{{x}}</b><br>{reason}, M = −∞"
        marks.append(filled_cells(where, "rgba(0,0,0,0)", 0, hover, reason, -np.inf))
        if cell > 11.5:
            y, x = np.nonzero(where)
            letters = {"text": [_LETTER[reason]] * len(y), **OVER}  # above the hatching
            marks.append(Mark("text", x, y, colour=SECOND, size=FLOOR, more=letters))
    # The ground is visible between unmasked cells.
    return axes.chart(title, subtitle, marks, plot_bgcolor=Ink("hairline"))


def row_figure(
    scores: NDArray,
    masked: NDArray,
    weights: NDArray,
    mask: Bools,
    fill: str,
    keys: Sequence[str],
    title: str,
) -> Chart:
    """Draw one row of a head in three strips: scores [keys], masked scores, softmax weights.

    Both strips of scores share one zero-centred scale; weights range from 0 to 1. Masked cells are
    hatched from the second strip on; `fill` is the mask value written in them.
    """
    K = len(keys)
    width, row, left = float(np.clip(860 / K, 12, 60)), 44, 118
    across = words(keys, width, _LONGEST, side="top", tickangle=-45 if width >= 21 else -90)
    size = across.properties["tickfont"]["size"]
    top = 62 + 0.8 * text_width(keys, size, _LONGEST) + 12
    names = ["score q·k/√dₖ", "after the mask", "after softmax"]
    ticks = {"tickmode": "array", "tickvals": [0, 1, 2], "ticktext": names, "range": [2.5, -0.5]}
    limit = float(np.abs(scores).max()) or 1.0
    ends, nothing = [-limit, 0, limit], np.full(K, np.nan)
    bars = (
        colour_bar((0.02, 0.98), ends, [number(end, 1) for end in ends], "score"),
        colour_bar((0.02, 0.98), [0, 1], ["0", "1"], "weight") | {"xpad": _BAR},
    )
    after, kept = (np.where(mask, values, np.nan) for values in (masked, weights))
    marks = [
        Cells(
            np.stack(rows),
            end,
            signed,
            "%{customdata}<br><b>%{z:.4f}</b>",
            np.array([[tick(key) for key in keys]] * 3, dtype=object),
            [[number(value, digits) for value in line] for line in rows],
            12 if width >= 30 else 0,
            bar,
            (1, 6),
            more={"hoverongaps": False},
        )
        for rows, end, signed, digits, bar in (
            ([scores, after, nothing], limit, True, 1, bars[0]),
            ([nothing, nothing, kept], 1.0, False, 2, bars[1]),
        )
    ]
    hidden = np.stack([np.zeros(K, bool), ~mask, ~mask])
    return Chart(
        title,
        "hatched: masked · scores orange below 0, blue above · weights 0 to 1",
        {"x": across, "y": Axis(ticks, names)},
        [*marks, hatched_bars(hidden, _OTHER, "/", width=0.86), _run_labels(~mask, fill)],
        top + 3 * row + 16,
        (left, 2 * _BAR, top, 16),
        left + width * K + 2 * _BAR,
        more={"barmode": "overlay", "bargap": 0},
    )


def _run_labels(masked: Bools, fill: str) -> Mark:
    """Label the masked cells of the last two rows: one text per run of cells, in its middle."""
    edges = np.diff(np.pad(masked, 1).astype(np.int8))
    starts, ends = np.nonzero(edges == 1)[0], np.nonzero(edges == -1)[0] - 1
    spots = [
        ((start + end) / 2, row, text if start == end else f"{text} each")
        for row, text in ((1, fill), (2, "0"))
        for start, end in zip(starts, ends, strict=True)
    ]
    x, y, texts = ([spot[i] for spot in spots] for i in range(3))
    return Mark("text", x, y, colour=SECOND, size=13, more={"text": texts})
