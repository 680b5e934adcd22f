"""What the explorer has to draw for a record, computed in NumPy, beside what its canvases show."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page

from app.components.explorer.payload import payload
from app.look.palette import PALETTES, Palette, diverging_table, sequential_table
from core.kinds import KINDS
from tests.app.axes import same_places
from tests.app.drawn import Colour, Mark, colour, marks_of, record
from tests.app.explorer_harness import Record, synthetic_record
from tests.app.mounted import Mounted
from tests.app.test_explorer_arithmetic import as_words, groups, sides

SIZE = 0.02
"""Tolerance of a position or length, in px."""


@dataclass(frozen=True)
class Item:
    """A row or column: the tokens that it stands for, its label, and the number of its first."""

    members: tuple[int, ...]
    label: str
    number: int
    special: bool
    unknown: bool
    repeated: bool


def items_of(tokens: Iterable[Any], first: int, unit: str) -> list[Item]:
    """Return the rows or columns of tokens numbered from `first`, by token or by word."""
    tokens = tuple(tokens)
    words = groups(tokens) if unit == "words" else np.arange(len(tokens))
    found = [tuple(np.flatnonzero(words == word)) for word in range(words[-1] + 1)]
    labels = ["".join(tokens[i].text or "␣" for i in members) for members in found]
    return [
        Item(
            tuple(map(int, members)),
            label,
            first + int(members[0]),
            tokens[members[0]].special,
            any(tokens[i].unknown for i in members),
            labels.count(label) > 1 and not tokens[members[0]].special,
        )
        for members, label in zip(found, labels, strict=True)
    ]


@dataclass(frozen=True)
class Scene:
    """A chosen map on a mounted page: its numbers, and the geometry that the canvas publishes.

    `quantity` is (name, numbers [layer, head, query, key]) where other numbers than weights are
    shown; `small` says whether the page is as narrow as a phone. The explorer is driven through its
    controls, and expected values come from the record.
    """

    at: Mounted
    record: Record
    theme: str
    kind: str
    layer: int
    head: int
    unit: str = "pieces"
    hide: bool = False
    quantity: tuple[str, NDArray] | None = None
    combine: str = "mean"
    small: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.layer + 1}.{self.head + 1} {self.unit} {self.theme}"

    def show(self, picture: str = "map") -> None:
        at = f".thumbnail[data-l='{self.layer}'][data-h='{self.head}']:not(.missing)"
        name = self.quantity[0] if self.quantity else "weights"
        self.at.does(
            ("set", "[data-part=quantity]", name),
            *(
                ("press", f"[data-{what}-option={value}]")
                for what, value in (
                    *(("kind", self.kind), ("unit", self.unit)),
                    *(("view", picture), ("combine", self.combine)),
                )
            ),
            ("press", at),
        )
        box = self.page.locator("#host [data-part=hide-eos]")
        if box.is_checked() != self.hide:
            self.at.does(("press", "[data-part=hide-eos]"))

    @property
    def page(self) -> Page:
        return self.at.page

    @property
    def palette(self) -> Palette:
        return PALETTES[self.theme]

    def ink(self, name: str) -> Colour:
        return colour(getattr(self.palette, name))

    # Expected.

    @cached_property
    def items(self) -> tuple[list[Item], list[Item]]:
        """Rows and columns. <bos> is the only token with the number 0."""
        return tuple(
            items_of(tokens, int(not (axis and self.kind == "decoder")), self.unit)
            for axis, tokens in enumerate(sides(self.record, self.kind))
        )

    def maps(self, kind: str) -> NDArray:
        """Return the weights of all heads by token or word, [layer, head, query, key]."""
        maps = getattr(self.record, kind).astype(np.float64)
        return as_words(self.record, kind, maps) if self.unit == "words" else maps

    @cached_property
    def mask(self) -> NDArray:
        mask = getattr(self.record, f"{self.kind}_mask")
        if self.unit == "words":
            mask = as_words(self.record, self.kind, mask[None, None] * 1.0)[0, 0] > 0
        return mask

    @cached_property
    def values(self) -> NDArray:
        """The shown map, 0 where masked; `layer` or `head` equal to its count means all."""
        maps = self.maps(self.kind) if self.quantity is None else self.quantity[1]
        layers, heads = (
            slice(None) if at == count else slice(at, at + 1)
            for at, count in zip((self.layer, self.head), maps.shape, strict=False)
        )
        several = maps[layers, heads]
        one = several.max((0, 1)) if self.combine == "max" else several.mean((0, 1))
        return np.where(self.mask, one, 0)

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The values at both ends of the colour scale."""
        if self.quantity is None:
            return 0.0, 1.0
        name, maps = self.quantity
        unmasked = maps[..., getattr(self.record, f"{self.kind}_mask")]
        low, high = min(0.0, unmasked.min()), 1.0 if name == "rollout" else unmasked.max()
        return (-max(-low, high), max(-low, high)) if name == "scores" else (low, high)

    @cached_property
    def near(self) -> float:
        """The error of a value: other quantities are sent as two bytes."""
        return 1e-6 if self.quantity is None else (self.ends[1] - self.ends[0]) / 65535

    @cached_property
    def table(self) -> NDArray:
        """The colours of the scale, [step, rgb]."""
        signed = self.quantity and self.quantity[0] == "scores"
        return diverging_table(self.theme) if signed else sequential_table(self.theme)

    def steps(self, values: NDArray | float) -> tuple[NDArray, NDArray]:
        """Return the first and last step that a value may have: its error may cross a border."""
        low, high = self.ends
        found = []
        for near_values in (np.asarray(values) - self.near, np.asarray(values) + self.near):
            if self.quantity and self.quantity[0] == "scores":
                found.append(128 + np.round(127 * np.clip(near_values / high, -1, 1)))
            else:
                found.append(np.round(255 * np.clip((near_values - low) / (high - low), 0, 1)))
        return found[0].astype(int), found[1].astype(int)

    def colours(self, value: float) -> set[Colour]:
        """Return the colours that a value may have."""
        return {tuple(map(int, self.table[step])) for step in self.steps(value)}

    def hidden(self) -> list[int]:
        return [k for k, item in enumerate(self.items[1]) if self.hide and item.special]

    def brackets(self, axis: int) -> list[tuple[int, int]]:
        """Return first and last row (axis 0) or column (axis 1) of each word of several tokens."""
        if self.unit == "words":
            return []
        word = groups(sides(self.record, self.kind)[axis])
        spans = [np.flatnonzero(word == w) for w in range(word[-1] + 1)]
        return [(int(span[0]), int(span[-1])) for span in spans if len(span) > 1]

    # Drawn.

    def marks(self, selector: str = "[data-part=map]") -> list[Mark]:
        return marks_of(self.page.locator(f"#host {selector}").first)

    def geometry(self) -> Geometry:
        said = self.page.locator("#host [data-part=map]").evaluate("(map) => ({ ...map.dataset })")
        left, top, cell, query, key = (
            float(said[name]) for name in ("left", "top", "cell", "firstQuery", "firstKey")
        )
        return Geometry(left, top, cell, int(query), int(key))


