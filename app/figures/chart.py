"""One description of a chart: axes, and marks with the rows behind them.

`Chart.figure` draws it with Plotly in a theme's colours. `Chart.table` holds the drawn values, for
a CSV file and for tests, and `Chart.description` puts them into words, for screen readers: who
declares a mark declares its table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import isinf, isnan
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from app.figures.style import (
    BARE,
    INK,
    NARROW,
    Colourscale,
    Ink,
    heading,
    layout,
    small,
    text_width,
    themed,
    tick,
    word_ticks,
)

OVER = {"xaxis": "x2", "yaxis": "y2"}
"""Trace properties that place it on the invisible axes whose hovers show uncut words."""
_LISTED = 12  # values of a mark that a description lists one by one
_MODES = {"line": "lines", "dot": "markers", "dotted line": "lines+markers", "text": "text"}


class Row(NamedTuple):
    """One drawn value: of a mark with a name, at a place, with the ends of its interval if any."""

    series: str
    place: str
    value: float
    low: float = np.nan
    high: float = np.nan


@dataclass(frozen=True)
class Axis:
    """An axis with Plotly's `properties`, and the `names` of its places 0, 1, 2 …, if it has any.

    `full` adds an invisible axis, whose hovers show uncut names as %{x} or %{y}.
    """

    properties: Mapping[str, Any] = field(default_factory=dict)
    names: Sequence[str] = ()
    full: bool = False

    def place(self, at: Any) -> str:
        """Return the name of a place, or its number."""
        if len(self.names):
            return self.names[round(float(at))].replace("\n", " ")
        return at if isinstance(at, str) else _short(float(at))

    def layouts(self, id: str) -> dict[str, Any]:
        """Return the layout of this axis, and of its invisible one, for an id such as y3."""
        name = f"{id[0]}axis{id[1:]}"
        if not self.full:
            return {name: dict(self.properties)}
        ends = {"range": self.properties["range"]} if id[0] == "y" else {}
        side = {"side": {"x": "top", "y": "right"}[id[0]]}
        return {name: dict(self.properties), f"{name}2": hover_axis(self.names, id) | ends | side}


def numbers(
    title: str = "",
    ends: Sequence[float] | None = None,
    ruled: int = 0,
    zero: Ink | None = None,
    **more: Any,
) -> Axis:
    """Return a numeric axis, with grid lines at about `ruled` ticks and a line at `zero`."""
    ink = Ink("hairline")
    return Axis(
        ({"title": {"text": title}} if title else {})
        | ({} if ends is None else {"range": list(ends)})
        | ({"zeroline": True, "zerolinecolor": zero} if zero else {})
        | ({"showgrid": True, "gridcolor": ink, "nticks": ruled} if ruled else {})
        | more
    )


def probability() -> Axis:
    """Return an axis from 0 to 1 with three ticks."""
    return numbers("probability", (0, 1.04), 5, tickvals=[0, 0.5, 1])


def words(
    names: Sequence[str],
    pitch: float,
    longest: int,
    title: str = "",
    from_top: bool = False,
    full: bool = False,
    standoff: float | None = None,
    **more: Any,
) -> Axis:
    """Return an axis of words `pitch` px apart, cut to `longest` characters."""
    ticks = word_ticks(names, pitch, longest)
    if from_top:
        ticks["range"] = ticks["range"][::-1]
    apart = {} if standoff is None else {"standoff": standoff}
    return Axis(ticks | ({"title": {"text": title, **apart}} if title else {}) | more, names, full)


def words_below(
    names: Sequence[str], longest: int, width: float = NARROW, **more: Any
) -> tuple[Axis, float, float]:
    """Return an axis of vertical words under a plot, their height in px and their pitch in px."""
    pitch = width / len(names)
    axis = words(names, pitch, longest, tickangle=-90, **more)
    return axis, 16 + text_width(names, axis.properties["tickfont"]["size"], longest), pitch


def hover_axis(names: Sequence[str], overlaying: str) -> dict[str, Any]:
    """Return an invisible overlay axis that gives hovers the uncut word as %{x} or %{y}."""
    return {
        **BARE,
        "overlaying": overlaying,
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": [tick(name) for name in names],
        "showticklabels": False,
        "range": [-0.5, len(names) - 0.5],
    }


@dataclass(frozen=True)
class Mark:
    """Values at places: `kind` is bar, hatch, dot, line, dotted line or text.

    Bars and intervals lie along x if `sideways`. `rows` are the hovers' values, `more` further
    properties of the trace. A mark with a name or a hover is in the chart's table, as `series`
    if that is not its name: with its places and values, or with those that are `said`, if the
    coordinates are not the values.
    """

    kind: str
    x: ArrayLike
    y: ArrayLike
    hover: str = ""
    rows: Any = None
    colour: Any = INK
    size: float = 6
    width: float | None = None
    name: str = ""
    symbol: str = ""
    ends: tuple[ArrayLike, ArrayLike] | None = None
    end_style: Mapping[str, Any] = field(default_factory=dict)
    sideways: bool = False
    series: str = ""
    said: Sequence[tuple[str, float]] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def trace(self) -> dict[str, Any]:
        """Return the trace for Plotly."""
        made: dict[str, Any] = {"x": self.x, "y": self.y, **_hovered(self.hover, self.rows)}
        made |= {"name": self.name} if self.name else {}
        if self.ends is not None:
            values = np.asarray(self.x if self.sideways else self.y)
            low, high = (np.asarray(end) for end in self.ends)
            span = {"type": "data", "symmetric": False, "array": high - values}
            made["error_x" if self.sideways else "error_y"] = {
                **span, "arrayminus": values - low, "thickness": 1.25, **self.end_style
            }  # fmt: skip
        wide = {} if self.width is None else {"width": self.width}
        if self.kind in ("bar", "hatch"):
            made |= {"type": "bar", "marker": {"color": self.colour, "line": {"width": 0}}} | wide
            made |= {"orientation": "h"} if self.sideways else {}
        else:
            made |= {"type": "scatter", "mode": _MODES[self.kind]}
        if "line" in self.kind:
            made["line"] = {"color": self.colour, **wide}
        if "dot" in self.kind:
            made["marker"] = {"size": self.size, "color": self.colour}
            if self.symbol:
                made["marker"]["symbol"] = self.symbol
            if self.symbol.endswith("open"):
                made["marker"]["line"] = {"width": 2, "color": self.colour}
        if self.kind == "text":
            made["textfont"] = small(self.size, self.colour)
        return _merged(made, self.more)

    def table(self, x: Axis, y: Axis) -> Iterator[Row]:
        """Yield the rows behind this mark, given its axes."""
        series = self.series or self.name
        if self.kind == "hatch" or not (self.hover or series):
            return
        if self.said is not None:
            yield from (Row(series, place, float(value)) for place, value in self.said)
            return
        places, values = (self.y, self.x) if self.sideways else (self.x, self.y)
        drawn = np.asarray(values)
        unknown = np.full(len(drawn), np.nan)
        lows, highs = map(np.asarray, self.ends or (unknown, unknown))
        for at, value, low, high in zip(np.asarray(places), drawn, lows, highs, strict=True):
            if value is not None:
                place = (y if self.sideways else x).place(at)
                yield Row(series, place, float(value), float(low), float(high))


@dataclass(frozen=True)
class Cells:
    """A heat map [row, column] from 0, or −`limit` if `signed`, to `limit`; NaN is no cell.

    `texts` are written on the cells if there is a `text_size`. `value` is what the table says of
    every cell, instead of its own value.
    """

    values: ArrayLike
    limit: float = 1.0
    signed: bool = False
    hover: str = ""
    rows: Any = None
    texts: Any = None
    text_size: int = 0
    bar: Mapping[str, Any] | None = None
    gaps: tuple[int, int] = (1, 1)
    series: str = ""
    value: float | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def trace(self) -> dict[str, Any]:
        """Return the trace for Plotly."""
        made: dict[str, Any] = {
            "type": "heatmap",
            "z": self.values,
            "zmin": -self.limit if self.signed else 0,
            "zmax": self.limit,
            "colorscale": Ink("diverging" if self.signed else "sequential"),
            "xgap": self.gaps[0],
            "ygap": self.gaps[1],
            "showscale": self.bar is not None,
        }
        made |= {} if self.bar is None else {"colorbar": self.bar}
        made |= {} if self.texts is None else {"text": self.texts}
        return _merged(made | _hovered(self.hover, self.rows), self.more)

    def table(self, x: Axis, y: Axis) -> Iterator[Row]:
        """Yield the rows behind these cells, given their axes."""
        for (row, column), value in np.ndenumerate(np.asarray(self.values)):
            if self.hover and not isnan(value):
                place = f"{y.place(row)}, {x.place(column)}"
                yield Row(self.series, place, float(value if self.value is None else self.value))


@dataclass(frozen=True)
class Flows:
    """Ribbons from node to node: `links` [start, end, signed value] of nodes with `names`."""

    names: Sequence[str]
    links: Sequence[tuple[int, int, float]]
    longest: int
    hover: str
    rows: Sequence[str]
    more: Mapping[str, Any] = field(default_factory=dict)

    def trace(self) -> dict[str, Any]:
        """Return the trace for Plotly."""
        starts, ends, values = zip(*self.links, strict=True) if self.links else ((), (), ())
        made = {
            "type": "sankey",
            "arrangement": "fixed",
            "node": {
                "label": [tick(name, self.longest) for name in self.names],
                "line": {"width": 0},
                "hovertemplate": "%{label}<extra></extra>",
            },
            "link": {
                "source": list(starts),
                "target": list(ends),
                "value": [abs(value) for value in values],
                "customdata": list(self.rows),
                "hovertemplate": f"{self.hover}<extra></extra>",
            },
        }
        return _merged(made, self.more)

    def table(self, x: Axis, y: Axis) -> Iterator[Row]:
        """Yield one row for each link."""
        for start, end, value in self.links:
            yield Row("", f"{self.names[start]} → {self.names[end]}", value)


def note(text: str, x: float, y: float, size: float = 13, **more: Any) -> dict[str, Any]:
    """Return a text in the plot."""
    return {"text": text, "x": x, "y": y, "showarrow": False, "font": small(size), **more}


def rule(axis: str, value: float, colour: Ink, dash: str = "dash", width: float = 1) -> dict:
    """Return a line across the whole plot at a value of the x or the y axis."""
    other = "y" if axis == "x" else "x"
    line = {"color": colour, "width": width, "dash": dash}
    span = {f"{other}0": 0, f"{other}1": 1, f"{other}ref": f"{other} domain"}
    return {"type": "line", "line": line, **span} | {
        f"{axis}0": value, f"{axis}1": value, f"{axis}ref": axis
    }  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """A chart: plain texts, axes by Plotly's ids, marks, and margins (left, right, top, bottom).

    A subtitle may have several lines. `more` has further properties of the layout.
    """

    title: str
    subtitle: str
    axes: Mapping[str, Axis]
    marks: Sequence[Mark | Cells | Flows]
    height: float
    margins: tuple[float, float, float, float]
    width: float | None = None
    notes: Sequence[dict[str, Any]] = ()
    shapes: Sequence[dict[str, Any]] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    def figure(self, theme: str) -> go.Figure:
        """Draw the chart."""
        traces = [mark.trace() for mark in self.marks]
        used = {trace.get(f"{side}axis", side) for trace in traces for side in "xy"}
        # Plotly draws an axis and its labels only if it has a trace.
        traces += [_empty(id) for id in self.axes if id not in {*used, "y"}]
        described: dict[str, Any] = {
            "annotations": list(self.notes),
            "shapes": list(self.shapes),
            "margin": dict(zip("lrtb", self.margins, strict=True)),
        }
        described |= (
            {"title": heading(self.title, self.subtitle)} if self.title or self.subtitle else {}
        )
        described |= {} if self.width is None else {"width": round(self.width)}
        for id, axis in self.axes.items():
            described |= axis.layouts(id)
        whole = _merged(_merged(layout(self.height), described), self.more)
        figure = go.Figure(themed(traces, theme), themed(whole, theme))
        for mark, trace in zip(self.marks, figure.data, strict=False):
            if isinstance(mark, Cells) and mark.text_size:
                figure.add_trace(cell_numbers(trace, mark.text_size))
        return figure

    def rows(self) -> list[Row]:
        """Return the drawn values, mark by mark."""
        return [row for mark in self.marks for row in mark.table(*self._axes(mark))]

    def table(self) -> pd.DataFrame:
        """Return the drawn values with the columns series, place, value, low and high.

        The last two are the ends of intervals and NaN without one.
        """
        return pd.DataFrame(self.rows(), columns=list(Row._fields))

    def description(self) -> str:
        """Describe the values: all of a mark's, or how many they are, the least and the largest."""
        said = []
        for series, found in groupby(self.rows(), key=lambda row: row.series):
            rows = [row for row in found if not isnan(row.value)]
            if not rows:
                continue
            low, high = (end(rows, key=lambda row: row.value) for end in (min, max))
            words = f"{len(rows)} values"
            if low.value == high.value and len(rows) > 1:
                words += f", all {_short(low.value)}"
            elif len(rows) <= _LISTED:
                words = "; ".join(f"{row.place} {_short(row.value)}" for row in rows)
            else:
                words += "".join(
                    f", {name} {_short(row.value)} ({row.place})"
                    for name, row in (("least", low), ("largest", high))
                )
            said.append(f"{series}: {words}." if series else f"{words}.")
        return " ".join(said)

    def _axes(self, mark: Mark | Cells | Flows) -> tuple[Axis, Axis]:
        """Return the axes of a mark; an invisible axis stands for the one that it covers."""
        ids = (mark.more.get(f"{side}axis", side) for side in "xy")
        x, y = (self.axes.get(id, self.axes.get(id[0], Axis())) for id in ids)
        return x, y


