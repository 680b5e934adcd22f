"""Declares the picture of the parity checklist: each group's worst difference and its limit."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from app.figures.chart import Chart, Mark, numbers, words
from app.figures.style import INK, PAGE, SECOND, Ink
from app.look.numbers import scientific

GROUPS = {
    "Shapes, weights, masks": r"parameter|weight after|shape|mask",
    "Embeddings": r"embeddings(?!.*float32)",
    "Encoder layers": r"^encoder (layer|output)(?!.*float32)",
    "Decoder layers": r"^decoder (layer|output)(?!.*float32)",
    "Attention maps": r"attention maps",
    "Logits": r"^logits, (?!float32)",
    "Loss, gradients": r"^loss|gradient",
    "After training steps": r"^(every weight but|logits after)",
    "Key biases (unused)": r"^key biases",
    "Search": r": the same (tokens|scores)$",
    "In float32": r"float32$",
}
"""Groups of lines by the pattern of their names; a line belongs to the first that matches."""
_LOW, _ROW = -17, 21


def grouped(lines: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the lines (core.parity.checklist.Check) of each group that has any."""
    of = [next((g for g, at in GROUPS.items() if re.search(at, x.name)), "Other") for x in lines]
    found = {name: [x for x, g in zip(lines, of, strict=True) if g == name]
             for name in (*GROUPS, "Other")}  # fmt: skip
    return {name: of_group for name, of_group in found.items() if of_group}


def checks_figure(lines: Sequence[Any], total: int) -> Chart:
    """Draw each group's worst difference as a bar, and its limit as a tick, on a log axis.

    A difference of exactly 0 has no bar and is called equal. While fewer than `total` lines are
    known, groups without a line keep their row.
    """
    groups = grouped(lines)
    names = list(groups) if len(lines) >= total else list(GROUPS)
    found = {at: groups[name] for at, name in enumerate(names) if name in groups}
    places = list(found)
    worst = [max(of, key=lambda x: (not x.passed, x.max_abs_diff)) for of in found.values()]
    sizes = [x.max_abs_diff for x in worst]
    high = max(0, min(20, math.ceil(math.log10(max(1e-9, *sizes, 1e-9))) + 4))
    limits = {at: max(x.limit for x in of) for at, of in found.items()}
    bounded = [at for at in places if limits[at] > 0]
    told = ["equal" if size == 0 else scientific(size) for size in sizes]
    held = [f"{sum(x.passed for x in of)} of {len(of)}" for of in found.values()]
    hold = [f"{text} {'✓' if x.passed else '✗'}" for text, x in zip(held, worst, strict=True)]
    rows = [[names[at], text, x.name] for at, text, x in zip(places, told, worst, strict=True)]
    hover = "%{customdata[0]}<br>%{customdata[2]}: <b>%{customdata[1]}</b>"
    marks = [
        Mark("bar", sizes, places, hover, rows, [INK if x.passed else Ink("wrong") for x in worst],
             width=0.8, series="worst difference", sideways=True),
        Mark("dot", [limits[at] for at in bounded], bounded,
             "limit of %{customdata[0]}: <b>%{customdata[1]}</b>",
             [[names[at], scientific(limits[at])] for at in bounded],
             symbol="line-ns-open", size=14, series="limit", sideways=True),
        Mark("text", [10.0**_LOW] * len(places) + [limits[at] for at in bounded[:1]],
             places + bounded[:1], size=12, colour=SECOND,
             more={"text": [*(" equal" * (size == 0) for size in sizes), "  limit"],
                   "textposition": "middle right"}),
        Mark("text", [10.0**high] * len(places), places, size=13, colour=SECOND,
             more={"text": hold, "textposition": "middle left"}),
    ]  # fmt: skip
    powers = range(-16, high, 4)  # their labels fit on a phone
    across = numbers(
        "", (_LOW, high), 9, type="log", tickangle=0, side="top",
        tickvals=[10.0**power for power in powers],
        ticktext=[scientific(10.0**power).split("·\u00a0")[-1] for power in powers],
    )  # fmt: skip
    down = words(names, _ROW, 30, from_top=True, ticks="outside", ticklen=6, tickcolor=PAGE)
    axes = {"x": across, "y": down}
    return Chart("", "", axes, marks, 30 + _ROW * len(names), (160, 8, 26, 4))
