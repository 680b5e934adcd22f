"""Draw one head's attention map as an SVG picture, for pages that show it without a script."""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from app.components.edits import listed
from app.look.labels import ATTENTION, labels
from app.look.palette import PALETTES, STEPS, sequential_table
from app.views.shared.axes import axes
from core.record.record import TranslationRecord

_FONT = 13  # px
_LETTER, _BOLD = 7.2, 7.8  # px, the mean width of a letter
_CELL, _ROOM = 26, 420  # px: the largest cell, and the largest grid
_HEAD = 52  # px above the column labels: the heading and the axis title
_LINE = 20  # px of a line below the heading, for edits
_FOOT = 50  # px below the grid: the colour scale


def picture(
    record: TranslationRecord,
    kind: str,
    layer: int,
    head: int,
    query: int | None = None,
    theme: str = "light",
    fit: tuple[float, float] | None = None,
) -> str:
    """Return an SVG document of a map: queries on rows, keys on columns, weights from 0 to 1.

    Layer, head and query count from 0; the query's row is framed. Masked cells are hatched. Each
    unmasked cell carries its weight as a tooltip. Edits are below the heading. Cells shrink to
    fit the picture into `fit`, a width and height in px, but never so far that labels overlap.
    """
    colours = PALETTES[theme]
    table = [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in sequential_table(theme)]
    weights, mask = record.maps(kind)[layer, head], record.mask(kind)
    rows, columns = (labels(tokens, first) for tokens, first in axes(record, kind))
    left = 42 + _LETTER * max(map(len, rows))
    edits = ", ".join(one["label"] for one in listed(record.edits, record))
    head_height = _HEAD + (_LINE if edits else 0)
    top = head_height + 12 + _LETTER * max(map(len, columns))
    cell = min(_CELL, _ROOM // max(len(rows), len(columns)))
    if fit is not None:
        across, down = (fit[0] - left - 12) / len(columns), (fit[1] - top - _FOOT) / len(rows)
        cell = max(_FONT, min(_CELL, across, down))
    grid_width, grid_height = cell * len(columns), cell * len(rows)
    query_words, key_words = _roles(record, kind)
    heading = f"{ATTENTION[kind].capitalize()}, layer {layer + 1}, head {head + 1}"
    texts = _BOLD * len(heading), left + _LETTER * len(key_words), 10 + _LETTER * len(edits)
    width = max(left + grid_width, *texts) + 12
    half = _LETTER * len(query_words) / 2 + 4
    height = max(top + grid_height + _FOOT, 2 * half)
    svg = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {width:.0f} {height:.0f}",
            "width": f"{width:.0f}",
            "height": f"{height:.0f}",
            "font-family": "system-ui, Arial, sans-serif",
            "font-size": str(_FONT),
            "fill": colours.ink,
        },
    )
    SubElement(svg, "title").text = f"{heading}: {record.source_text} → {record.translation}"
    _hatching(svg, colours.hatch_ground, colours.hatch)
    _box(svg, 0, 0, width, height, fill=colours.page)
    _text(svg, heading, 10, 20, {"font-weight": "600"})
    _text(svg, key_words, left, head_height - 10, {"fill": colours.second})
    middle = min(max(top + grid_height / 2, half), height - half)
    _text(svg, query_words, 14, middle, {
        "transform": f"rotate(-90 14 {middle:.1f})", "text-anchor": "middle",
        "fill": colours.second,
    })  # fmt: skip
    for row, label in enumerate(rows):
        bold = {"font-weight": "600"} if row == query else {}
        y = top + (row + 0.5) * cell + 4.5
        _text(svg, label, left - 8, y, {"text-anchor": "end"} | bold)
    for column, label in enumerate(columns):
        x = left + (column + 0.5) * cell + 4.5
        _text(svg, label, x, top - 8, {"transform": f"rotate(-90 {x:.1f} {top - 8:.1f})"})
    for row, column in np.ndindex(weights.shape):
        at = left + column * cell, top + row * cell, cell, cell
        if mask[row, column]:
            weight = float(weights[row, column])
            drawn = _box(svg, *at, fill=table[round(weight * (STEPS - 1))], stroke=colours.page)
            SubElement(drawn, "title").text = f"{weight:.4f}"
        else:
            _box(svg, *at, fill="url(#masked)")
    if query is not None:
        row = left - 0.5, top + query * cell - 0.5, grid_width + 1, cell + 1
        _box(svg, *row, fill="none", stroke=colours.ink, line=2)
    if edits:
        _text(svg, edits, 10, 20 + _LINE, {})
    _scale(svg, table, left, top + grid_height + 12, colours.second)
    return tostring(svg, encoding="unicode")