def cell_numbers(heat: go.Heatmap, size: int) -> go.Scatter:
    """Return the numbers of a heat map's cells as text, black or white for contrast.

    Plotly would choose white or a dark grey, whose contrast on middle colours is below 4.5:1.
    """
    rows, columns = np.nonzero(np.array(heat.text, dtype=object) != "")
    at = (np.array(heat.z)[rows, columns] - heat.zmin) / (heat.zmax - heat.zmin)
    return go.Scatter(
        x=columns,
        y=rows,
        text=[heat.text[row][column] for row, column in zip(rows, columns, strict=True)],
        mode="text",
        textfont={"size": size, "color": [_ink(value, heat.colorscale) for value in at]},
        hoverinfo="skip",
    )


def _ink(at: float, scale: Colourscale) -> str:
    """Return black or white, whichever contrasts more with the scale's colour at `at` (0–1)."""
    colours = np.array([[int(c) for c in re.findall(r"\d+", colour)] for _, colour in scale]) / 255
    stops = [stop for stop, _ in scale]
    shown = np.array([np.interp(at, stops, channel) for channel in colours.T])
    linear = np.where(shown <= 0.04045, shown / 12.92, ((shown + 0.055) / 1.055) ** 2.4)
    return "#000000" if linear @ (0.2126, 0.7152, 0.0722) > 0.179 else "#ffffff"


def _empty(id: str) -> dict[str, Any]:
    return {"type": "scatter", "x": [None], "y": [None], f"{id[0]}axis": id, "hoverinfo": "skip"}


def _hovered(hover: str, rows: Any) -> dict[str, Any]:
    told = {"hovertemplate": f"{hover}<extra></extra>"} if hover else {"hoverinfo": "skip"}
    return told | ({} if rows is None else {"customdata": rows})


def _merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the properties in `more`, down to the innermost dictionaries."""
    made = dict(base)
    for name, value in more.items():
        old = made.get(name)
        made[name] = (
            _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return made


def _short(value: float) -> str:
    """Format a number with three digits: 0.0213, −4.8, −∞."""
    text = "∞" if isinf(value) and value > 0 else "-∞" if isinf(value) else f"{value:.3g}"
    return text.replace("-", "−")
