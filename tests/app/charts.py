"""What every page must show: charts with the rows of an oracle, sentences with its values."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from app.figures.chart import Chart, Row
from app.figures.style import diverging
from tests.app.page_checks import from_scientific, is_blue, number
from tests.app.rendered import NUMBER, Rendered, array

Value = Any
"""A text that a sentence holds, or a `pytest.approx` of a number in it."""
_APPROX = type(pytest.approx(0.0))


def says(page: Rendered, where: str | None, *values: Value) -> str:
    """Claim and return the text under a key that has these values in order, and no other number."""
    found = [item for item in page.found(where) if holds(item.text, values)]
    near = "\n".join(item.text for item in page.found(where))
    assert found, f"no text has the values {values} among:\n{near}"
    for item in found:
        item.claimed = True
    return found[0].text


def holds(text: str, values: Sequence[Value]) -> bool:
    """Return whether a text has these values in this order, and no other number."""
    text, parts = plain(text), []
    for value in values:
        if isinstance(value, _APPROX):
            parts.append(f"({NUMBER.pattern})")
        else:
            parts.append(("(?<![+−\\-\\d.,])" if value[:1].isdigit() else "") + re.escape(value))
    match = re.fullmatch("[^\\d]*?".join(["", *parts, ""]), text)
    numbers = [value for value in values if isinstance(value, _APPROX)]
    return match is not None and all(
        from_scientific(shown) == value
        for shown, value in zip(match.groups(), numbers, strict=True)
    )


def plain(text: str) -> str:
    """Return a text without Markdown, without what marks it as bold, isolated or a subscript."""
    text = re.sub(r"\\(?=[^\w\s])|</?(?:b|sub|sup)>|\*\*", "", _joined(text))
    return html.unescape(text.replace("<br>", " "))


def shows(
    page: Rendered, key: str, rows: Sequence[Sequence[Any]], *values: Value,
    hovers: Sequence[Sequence[Value] | None] | None = None, atol: float = 1e-5,
) -> dict[str, Any]:  # fmt: skip
    """Check a chart, claim its texts and return its figure: its table has these rows, all drawn.

    A row is a place and a value, or a series, a place, a value and perhaps the ends of an interval.
    `values` are in the title, the subtitle, the axes' titles and the notes, with no other number;
    `hovers` are the values of each row's hover; without them it names its place.
    """
    chart, figure = page.charts[key], page.figure(key)
    expected = [Row(*(("", *row) if len(row) == 2 else row)) for row in rows]
    found = chart.rows()
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    of = [row[2:] for row in found], [row[2:] for row in expected]
    np.testing.assert_allclose(*of, atol=atol, rtol=1e-5)
    told = rows_are_drawn(chart, figure=figure)
    for row, hover, parts in zip(found, told, hovers or [None] * len(found), strict=True):
        assert names_its_place(hover, row) if parts is None else holds(hover, parts), (hover, parts)
    written = "\n".join(_written(figure["layout"]))
    assert holds(written, values), (written, values)
    for item in page.found(key, "figure"):
        item.claimed = True
    return figure


def names_its_place(hover: str, row: Row, implied: Sequence[str] = ()) -> bool:
    """Return whether a hover, if there is one, names each part of its row's place."""
    parts = re.split(", | → ", _joined(row.place))
    return not hover or all(part in plain(hover) for part in parts if part not in implied)


def changes(
    page: Rendered, key: str, words: Sequence[str], before: np.ndarray, after: np.ndarray,
    states: Sequence[str], control: tuple[str, np.ndarray] | None = None,
) -> None:  # fmt: skip
    """Check a chart of probabilities before (bars) and after a change (dots): see `shows`.

    The dots show the same hovers, since low bars are hard to point at.
    """
    order = [*np.flatnonzero(after >= before), *np.flatnonzero(after < before)]
    rows = [(states[0], *row) for row in zip(words, before, strict=True)]
    rows += [(states[1], words[at], after[at]) for at in order]
    told = [
        [words[at], states[0], number(before[at]), states[1], number(after[at]),
         number(after[at] - before[at], sign="+")]
        for at in (*range(len(words)), *order)
    ]  # fmt: skip
    named = [f"bar: {states[0]}", f"dot: {states[1]}", "probability"]
    if control is not None:
        rows += [(control[0], *row) for row in zip(words, control[1], strict=True)]
        told += [[]] * len(words)
        named.insert(1, f"tick: {control[0]}")
    figure = shows(page, key, rows, *named, hovers=told)
    dots = [t["marker"]["color"] for t in figure["data"] if t.get("mode") == "markers"]
    assert [is_blue(colour) for colour in dots[:2]] == [True, False]


