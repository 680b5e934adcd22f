"""Reads a picture as its reader does: values off the axes, and the files saved from it."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from PIL import Image
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


def ticked(
    ticks: Sequence[Mark], along: str, grid: Sequence[float] | None = None,
    bend: Bend = np.asarray, off: float = 0.6,
) -> Axis:  # fmt: skip
    """Return the axis of labelled ticks: "x" to the right or "y" upwards; `grid`: their lines."""
    at = [getattr(tick, along) for tick in ticks]
    if grid is not None:
        assert sorted(grid) == pytest.approx(sorted(at), abs=0.6), "a line at each tick"
    found = axis(
        [(number(tick.words), position) for tick, position in zip(ticks, at, strict=True)],
        bend,
        off=off,
    )
    assert np.sign(found.slope) == (1 if along == "x" else -1)
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


def same_places(found: ArrayLike, expected: ArrayLike, off: float = 1.0, what: str = "") -> None:
    """Fail unless both hold the same places, each a row of numbers in px, in any order."""
    found, expected = (np.asarray(rows, float) for rows in (found, expected))
    assert found.shape == expected.shape, f"{what}: {len(found)} for {len(expected)}"
    left = list(found)
    for row in expected:
        far = [np.abs(other - row).max() for other in left]
        at = int(np.argmin(far))
        assert far[at] <= off, f"{what}: not at {row}, nearest is {left[at]}"
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
_KINDS = {"path": "line", "image": "pixels", "text": "text"}


def svg_marks(content: str | bytes) -> list[Mark]:
    """Return the marks of an SVG that a component saved, first drawn first; clips are left out."""
    root = ElementTree.fromstring(content)
    clips = {part for clip in root.iter(f"{_TAG}clipPath") for part in clip}
    drawn = {_TAG + name for name in ("rect", *_KINDS)}
    return [_from_svg(part) for part in root.iter() if part.tag in drawn and part not in clips]


def _matrix(transform: str) -> NDArray[np.float64]:
    """Return the matrix of an SVG transform that consists of translations and rotations."""
    matrix = np.eye(3)
    for name, inside in re.findall(r"(\w+)\(([^)]*)\)", transform):
        numbers = [float(part) for part in inside.split()]
        step = np.eye(3)
        if name == "translate":
            step[:2, 2] = numbers
        else:
            cos, sin = np.cos(np.radians(numbers[0])), np.sin(np.radians(numbers[0]))
            step[:2, :2] = [[cos, -sin], [sin, cos]]
        matrix = matrix @ step
    return matrix


def png_pixels(address: str) -> NDArray[np.uint8]:
    """Return the pixels of a PNG in a data URL, [y, x, rgba]."""
    image = Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))
    return np.asarray(image.convert("RGBA"))


def _from_svg(element: ElementTree.Element) -> Mark:
    tag = element.tag.removeprefix(_TAG)
    matrix = _matrix(element.get("transform", ""))
    fill, stroke = element.get("fill", "none"), element.get("stroke", "#000000")
    x, y, width, height = (float(element.get(name, 0)) for name in ("x", "y", "width", "height"))
    size = element.get("font-size", "0")
    y -= 0.35 * float(size)  # the y of a text is its baseline in SVG, but its middle on the canvas
    corners = [(matrix @ (x + dx, y + dy, 1))[:2] for dx in (0, width) for dy in (0, height)]
    x, y = np.min(corners, 0)
    width, height = np.ptp(corners, 0)
    lines: list[list[tuple[float, float]]] = []
    for move, text in re.findall(r"([MLC])([^MLC]*)", element.get("d", "")):
        points = np.array(text.split(), float).reshape(-1, 2)
        if move == "M":
            lines.append([])
        lines[-1] += [(px, py) for px, py in (points @ matrix[:2, :2].T + matrix[:2, 2]).tolist()]
    return Mark(
        what=_KINDS.get(tag, "frame" if fill == "none" else "fill"),
        x=x,
        y=y,
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
        turn=float(np.arctan2(matrix[1, 0], matrix[0, 0])),
        align={"middle": "center", "end": "right"}.get(element.get("text-anchor", ""), "left"),
        font=f"{element.get('font-weight', '400')} {size}px {element.get('font-family')}",
        pixels=png_pixels(element.get("href", "")) if tag == "image" else None,
    )


def same_picture(saved: Sequence[Mark], shown: Sequence[Mark], by: tuple[float, float]) -> None:
    """Fail unless a file shows what a canvas shows, in the same order, `by` px right and below."""
    assert texts(list(saved)) == texts(list(shown)), (texts(list(saved)), texts(list(shown)))
    assert [mark.what for mark in saved] == [mark.what for mark in shown]
    for file, canvas in zip(saved, shown, strict=True):
        assert (file.alpha, file.dash) == (canvas.alpha, canvas.dash), canvas
        if canvas.what == "text":
            assert (file.align, file.font) == (canvas.align, canvas.font), canvas
            assert abs(file.turn - canvas.turn) < 1e-3, canvas
        if canvas.what in ("text", "fill"):
            assert file.fill == canvas.fill, canvas
        elif canvas.what == "pixels":
            assert np.array_equal(file.pixels, canvas.pixels), canvas
        else:
            assert file.stroke == canvas.stroke, canvas
            assert abs(file.thickness - canvas.thickness) < 0.006, canvas
        if canvas.what == "line":
            for one, other in zip(file.lines, canvas.lines, strict=True):
                np.testing.assert_allclose(one, np.array(other) + by, atol=0.03)
            continue
        sizes = ("x", "y") if canvas.what == "text" else ("x", "y", "width", "height")
        expected = [getattr(canvas, name) for name in sizes]
        found = [getattr(file, name) for name in sizes]
        np.testing.assert_allclose(found, expected + np.array([*by, 0, 0][: len(sizes)]), atol=0.03)