@dataclass(frozen=True)
class Geometry:
    """Where the cells of a map are, in px; `query` and `key` are the first that are shown."""

    left: float
    top: float
    cell: float
    query: int
    key: int

    def x(self, key: float) -> float:
        return self.left + (key - self.key) * self.cell

    def y(self, query: float) -> float:
        return self.top + (query - self.query) * self.cell


def near(one: Iterable[float], other: Iterable[float], by: float = SIZE) -> bool:
    return all(abs(a - b) <= by for a, b in zip(one, other, strict=True))


def fixed(value: float, digits: int) -> str:
    """Return a number as the page writes it, with a true minus."""
    return f"{value:.{digits}f}".replace("-", "\u2212")


def entropy(weights: NDArray) -> NDArray:
    """Return the entropy of each row, in bits."""
    return -(weights * np.log2(np.where(weights > 0, weights, 1))).sum(-1)


def box(mark: Mark) -> tuple[float, float, float, float]:
    return mark.x, mark.y, mark.width, mark.height


def only(found: Iterable[Mark], what: object) -> Mark:
    """Return the only mark."""
    found = list(found)
    assert len(found) == 1, f"{what}: {len(found)} marks"
    return found[0]


def text_at(marks: list[Mark], words: str, x: float, y: float, align: str) -> Mark:
    """Return the text that is at this place."""
    return only(
        (m for m in marks if m.words == words and m.align == align and near((m.x, m.y), (x, y))),
        f"{words} at {x}, {y}",
    )


