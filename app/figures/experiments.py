"""Declares charts of experiments: probabilities before and after an intervention, and curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.chart import Axis, Chart, Mark, note, numbers, probability, rule, words_below
from app.figures.style import ABOVE, BELOW, INK, LINE, THIRD, Ink, tick

_LONGEST = 14
_PLOT = 180  # px high


def change_figure(
    words: Sequence[str],
    before: NDArray,
    after: NDArray,
    names: tuple[str, str],
    title: str,
    control: tuple[str, NDArray] | None = None,
) -> Chart:
    """Draw each token's probability before (bar) and after (dot); blue = gain, orange = loss.

    `control`, a name and values that should equal `before`, is drawn as a tick on each bar.
    """
    across, bottom, pitch = words_below(words, _LONGEST)
    legend = [f"bar: {names[0]}", f"dot: {names[1]} (blue: more, orange: less)"]
    x, shown = np.arange(len(words)), map(tick, words)
    rows = np.array(list(zip(shown, before, after, after - before, strict=True)), dtype=object)
    hover = (
        f"<b>%{{customdata[0]}}</b><br>{names[0]}: %{{customdata[1]:.4f}}<br>{names[1]}: "
        "%{customdata[2]:.4f}<br>change: <b>%{customdata[3]:+.4f}</b>"
    )
    marks = [Mark("bar", x, before, hover, rows, LINE, width=0.62, name=names[0])]
    for wanted, colour in ((after >= before, ABOVE), (after < before, BELOW)):
        at = x[wanted]
        rises = np.column_stack([before[at], after[at], np.full(len(at), np.nan)]).ravel()
        marks.append(Mark("line", np.repeat(at, 3), rises, colour=colour, width=3))
        # The dots have hovers too: a very low bar is hard to point at.
        size = float(np.clip(pitch * 0.4, 5, 9))
        marks.append(Mark("dot", at, after[at], hover, rows[at], colour, size, series=names[1]))
    if control is not None:
        legend.insert(1, f"tick: {control[0]}")
        size, symbol = float(np.clip(pitch * 0.4, 6, 16)), "line-ew-open"
        marks.append(Mark("dot", x, control[1], size=size, symbol=symbol, name=control[0]))
    top = 64 + 18 * len(legend)
    margins = 56, 12, top, bottom
    axes = {"x": across, "y": probability()}
    return Chart(title, "\n".join(legend), axes, marks, top + _PLOT + bottom, margins)


def cheating_figure(
    steps: Sequence[int],
    masked: Sequence[float],
    opened: Sequence[float],
    last_step: int,
    chance: float,
) -> Chart:
    """Draw the next token's mean probability by training step, with and without the mask."""
    marks, notes = [], []
    for name, values, colour in (
        ("with the causal mask", masked, INK),
        ("without", opened, BELOW),
    ):
        marks.append(_dots(list(steps), list(values), f"{name}, step %{{x}}: ", colour, 5, name))
        if len(values):
            low = values[-1] < 0.5
            place: dict[str, Any] = {"xanchor": "right", "yanchor": "bottom" if low else "top"}
            said = f"{name}: {values[-1]:.3f}"
            notes.append(note(said, steps[-1], values[-1], yshift=8 if low else -8, **place))
    return _probability_chart(
        "Two networks learn to predict random tokens",
        f"mean probability of the next token; guessing gives {chance:.4g}",
        "training step",
        last_step,
        marks,
        notes=notes,
        shapes=[rule("y", chance, LINE)],
    )


def extrapolation_figure(shift: NDArray, probability: NDArray, longest: int) -> Chart:
    """Draw the mean probability of a translation's tokens against the shift of all positions.

    A dashed line marks `longest`, the largest shift whose positions all occurred in training.
    """
    seen = "from here on, the last positions were never seen in training"
    return _probability_chart(
        "The same sentence at later positions",
        "mean probability of its translation's tokens",
        "k, added to every position",
        int(shift[-1]),
        [_dots(shift, probability, "all positions + %{x}: mean probability ", INK, 6)],
        notes=[note(seen, longest, 0.04, xanchor="left", xshift=6, yanchor="bottom")],
        shapes=[rule("x", longest, THIRD)],
    )


def _dots(x: Any, y: Any, hover: str, colour: Ink, size: int, name: str = "") -> Mark:
    """Return a line with dots; `hover` is the text before the value."""
    told = f"{hover}<b>%{{y:.4f}}</b>"
    return Mark("dotted line", x, y, told, colour=colour, size=size, width=2, name=name)


def _probability_chart(
    title: str, subtitle: str, x: str, last: int, marks: Sequence[Mark], **more: Any
) -> Chart:
    axes: dict[str, Axis] = {"x": numbers(x, (-0.02 * last, 1.02 * last)), "y": probability()}
    return Chart(title, subtitle, axes, marks, 300, (60, 16, 66, 48), **more)