def _joined(text: str) -> str:
    """Return a text without the marks that isolate it from its neighbours."""
    return re.sub("[\u2060\u2066-\u2069]", "", text)


def _written(layout: dict[str, Any]) -> Iterator[str]:
    """Yield the title, the subtitle, the titles of axes and the notes of a figure."""
    title = layout.get("title", {})
    axes = [axis.get("title", {}) for name, axis in sorted(layout.items()) if "axis" in name]
    for one in (title, title.get("subtitle", {}), *axes, *layout.get("annotations", ())):
        yield one.get("text", "").replace("<br>", "\n")


def rows_are_drawn(
    chart: Chart, theme: str = "light", figure: dict[str, Any] | None = None
) -> list[str]:
    """Check that each mark with a hover has its rows in the table, in order; return their hovers.

    Each mark has its row's place, value and interval. Marks coloured by sign are blue from 0 and
    orange below, rows go down, axes reach all values, and the ticks of a colour bar tell theirs.
    """
    figure = figure or json.loads(chart.figure(theme).to_json())
    rows, told = iter(chart.rows()), []
    for mark, trace in zip(chart.marks, figure["data"], strict=False):
        named = getattr(mark, "series", "") or trace.get("name")
        if ("hovertemplate" not in trace.get("link", trace) and not named) or "base" in trace:
            continue  # a decoration
        said, stated = (getattr(mark, name, None) for name in ("said", "value"))
        drawn = list(drawn_rows(trace, figure["layout"]))
        span = trace.get("error_x", trace.get("error_y", {}))
        if said is not None:
            assert [next(rows)[1:3] for _ in said] == [tuple(one) for one in said]
            one_each = len(drawn) == len(said)
            told += [hover for *_, hover in drawn] if one_each else [""] * len(said)
            for (_, stands, _), (_, value) in zip(drawn, said, strict=True) if one_each else ():
                assert stands == pytest.approx(value) or not np.isfinite(value)
        for at, (places, value, hover) in enumerate(drawn if said is None else ()):
            row = next(rows)
            told.append(hover)
            assert row.value == (pytest.approx(value, rel=1e-6) if stated is None else stated)
            assert all(place in _joined(row.place) for place in places), (places, row.place)
            if span:
                reach = [array(span[name])[at] for name in ("arrayminus", "array")]
                assert reach == pytest.approx([row.value - row.low, row.high - row.value])
        _looks_right(trace, figure["layout"], theme)
    assert next(rows, None) is None, "a row without a mark"
    return told


def _looks_right(trace: dict[str, Any], layout: dict[str, Any], theme: str) -> None:
    """Check a trace's colours, the ends of its axes and of its colour bar, and its order."""
    side = "x" if trace.get("orientation") == "h" else "y"
    if trace["type"] == "bar":
        below, above = (diverging(theme)[stop][1] for stop in (4, 28))
        values, colours = array(trace[side]), trace["marker"]["color"]
        for value, colour in zip(values, colours, strict=True) if len(colours[0]) > 1 else ():
            assert colour not in (below, above) or colour == (above if value >= 0 else below)
        for text, told in zip(trace.get("text", ()), trace.get("customdata", ()), strict=False):
            assert text in ("", told[1]), "a number on a bar is that of its hover"
        along = _axis(trace, layout, side)
        low, high = along.get("range", (-np.inf, np.inf))
        low, high = (10.0**low, 10.0**high) if along.get("type") == "log" else (low, high)
        span = trace.get(f"error_{side}", {"array": 0, "arrayminus": 0})
        known = np.array([np.nan if value is None else value for value in values], float)
        assert along.get("type") == "log" or not (known - array(span["arrayminus"]) < low).any()
        assert not (known + array(span["array"]) > high).any()
    if trace["type"] == "heatmap":
        z = array(trace["z"]).astype(float)
        assert trace["zmin"] <= np.nanmin(z) + 1e-6 and np.nanmax(z) - 1e-6 <= trace["zmax"]
        bar = trace.get("colorbar", {"tickvals": [], "ticktext": []})
        for at, text in zip(array(bar["tickvals"]), bar["ticktext"], strict=True):
            assert from_scientific(text) == pytest.approx(at, abs=0.051, rel=0.01), text
    if trace["type"] == "heatmap" or side == "x":
        bottom, top = _axis(trace, layout, "y")["range"]
        assert top < bottom, "the first row is on top"


