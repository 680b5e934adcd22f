"""Reads a picture as its reader does: values off the axes, and the files saved from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
from numpy.typing import ArrayLike, NDArray
from playwright.sync_api import Page

from app.look.palette import PALETTES, diverging_table, sequential_table
from tests.app.drawn import Colour, Mark, colour, marks_of, texts

Bend = Callable[[NDArray[np.float64]], NDArray[np.float64]]
THEMES = ("light", "dark")


def signed_root(values: ArrayLike) -> NDArray[np.float64]:
    """Return square roots that keep the sign."""
    values = np.asarray(values, float)
    return np.sign(values) * np.sqrt(np.abs(values))


def number(text: str) -> float:
    """Return the number that a tick shows: +0.05, 1,655, 25 % (0.25), …−20."""
    digits = re.sub(r"[…,\s\u00a0]", "", text).replace("−", "-")
    return float(digits.rstrip("%")) / (100 if digits.endswith("%") else 1)


@dataclass(frozen=True)
class Axis:
    """The scale that an axis's ticks define: `bend` of a value grows evenly with its position."""

    slope: float
    start: float
    bend: Bend

    def at(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return where values are, in CSS px."""
        return self.start + self.slope * self.bend(np.asarray(values, float))


def axis(
    ticks: Sequence[tuple[float, float]], bend: Bend = np.asarray, least: int = 3, off: float = 0.6
) -> Axis:
    """Return the axis of ticks [value, position]; fail if they are not on this scale.

    `off` is how far, in px, a tick may be from its place; `least` is the least number of ticks.
    """
    assert len(ticks) >= least, ticks
    values, positions = np.asarray(ticks, float).T
    slope, start = np.polyfit(bend(values), positions, 1)
    found = Axis(float(slope), float(start), bend)
    assert np.abs(found.at(values) - positions).max() <= off, f"not on this scale: {ticks}"
    return found


def set_theme(page: Page, selector: str, theme: str) -> None:
    """Give an element the background from which components tell light from dark."""
    page.locator(selector).evaluate(
        "(part, ground) => part.style.setProperty('--st-background-color', ground)",
        PALETTES[theme].page,
    )


def colours(theme: str) -> dict[str, Colour]:
    """Return the colours of a theme by name: page, ink, second, third, line, …"""
    return {name: colour(value) for name, value in vars(PALETTES[theme]).items()}


def table(theme: str, signed: bool = False) -> list[Colour]:
    """Return the 256 colours of weights, or of −1 to 1."""
    found = diverging_table(theme) if signed else sequential_table(theme)
    return [(int(r), int(g), int(b)) for r, g, b in found]


def ink_on(ground: Colour) -> Colour:
    """Return black or white, whichever has more contrast (WCAG 2.2)."""
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4
              for v in (part / 255 for part in ground)]  # fmt: skip
    luminance = np.dot(linear, (0.2126, 0.7152, 0.0722))
    black, white = (luminance + 0.05) / 0.05, 1.05 / (luminance + 0.05)
    return (0, 0, 0) if black > white else (255, 255, 255)


def within(mark: Mark, box: Mark, by: float = 0.01) -> bool:
    """Return whether a mark is inside a rectangle."""
    return (
        mark.x >= box.x - by
        and mark.y >= box.y - by
        and mark.x + mark.width <= box.x + box.width + by
        and mark.y + mark.height <= box.y + box.height + by
    )


def segments(
    marks: Sequence[Mark], *, stroke: Colour | None = None, alpha: float | None = None
) -> list[tuple[float, ...]]:
    """Return the lines from one point to another, as x, y, x, y."""
    return [
        (*mark.lines[0][0], *mark.lines[0][1])
        for mark in marks
        if mark.what == "line" and [len(line) for line in mark.lines] == [2]
        if stroke in (None, mark.stroke) and alpha in (None, mark.alpha)
    ]


def same_places(found: ArrayLike, expected: ArrayLike, off: float = 1.0) -> None:
    """Fail unless both hold the same places, each a row of numbers in px, in any order."""
    found, expected = (np.asarray(rows, float) for rows in (found, expected))
    assert found.shape == expected.shape
    left = list(found)
    for row in expected:
        far = [np.abs(other - row).max() for other in left]
        at = int(np.argmin(far))
        assert far[at] <= off, f"nothing is drawn at {row.round(1)}: nearest {left[at].round(1)}"
        left.pop(at)


def png_marks(page: Page, save: Callable[[], object]) -> list[Mark]:
    """Return the marks of the PNG, of two pixels per px, that `save` makes a component save."""
    page.evaluate(
        """() => {
            const { toBlob } = HTMLCanvasElement.prototype;
            HTMLCanvasElement.prototype.toBlob = function (...given) {
                window.pictured = this;
                Object.defineProperty(this, "clientWidth", { value: this.width / 2 });
                return toBlob.apply(this, given);
            };
        }"""
    )
    save()
    return marks_of(page.evaluate_handle("pictured"))


_TAG = "{http://www.w3.org/2000/svg}"


def svg_marks(content: str | bytes) -> list[Mark]:
    """Return the marks of an SVG that a component saved, first drawn first."""
    return [
        _from_svg(element)
        for element in ElementTree.fromstring(content).iter()
        if element.tag.removeprefix(_TAG) in ("rect", "path", "text")
    ]


def _from_svg(element: ElementTree.Element) -> Mark:
    tag = element.tag.removeprefix(_TAG)
    shift = re.search(r"translate\((\S+) (\S+)\)", element.get("transform", ""))
    dx, dy = (float(part) for part in shift.groups()) if shift else (0.0, 0.0)
    fill, stroke = element.get("fill", "none"), element.get("stroke", "#000000")
    x, y, width, height = (float(element.get(name, 0)) for name in ("x", "y", "width", "height"))
    lines: list[list[tuple[float, float]]] = []
    for move, text in re.findall(r"([MLC])([^MLC]*)", element.get("d", "")):
        points = np.array(text.split(), float).reshape(-1, 2) + np.array([dx, dy])
        if move == "M":
            lines.append([])
        lines[-1] += [(px, py) for px, py in points.tolist()]
    size = element.get("font-size", "0")
    return Mark(
        what={"rect": "frame" if fill == "none" else "fill", "path": "line"}.get(tag, tag),
        x=x + dx,
        y=y + dy - 0.35 * float(size),
        width=width,
        height=height,
        fill=colour("#000000" if fill == "none" else fill),
        stroke=colour(stroke),
        thickness=float(element.get("stroke-width", 1)),
        alpha=float(element.get("opacity", 1)),
        dash=tuple(float(part) for part in element.get("stroke-dasharray", "").split()),
        clip=None,
        lines=tuple(map(tuple, lines)),
        words=element.text or "" if tag == "text" else "",
        align={"middle": "center", "end": "right"}.get(element.get("text-anchor", ""), "left"),
        font=f"{element.get('font-weight', '400')} {size}px {element.get('font-family')}",
    )


def same_picture(saved: Sequence[Mark], shown: Sequence[Mark], by: tuple[float, float]) -> None:
    """Fail unless a file shows what a canvas shows, in the same order, `by` px right and below."""
    assert texts(list(saved)) == texts(list(shown)), (texts(list(saved)), texts(list(shown)))
    assert [mark.what for mark in saved] == [mark.what for mark in shown]
    for file, canvas in zip(saved, shown, strict=True):
        assert (file.alpha, file.dash) == (canvas.alpha, canvas.dash), canvas
        if canvas.what == "text":
            assert (file.align, file.font) == (canvas.align, canvas.font), canvas
        if canvas.what in ("text", "fill"):
            assert file.fill == canvas.fill, canvas
        else:
            assert (file.stroke, file.thickness) == (canvas.stroke, canvas.thickness), canvas
        if canvas.what == "line":
            for one, other in zip(file.lines, canvas.lines, strict=True):
                np.testing.assert_allclose(one, np.array(other) + by, atol=0.03)
            continue
        sizes = ("x", "y") if canvas.what == "text" else ("x", "y", "width", "height")
        expected = [getattr(canvas, name) for name in sizes]
        found = [getattr(file, name) for name in sizes]
        np.testing.assert_allclose(found, expected + np.array([*by, 0, 0][: len(sizes)]), atol=0.03)