def same_boxes(what: str, seen: Iterable[Iterable[float]], expected: Iterable) -> None:
    """Assert that two sets of boxes (or other numbers) are equal within `SIZE`, in any order."""
    seen, expected = ([tuple(one) for one in boxes] for boxes in (seen, expected))
    same_places(seen, expected, SIZE, what)


def direction(arrow: Mark) -> str:
    """Return where an arrow points; "" if its barbs are not on the side that it comes from."""
    (start, *_, end), (one, tip, other) = arrow.lines
    along = np.subtract(end, start) / np.hypot(*np.subtract(end, start))
    back = [float(np.dot(np.subtract(barb, tip), along)) for barb in (one, other)]
    aside = [float(np.dot(np.subtract(barb, tip), along[::-1] * [-1, 1])) for barb in (one, other)]
    if not near(tip, end) or max(back) >= 0 or aside[0] * aside[1] >= 0:
        return ""
    names = {(1, 0): "right", (-1, 0): "left", (0, 1): "down", (0, -1): "up"}
    return names[tuple(round(float(step)) for step in along)]


def labelled(cell: float, largest: float, shown: range, focused: int | None) -> list[int]:
    """Return the rows or columns with a label: as many as fit, and the focused one.

    `largest` is the font size in large cells, in px.
    """
    every = max(1, int(np.ceil(0.92 * max(10.5, min(largest, 0.86 * cell)) / cell)))
    free = lambda i: i % every == 0 and (focused is None or abs(i - focused) >= every)  # noqa: E731
    return [i for i in shown if i == focused or free(i)]


def is_label(words: str, label: str) -> bool:
    """Whether a drawn text is a label, which may be cut."""
    start, dots, rest = words.partition("…")
    whole = label.startswith(start) and label.endswith(rest)
    return words == label or bool(dots and whole)


def runs(row: NDArray) -> list[tuple[int, int]]:
    """Return start and length of each run of True."""
    found, at = [], 0
    for value, group in itertools.groupby(row):
        length = len(list(group))
        if value:
            found.append((at, length))
        at += length
    return found


RECORDS = {"unknown": (2, 3, 3), "short": (3, 2, 2)}  # layers, heads, layers of the decoder


@pytest.fixture(scope="module")
def at(browser: Browser) -> Iterator[Mounted]:
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    record(page)
    yield Mounted(page)
    page.close()
    assert not errors


def mount(at: Mounted, theme: str, made: Record, **more: Any) -> None:
    view = {"kind": "cross", "layer": 0, "head": 0}
    page = PALETTES[theme].page
    at.page.evaluate("(page) => host.style.setProperty('--st-background-color', page)", page)
    at.show(payload(made, view, **more))


@pytest.fixture(params=[("unknown", "dark"), ("short", "light")], ids="-".join)
def shown(request, at: Mounted) -> Scene:
    """A mounted record, as the first scene of it."""
    case, theme = request.param
    made = synthetic_record(case, *RECORDS[case])
    mount(at, theme, made)
    return Scene(at, made, theme, "cross", 0, 0)


def scenes(first: Scene, *units: str, **more) -> Iterator[Scene]:
    """Yield a head of each kind in each unit; the last combines all layers."""
    for unit in units or ("pieces", "words"):
        for n, kind in enumerate(KINDS):
            layers, heads = getattr(first.record, kind).shape[:2]
            layer = layers if n == 2 else (n + 1) % layers
            yield replace(first, kind=kind, layer=layer, head=(n + 1) % heads, unit=unit, **more)