def riddle(
    record: TranslationRecord, kind: str, layer: int, head: int, covered: Sequence[int], theme: str
) -> str:
    """Return an SVG document of a map's cells alone, 5:3, with these rows covered."""
    colours, table = PALETTES[theme], sequential_table(theme)
    weights, mask = record.maps(kind)[layer, head], record.mask(kind)
    rows, columns = weights.shape
    width, height = 100 / columns, 60 / rows
    size = {"width": "100", "height": "60", "viewBox": "0 0 100 60"}
    svg = Element("svg", {"xmlns": "http://www.w3.org/2000/svg"} | size)
    cells = SubElement(svg, "g", {"shape-rendering": "crispEdges"})
    for row, column in np.ndindex(weights.shape):
        red, green, blue = table[round(float(weights[row, column]) * (STEPS - 1))]
        colour = f"#{red:02x}{green:02x}{blue:02x}" if mask[row, column] else colours.hatch
        _box(cells, column * width, row * height, width, height, fill=colour)
    _hatching(svg, colours.hatch_ground, colours.hatch)
    for row in covered:
        _box(svg, 0, row * height, 100, height, fill="url(#masked)")
    if not covered:
        return tostring(svg, encoding="unicode")
    middle = (covered[0] + covered[-1] + 1) / 2 * height
    _box(svg, 43, middle - 7, 14, 14, fill=colours.page)
    mark = {"font-family": "system-ui, sans-serif", "font-size": "14", "font-weight": "700"}
    _text(svg, "?", 50, middle + 5, mark | {"fill": colours.ink, "text-anchor": "middle"})
    return tostring(svg, encoding="unicode")


def _roles(record: TranslationRecord, kind: str) -> tuple[str, str]:
    """Return the titles of the rows and of the columns."""
    queries, keys = (
        record.source_language if kind == "encoder" else record.target_language,
        record.target_language if kind == "decoder" else record.source_language,
    )
    read = {"encoder": "token", "decoder": "token fed in", "cross": "token"}[kind]
    produced = "token being read" if kind == "encoder" else "token being produced"
    return f"query: {queries} {produced}", f"key: {keys} {read}"


def _text(svg: Element, words: str, x: float, y: float, style: dict[str, str]) -> None:
    SubElement(svg, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}"} | style).text = words


def _box(
    parent: Element,
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    fill: str,
    stroke: str = "none",
    line: float = 1,
) -> Element:
    place = {"x": x, "y": y, "width": width, "height": height}
    style = {"fill": fill, "stroke": stroke, "stroke-width": str(line)}
    return SubElement(parent, "rect", {n: f"{v:.1f}" for n, v in place.items()} | style)


def _hatching(svg: Element, ground: str, line: str) -> None:
    """Define the pattern of masked cells, slanted as in the explorer."""
    size = {"width": "6", "height": "6", "patternUnits": "userSpaceOnUse"}
    pattern = SubElement(SubElement(svg, "defs"), "pattern", {"id": "masked"} | size)
    _box(pattern, 0, 0, 6, 6, fill=ground)
    SubElement(pattern, "path", {"d": "M-1 1 1 -1M0 6 6 0M5 7 7 5", "stroke": line})


def _scale(svg: Element, table: list[str], x: float, y: float, colour: str) -> None:
    """Draw the colour scale of the weights, labelled 0, 0.5 and 1."""
    shading = SubElement(SubElement(svg, "defs"), "linearGradient", {"id": "scale"})
    for place in range(0, STEPS, 15):  # 255 = 17 · 15
        offset = f"{place / (STEPS - 1):.4f}"
        SubElement(shading, "stop", {"offset": offset, "stop-color": table[place]})
    _box(svg, x, y, 160, 10, fill="url(#scale)")
    _text(svg, "weight", x - 8, y + 10, {"text-anchor": "end", "fill": colour})
    for words, at, anchor in (("0", 0, "start"), ("0.5", 80, "middle"), ("1", 160, "end")):
        _text(svg, words, x + at, y + 26, {"text-anchor": anchor, "fill": colour})
