"""What every declared chart must show, given the rows of its table."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from app.figures.chart import Chart
from app.figures.style import diverging
from tests.app.page_checks import axis_titles, is_blue, number, titles
from tests.app.rendered import Rendered, array


def shows_terms(
    page: Rendered, key: str, said: tuple[str, str], unit: str, rows: Sequence[tuple[str, float]],
    true: Sequence[float] = (), ends: tuple | None = None,
) -> None:  # fmt: skip
    """Bars in the order of `rows`, coloured by sign; grey ones of `true`, or intervals `ends`."""
    figure = page.figure(key)
    bars, *grey = figure["data"]
    labels, values = map(list, zip(*rows, strict=True))
    assert (titles(figure), axis_titles(figure)[0]) == (said, unit)
    assert figure["layout"]["yaxis"]["ticktext"] == labels
    np.testing.assert_allclose(array(bars["x"]), values, atol=1e-5)
    assert [is_blue(colour) for colour in bars["marker"]["color"]] == [v >= 0 for v in values]
    bottom, top = figure["layout"]["yaxis"]["range"]
    assert top < bottom and np.allclose(np.diff(array(bars["y"])), 1), "the first row is on top"
    reached, hover = [0, *values], f"%{{customdata}}: <b>%{{x:+.3f}}</b> {unit}<extra></extra>"
    if ends is None:
        assert (bars["customdata"], bars["hovertemplate"]) == (labels, hover)
        assert "error_x" not in bars
    else:
        span = [array(bars["error_x"][name]) for name in ("arrayminus", "array")]
        np.testing.assert_allclose(span, [values - ends[0], ends[1] - values], atol=1e-5)
        written = [" to ".join(number(v, 2, "+") for v in pair) for pair in zip(*ends, strict=True)]
        assert bars["customdata"] == [list(row) for row in zip(labels, written, strict=True)]
        reached += [*ends[0], *ends[1]]
    assert len(grey) == bool(len(true))
    for trace in grey:
        drawn = [np.nan if v is None else float(v) for v in trace["x"]]
        np.testing.assert_allclose(drawn, true, atol=1e-5)
        assert trace["customdata"] == [f"lost without {label}" for label in labels]
        assert trace["hovertemplate"] == hover and (array(trace["y"]) > array(bars["y"])).all()
        reached += [v for v in true if not np.isnan(v)]
    low, high = figure["layout"]["xaxis"]["range"]
    assert low <= min(reached) and max(reached) <= high


def shows_grid(
    page: Rendered, key: str, said: tuple[str, str], rows: Sequence[str], columns: Sequence[str],
    values, texts, hovers, signed: bool = False,
) -> None:  # fmt: skip
    """Words on cells coloured by `values` from 0 or −1 to 1; a text may be cut with an ellipsis."""
    figure = page.figure(key)
    heat, layout = figure["data"][0], figure["layout"]
    assert titles(figure) == said
    assert [layout[axis]["ticktext"] for axis in ("yaxis", "xaxis")] == [list(rows), list(columns)]
    bottom, top = layout["yaxis"]["range"]
    assert top < bottom, "the first row is on top"
    np.testing.assert_allclose(array(heat["z"]), values, atol=1e-4)
    assert (heat["zmin"], heat["zmax"]) == (-1 if signed else 0, 1)
    assert is_blue(heat["colorscale"][-1][1])
    assert not signed or not is_blue(heat["colorscale"][0][1])
    for shown, full in zip(np.ravel(heat["text"]), np.ravel(texts), strict=True):
        assert shown == full or (shown.endswith("…") and full.startswith(shown[:-1]))
    assert heat["customdata"] == [list(row) for row in hovers]


def rows_are_drawn(chart: Chart, theme: str) -> None:
    """Each mark with a hover has its rows in the table, in order, with its places and values.

    Bars coloured by sign are blue from 0 and orange below, and axes reach all values.
    """
    figure = json.loads(chart.figure(theme).to_json())
    below, above = (diverging(theme)[stop][1] for stop in (4, 28))
    rows = iter(chart.rows())
    for mark, trace in zip(chart.marks, figure["data"], strict=False):
        named = getattr(mark, "series", "") or trace.get("name")
        if ("hovertemplate" not in trace.get("link", trace) and not named) or "base" in trace:
            continue  # a decoration
        said = getattr(mark, "said", None)
        if said is not None:
            assert [next(rows)[1:3] for _ in said] == [tuple(one) for one in said]
            continue
        for places, value in drawn_rows(trace, figure["layout"]):
            row = next(rows)
            stated = getattr(mark, "value", None)
            assert row.value == (pytest.approx(value, rel=1e-6) if stated is None else stated)
            for place in places:
                assert place in row.place, (place, row.place)
        if trace["type"] == "bar":
            side = "x" if trace.get("orientation") == "h" else "y"
            values, colours = array(trace[side]), trace["marker"]["color"]
            for value, colour in zip(values, colours, strict=True) if len(colours[0]) > 1 else ():
                assert colour not in (below, above) or colour == (above if value >= 0 else below)
            axis = figure["layout"][f"{side}axis{trace.get(f'{side}axis', side)[1:]}"]
            low, high = axis.get("range", (-np.inf, np.inf))
            assert all(low <= value <= high for value in values if value is not None)
        if trace["type"] == "heatmap":
            z = array(trace["z"])
            assert trace["zmin"] <= np.nanmin(z) and np.nanmax(z) <= trace["zmax"]
    assert next(rows, None) is None, "a row without a mark"


def drawn_rows(trace: dict[str, Any], layout: dict[str, Any]) -> Iterator[tuple[list[str], float]]:
    """Yield for each value of a trace its places, as far as they are labelled, and the value."""
    if trace["type"] == "sankey":
        names, link = trace["node"]["label"], trace["link"]
        for start, end, value, told in zip(
            *(link[name] for name in ("source", "target", "value", "customdata")), strict=True
        ):
            places = [_plain(names[at]) for at in (start, end)]
            yield places, -value if told.startswith("−") else value
        return
    x, y = (layout[f"{side}axis{trace.get(f'{side}axis', side)[1:]}"] for side in "xy")
    if trace["type"] == "heatmap":
        for (row, column), value in np.ndenumerate(array(trace["z"]).astype(float)):
            if not np.isnan(value):
                yield [*_label(y, row), *_label(x, column)], value
        return
    across = trace.get("orientation") == "h" or "error_x" in trace
    places, values = (trace["y"], trace["x"]) if across else (trace["x"], trace["y"])
    for at, value in zip(array(places), array(values), strict=True):
        if value is not None:
            yield _label(y if across else x, round(at)), value


def _label(axis: dict[str, Any], at: int) -> list[str]:
    """Return the label of a place on an axis, if the axis has one."""
    if "ticktext" not in axis or at not in (ticks := list(array(axis["tickvals"]))):
        return []
    return [_plain(axis["ticktext"][ticks.index(at)])]


def _plain(label: str) -> str:
    """Return a label as text, without what marks it as bold, as a subscript or as cut."""
    for mark in ("<b>", "</b>", "<sub>", "</sub>", "\u2066", "\u2069", "…"):
        label = label.replace(mark, "")
    return html.unescape(label.replace("<br>", " "))
