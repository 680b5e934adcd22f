"""Query × key grids: labelled axes, hatched and filled cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.chart import OVER, Axis, Cells, Chart, Mark, words
from app.figures.style import BARE, FRAMED, Ink, colour_bar_below, small, text_width, word_ticks

LONGEST = 12  # characters of a label; the hover shows the whole word
_GRID = 216  # px of a grid: three fit in a row on a desktop screen, one on a phone
ALONE = 250  # px of a grid that is alone in its row: the widest on a phone
_MIN_WIDTH = 310  # px, so that a title and a subtitle fit
_FOOT = 64  # px under a grid, for ids or a colour bar

Masked = Mapping[str, NDArray[np.bool_]]
"""Masked cells [query, key] by reason."""


@dataclass(frozen=True)
class Axes:
    """Labels and titles of a grid's rows and columns; `ids` are shown under the columns."""

    rows: Sequence[str]
    columns: Sequence[str]
    row_title: str
    column_title: str
    ids: Sequence[int] = ()
    size: int = _GRID
    """px of the whole grid, if its cells are not too many or too few."""

    @property
    def _cell(self) -> int:
        """The height of a cell, in px."""
        return int(np.clip(self.size / max(len(self.rows), len(self.columns)), 6, 24))

    @property
    def _sides(self) -> tuple[float, float, float]:
        """The left and the right margin and the width, in px."""
        left = _room(self.rows, self._cell) + 34
        grid = left + self._cell * len(self.columns)
        return left, max(12, _MIN_WIDTH - grid), round(max(grid + 12, _MIN_WIDTH))

    @property
    def cell_width(self) -> float:
        """The width of a cell, in px."""
        left, right, width = self._sides
        return (width - left - right) / len(self.columns)

    def colour_bar(
        self, word: str, values: Sequence[float], texts: Sequence[str]
    ) -> dict[str, Any]:
        """Return a flat colour bar below the grid."""
        top = 60 + 26 + _room(self.columns, self._cell) + 12
        plot = round(top + self._cell * len(self.rows) + _FOOT) - top - _FOOT
        return colour_bar_below(plot, values, texts, word)

    def chart(self, title: str, subtitle: str, marks: Sequence[Mark | Cells], **more: Any) -> Chart:
        """Return a grid with these marks, and token ids below if there are any."""
        cell, (left, right, width) = self._cell, self._sides
        top = 60 + 26 + _room(self.columns, cell) + 12
        frame: dict[str, Any] = {"full": True, "standoff": 6, **FRAMED}
        axes = {
            "x": words(
                self.columns, cell, LONGEST, self.column_title, side="top", tickangle=-90, **frame
            ),
            "y": words(self.rows, cell, LONGEST, self.row_title, from_top=True, **frame),
        }
        if self.ids:
            below = {"overlaying": "x", "side": "bottom", "tickangle": -90}
            title_below = {"text": "id", "font": small(12), "standoff": 4}
            ids = word_ticks([str(id) for id in self.ids], cell, 6)
            axes["x3"] = Axis({**BARE, **ids, **below, "title": title_below})
        height = top + cell * len(self.rows) + _FOOT
        more = {"barmode": "overlay", "bargap": 0, **more}
        margins = left, right, top, _FOOT
        return Chart(title, subtitle, axes, marks, height, margins, width, more=more)


def _room(names: Sequence[str], cell: int) -> float:
    size = word_ticks(names, cell, LONGEST)["tickfont"]["size"]
    return text_width(names, size, LONGEST)


def hatched_bars(masked: NDArray[np.bool_], reason: str, shape: str, **more: Any) -> Mark:
    """Return hatched bars over the masked cells, one bar for each run of cells in a row."""
    edges = np.diff(np.pad(masked, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    row, start = np.nonzero(edges == 1)
    _, end = np.nonzero(edges == -1)
    return hatching(end - start, row, start - 0.5, reason, shape, **more)


def hatching(x: NDArray, y: NDArray, base: Any, name: str, shape: str, **more: Any) -> Mark:
    """Return hatched bars along x from `base`, in the rows `y`."""
    ground = Ink("hatch_ground")
    pattern = {
        "shape": shape,
        "fillmode": "overlay",
        "fgcolor": Ink("hatch"),
        "bgcolor": ground,
        "size": 6,
        "solidity": 0.25,
    }
    more = {"base": base, "marker": {"pattern": pattern}, **more}
    wide = more.pop("width", 1.0)
    return Mark("hatch", x, y, colour=ground, width=wide, name=name, sideways=True, more=more)


def filled_cells(
    where: NDArray[np.bool_], colour: Any, gap: int, hover: str, series: str, value: float
) -> Cells:
    """Return the cells in `where`, filled with one colour, `gap` px apart, with hover text.

    `series` and `value` are what the chart's table says of each.
    """
    more = {"colorscale": [[0, colour], [1, colour]], "hoverongaps": False, **OVER}
    values = np.where(where, 0.0, np.nan).astype(np.float32)
    return Cells(values, hover=hover, gaps=(gap, gap), series=series, value=value, more=more)