def _axis(trace: dict[str, Any], layout: dict[str, Any], side: str) -> dict[str, Any]:
    return layout.get(f"{side}axis{trace.get(f'{side}axis', side)[1:]}", {})


def drawn_rows(
    trace: dict[str, Any], layout: dict[str, Any]
) -> Iterator[tuple[list[str], float, str]]:
    """Yield for each value of a trace its places, as far as labelled, the value and the hover."""
    if trace["type"] == "sankey":
        names, link = trace["node"]["label"], trace["link"]
        for start, end, value, told in zip(
            *(link[name] for name in ("source", "target", "value", "customdata")), strict=True
        ):
            point = {"source.label": names[start], "target.label": names[end], "customdata": told}
            signed = -value if told.startswith("−") else value
            yield _places(names[start], names[end]), signed, _hover(link, point)
        return
    x, y = (_axis(trace, layout, side) for side in "xy")
    data, texts = trace.get("customdata"), trace.get("text")
    if trace["type"] == "heatmap":
        for (row, column), value in np.ndenumerate(array(trace["z"]).astype(float)):
            if not np.isnan(value):
                places = _label(x, column), _label(y, row)
                point = {"z": value, "x": places[0] or column, "y": places[1] or row}
                for name, given in (("customdata", data), ("text", texts)):
                    point[name] = None if given is None else given[row][column]
                yield _places(*places[::-1]), value, _hover(trace, point)
        return
    upright = str(trace.get("marker", {}).get("symbol", "")).startswith("line-ns")
    across = trace.get("orientation") == "h" or "error_x" in trace or upright
    data = [None] * len(array(trace["x"])) if data is None else array(data).tolist()
    for at_x, at_y, told in zip(array(trace["x"]), array(trace["y"]), data, strict=True):
        at, value = (at_y, at_x) if across else (at_x, at_y)
        if value is not None:
            place = _label(y if across else x, round(at))
            point = {"x": at_x, "y": at_y, "customdata": told, "fullData.name": trace.get("name")}
            point["y" if across else "x"] = place or at
            yield _places(place), value, _hover(trace, point)


def _label(axis: dict[str, Any], at: int) -> str:
    """Return the label of a place on an axis, or "" if it has none."""
    if "ticktext" not in axis or at not in (ticks := list(array(axis["tickvals"]))):
        return ""
    return axis["ticktext"][ticks.index(at)]


def _places(*labels: str) -> list[str]:
    """Return labels as text; a cut one without its ellipsis."""
    return [plain(label).replace("…", "") for label in labels if label]


def _hover(trace: dict[str, Any], point: dict[str, Any]) -> str:
    """Return the hover of a point as Plotly fills it in, but a zero without a sign."""

    def filled(found: re.Match[str]) -> str:
        value = point[found[1]] if found[2] is None else point[found[1]][int(found[2])]
        if found[3] is None:
            return value if isinstance(value, str) else f"{value:g}".replace("-", "−")
        shown = format(int(value) if found[3] == ",d" else float(value), found[3])
        return re.sub(r"^[+−](?=0\.0+$)", "", shown.replace("-", "−"))

    template = trace.get("hovertemplate", "").removesuffix("<extra></extra>")
    return re.sub(r"%\{([\w.]+?)(?:\[(\d+)\])?(?::([^}]+))?\}", filled, template)
