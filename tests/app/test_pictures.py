"""Everything that the explorer draws agrees with the record of a bundled model.

Each check reads one part of the pictures, by pixels and in the saved SVG. Faults that the checks
must notice are in tests/mutate/mistakes.txt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page

from app.export.page import page as standalone
from app.figures.style import diverging, sequential
from app.look.palette import PALETTES
from core.analysis.rollout import rollout
from core.experiments.score_parts import scores
from core.experiments.values import value_norms
from core.kinds import KINDS
from core.record.record import TranslationRecord
from core.translator import Translator
from tests.app.pictures import (
    DRIVER,
    NEAR,
    Choice,
    Picture,
    Report,
    Shape,
    Text,
    colour,
    decode,
    either,
    entropy,
    fixed,
)

CHECKPOINT = Path(__file__).parents[2] / "checkpoints/scratch-de-en"
# Words of several tokens and repeated words on both sides, and maps that are not square.
SOURCE = "Ein Straßenmusiker und ein Hund spielen vor der Kirche auf der Straße."
TARGET = "A street musician and a dog are playing in front of the church on the street."
LONG = (
    "Ein junger Mann, der mit einem weiteren jungen Mann unterwegs ist, blickt sich nach drei "
    "Mädchen um, an denen sie gerade vorbeigegangen sind, während der Kapitän in einem blauen "
    "Kleid vor einem Haus steht und ein brauner Hund durch das hohe Gras läuft, und zwei Kinder "
    "auf einer Bank winken ihnen zu, bevor es stark regnet und alle nach Hause gehen."
)
INK = PALETTES["light"]
MAP = "[data-part=map]"
THUMBNAILS = ".overview-maps"


@dataclass(frozen=True)
class Shown:
    """A chosen head, its record's values [query, key] and the geometry of its map."""

    choice: Choice
    values: NDArray
    mask: NDArray
    left: float
    top: float
    cell: float
    width: float
    height: float

    def __str__(self) -> str:
        choice = self.choice
        return f"{choice.view} of {choice.kind} {choice.layer + 1}.{choice.head + 1} {choice.unit}"

    @property
    def right(self) -> float:
        return self.left + self.mask.shape[1] * self.cell

    @property
    def bottom(self) -> float:
        return self.top + self.mask.shape[0] * self.cell

    def inside(self, x: float, y: float) -> tuple[int, int] | None:
        """Return the cell (query, key) at a point."""
        query, key = int((y - self.top) // self.cell), int((x - self.left) // self.cell)
        queries, keys = self.mask.shape
        return (query, key) if 0 <= query < queries and 0 <= key < keys else None

    def grid(self) -> tuple[list[int], list[int]]:
        """Return an x in every column and a y in every row, away from digits and frames."""
        at = 3 if self.cell >= 12 else self.cell / 2
        queries, keys = self.mask.shape
        xs = [int(self.left + key * self.cell + at) for key in range(keys)]
        return xs, [int(self.top + query * self.cell + at) for query in range(queries)]

    def squares(self, shapes: list[Shape]) -> NDArray:
        """Return the colour of the filled square in each cell of a saved picture, -1 for none."""
        found = np.full((*self.mask.shape, 3), -1)
        side = self.cell - (1 if self.cell > 9 else 0)
        for rect in shapes:
            if rect.tag != "rect" or not rect.fill.startswith("rgb") or rect.width != side:
                continue
            place = self.inside(rect.x + side / 2, rect.y + side / 2)
            if place and (self.left + place[1] * self.cell, side) == (rect.x, rect.height):
                found[place] = colour(rect.fill)
        return found

    def row_words(self, texts: list[Text]) -> tuple[dict, dict]:
        """Return labels and numbers to the left of the grid, by row."""
        words, numbers = {}, {}
        for text in texts:
            row = int((text.y - self.top) // self.cell)
            middle = self.top + (row + 0.5) * self.cell
            if text.turn or text.align != "right" or not 0 < text.x <= self.left:
                continue
            if 0 <= row < len(self.mask) and abs(text.y - middle) <= 1.5:
                (words if text.label else numbers)[row] = text.words
        return words, numbers

    def column_words(self, texts: list[Text]) -> tuple[dict, dict]:
        """Return slanted labels and numbers above the grid, by the column to which they lead."""
        words, numbers = {}, {}
        for text in texts:
            if not text.turn or text.y > self.top:
                continue
            foot = text.x + (text.y - (self.top - 9)) / np.tan(-text.turn)
            column = int((foot - self.left) // self.cell)
            if 0 <= column < self.mask.shape[1]:
                (words if text.label else numbers)[column] = text.words
        return words, numbers


def shown(picture: Picture, choice: Choice, part: tuple = np.s_[:, :]) -> Shown:
    """Return the head on screen; `part` is the visible part of an enlarged map."""
    values, mask = picture.values(choice)
    return Shown(choice, values[part], mask[part], **picture.do("geometry"))


def each_kind(picture: Picture, *units: str, **more: object) -> Iterator[Shown]:
    """Show and yield a head of each kind in each unit."""
    for unit in units or ("pieces",):
        for place, kind in enumerate(KINDS):
            layer = (place + 1) % picture.layers[kind]
            head = (3 * place + 2) % picture.heads
            choice = Choice(kind, layer, head, unit=unit, **more)
            picture.show(choice)
            yield shown(picture, choice)


# The map.


def check_cells(picture: Picture, report: Report) -> None:
    """The canvas has the right colours for heads of every layer, means, maxima and merged words."""
    for kind in KINDS:
        layers, heads = picture.layers[kind], picture.heads
        single = [(x, (3 * x + y) % heads) for x in range(layers) for y in (0, 5)]
        several = [(1, heads), (layers, 2), (layers, heads)]
        for places, unit, combine in [
            (single + several, "pieces", "mean"),
            ([(2, heads), (layers, heads)], "pieces", "max"),
            ([(0, 3), (layers - 1, 1), (1, heads)], "words", "mean"),
        ]:
            choice = Choice(kind, 0, 0, unit=unit, combine=combine)
            picture.show(choice)
            one = shown(picture, choice)
            pixels = np.frombuffer(picture.bytes("heads", places, *one.grid()), np.uint8)
            cells = pixels.reshape(-1, *one.mask.shape, 4)
            for (layer, head), seen in zip(places, cells, strict=True):
                values, mask = picture.values(replace(choice, layer=layer, head=head))
                where = f"{kind} {layer}.{head} {unit} {combine}"
                picture.cell_colours(report, where, seen, values, mask)


def check_saved_cells(picture: Picture, report: Report) -> None:
    """The saved SVG has exactly the unmasked cells; its colours and the saved PNG's are right."""
    for one in each_kind(picture, "pieces", "words"):
        cells = one.squares(picture.svg()[1])
        report.same(f"{one}, cells", (cells >= 0).all(-1).tolist(), one.mask.tolist())
        picture.cell_colours(report, f"SVG, {one}", cells, one.values, one.mask)
    pixels = decode(picture.do("saved", "map-png"))
    origin = np.array(pixels.shape[:2]) / 2 - [one.height, one.width] - 12
    (xs, ys), (y0, x0) = one.grid(), origin
    cells = pixels[np.ix_([int(2 * (y + y0)) for y in ys], [int(2 * (x + x0)) for x in xs])]
    picture.cell_colours(report, f"PNG, {one}", cells, one.values, one.mask)


def check_digits(picture: Picture, report: Report) -> None:
    """Cells of 0.095 or more show a number, in the SVG and as ink on the canvas; others do not."""
    for one in each_kind(picture):
        assert one.cell >= 23, "cells of this size have digits"
        digits = {
            one.inside(text.x, text.y): text.words
            for text in picture.svg()[0]
            if text.align == "center" and not text.turn
        }
        digits.pop(None, None)
        pixels = picture.image(MAP)[..., :3]
        for q, k in zip(*np.nonzero(one.mask), strict=True):
            value, where = one.values[q, k], f"{one}, cell {q}, {k}"
            expected = {
                "" if v < 0.095 else "1" if v >= 0.995 else fixed(v, 2)[1:]
                for v in (value - NEAR, value + NEAR)
            }
            seen = digits.pop((q, k), "")
            report.true(where, seen in expected, f"{seen}, not {expected}")
            if abs(value - 0.095) > 0.001:
                x, y = int(one.left + k * one.cell), int(one.top + q * one.cell)
                side = int(one.cell) - 2
                cell = pixels[y + 2 : y + side, x + 2 : x + side]
                ink = int((cell != cell[0, 0]).any(-1).sum())
                report.same(f"{where}, ink", ink > 4, value >= 0.095)
        report.same(f"{one}, digits in masked cells", digits, {})


def check_canvas_and_svg_have_the_same_texts(picture: Picture, report: Report) -> None:
    for view in ("map", "lines"):
        for one in each_kind(picture, "pieces", "words", view=view):
            saved = {(t.words, round(t.x), round(t.y), t.align) for t in picture.svg()[0]}
            for text in picture.texts(MAP):
                place = [(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
                ways = {
                    (text.words, round(text.x) + dx, round(text.y) + dy, text.align)
                    for dx, dy in place
                }
                report.true(f"{one}, {text.words}", ways & saved, f"{text}")


def check_fed_tokens(picture: Picture, report: Report) -> None:
    """Rows of a saved picture name the token fed in, beside the one produced."""
    fed = picture.record.target_in
    for view in ("map", "lines"):
        for one in each_kind(picture, "pieces", "words", view=view):
            texts, lines = picture.svg()[0], view == "lines"
            align = "left" if lines else "right"
            column = [t for t in texts if (t.x > one.width if lines else t.x < 0) and t.y > 0]
            column = [t for t in column if t.align == align]
            if one.choice.kind == "encoder":
                report.same(f"{one}", column, [])
                continue
            rows = picture.members(one.choice, 0)
            expected = [" ".join(fed[i].text for i in tokens) for tokens in rows]
            report.same(f"{one}", [t.words for t in column], ["fed in", *expected])
            heights = [one.top + (q + 0.5) * one.cell + 1 for q in range(len(rows))]
            if lines:
                heights = [t.y for t in line_words(texts, "right")]
            for text, y in zip(column[1:], heights, strict=True):
                report.near(f"{one}, height of {text.words}", text.y, y, 0.1)
        pixels = decode(picture.do("saved", "map-png"))
        more = pixels.shape[1] // 2 - 24 - int(one.width)
        report.true(f"{one}, room in the PNG", more > 30, str(more))
        margin = pixels[100:, -24 - 2 * more : -24] if lines else pixels[100:, 24 : 24 + 2 * more]
        inked = (margin[..., :3].min(-1) < 140).any(1)
        report.true(f"{one}, words in the PNG", inked.sum() > 8 * len(expected))


def bar_lengths(pixels: NDArray) -> float:
    """Return the length of a bar along a strip of pixels; its colour is `INK.third`."""
    dark = pixels[:, 3] / 255 * (255 - pixels[:, 0].astype(float))
    return dark.sum() / (255 - colour(INK.third)[0])


def check_entropy(picture: Picture, report: Report) -> None:
    """Beside each row is its entropy, as a number and as a bar, on the canvas and in the SVG."""
    for one in each_kind(picture):
        right, pixels = int(one.right + 10), picture.image(MAP)
        texts, shapes = picture.svg()
        for row, bits in enumerate(entropy(one.values)):
            middle = one.top + (row + 0.5) * one.cell
            beside = {t.words for t in texts if t.x > right + 30 and abs(t.y - middle) < 2}
            ways = either(bits, 0.002, 1)
            report.true(f"{one}, row {row}", beside & ways, f"{beside}, not {ways}")
            length = max(1.0, 34 * bits / np.log2(one.mask.shape[1]))
            bars = [s.width for s in shapes if s.x == right and s.y < middle < s.y + s.height]
            drawn = bar_lengths(pixels[int(middle), right : right + 36])
            for seen in (sum(bars), drawn):
                report.near(f"{one}, bar of row {row}", seen, length, 0.6)


def check_received(picture: Picture, report: Report) -> None:
    """A bar below each column is its share of all weight; texts state the largest and the scale."""
    for one in each_kind(picture):
        share, foot, pixels = one.values.mean(0), one.bottom + 8, picture.image(MAP)
        full = max(0.25, share.max())
        texts, shapes = picture.svg()
        for column, expected in enumerate(share):
            middle = one.left + (column + 0.5) * one.cell - 1
            bars = [s.height for s in shapes if s.y == foot and s.x < middle < s.x + s.width]
            drawn = bar_lengths(pixels[int(foot) : int(foot) + 24, int(middle)])
            for seen in (sum(bars), drawn):
                length = max(1.0, 24 * expected / full)
                report.near(f"{one}, bar of column {column}", seen, length, 0.6)
        said = [t for t in texts if t.words.endswith("\u00a0%") and t.y > foot]
        percents = lambda value: {f"{100 * (value + d):.0f}\u00a0%" for d in (-1e-4, 1e-4)}  # noqa: E731
        whole = {t.words.removeprefix("full bar: ") for t in said if t.x < one.left}
        report.true(f"{one}, full bar", len(whole) == 1 and whole <= percents(full), f"{whole}")
        largest = [t for t in said if t.x >= one.left]
        most = int(share.argmax())
        at = [int((t.x - one.left) / one.cell) for t in largest]
        report.same(f"{one}, column in words", at, [most])
        report.true(f"{one}, in words", {t.words for t in largest} <= percents(share[most]))


def check_frames(picture: Picture, report: Report) -> None:
    """The pinned row, column, cell and words are framed, in the SVG and on the canvas."""
    for one in each_kind(picture):
        left, top, cell = one.left, one.top, one.cell
        width, height = one.right - left, one.bottom - top
        before = picture.image(MAP).astype(int)
        q, k = len(one.mask) - 3, 4
        picture.do("keep", q, k)
        report.same(f"{one}, pinned", picture.do("said")["query"], str(q))
        boxes = {
            (s.x, s.y, s.width, s.height)
            for s in picture.svg()[1]
            if s.tag == "rect" and s.fill == "none" and colour(s.stroke) == colour(INK.ink)
        }
        expected = {
            (left - 0.5, top + q * cell - 0.5, width, cell),
            (left + k * cell - 0.5, top - 0.5, cell, height),
            (left + k * cell - 1, top + q * cell - 1, cell + 1, cell + 1),
        }
        report.same(f"{one}, SVG", boxes, expected)
        row = ("source", q) if one.choice.kind == "encoder" else ("target", q + 1)
        key = ("target" if one.choice.kind == "decoder" else "source", k)
        framed = {tuple(place) for place in picture.do("framed")}
        report.same(f"{one}, words", framed, {row, key})
        changed = np.abs(picture.image(MAP).astype(int) - before).max(-1) > 20
        x, y = int(left + (k + 3.5) * cell), int(top + (q - 3) * cell + cell - 3)
        rows = np.flatnonzero(changed[int(top) : int(one.bottom), x]) + int(top)
        columns = np.flatnonzero(changed[y, int(left) : int(one.right)]) + int(left)
        for axis, seen, at in (("row", rows, top + q * cell), ("column", columns, left + k * cell)):
            lines = [int(at) - 1, int(at) + int(cell) - 1]
            report.same(f"{one}, {axis} on the canvas", seen.tolist(), lines)


def check_masked(picture: Picture, report: Report) -> None:
    """Exactly the masked cells are hatched."""
    ground, line = colour(INK.hatch_ground), colour(INK.hatch)
    for one in each_kind(picture):
        pixels, cell = picture.image(MAP)[..., :3].astype(int), int(one.cell)
        for q, k in np.ndindex(one.mask.shape):
            x, y = int(one.left + k * cell), int(one.top + q * cell)
            block = pixels[y + 2 : y + cell - 2, x + 2 : x + cell - 2].reshape(-1, 3)
            grey = ((block >= line) & (block <= ground)).all(-1)
            hatched = bool(grey.all() and np.ptp(block[:, 0]) > 30)
            report.same(f"{one}, {q}, {k} hatched", hatched, not one.mask[q, k])
        saved = [
            (round((s.y - one.top) / cell), round((s.x - one.left) / cell) + i)
            for s in picture.svg()[1]
            if s.tag == "rect" and colour(s.fill) == ground
            for i in range(round(s.width / cell))
        ]
        masked = [tuple(map(int, place)) for place in np.argwhere(~one.mask)]
        report.same(f"{one}, SVG", sorted(saved), sorted(masked))


def check_hidden_column(picture: Picture, report: Report) -> None:
    """A hidden column keeps its place, with grey bars as long as each row's weight."""
    for one in each_kind(picture, hide=("eos",)):
        key = 0 if one.choice.kind == "decoder" else one.mask.shape[1] - 1
        bars = {
            one.inside(s.x, s.y): s.width
            for s in picture.svg()[1]
            if s.tag == "rect" and colour(s.fill) == colour(INK.third)
        }
        bars.pop(None, None)
        for q, weight in enumerate(one.values[:, key]):
            length = (one.cell - 2) * weight
            report.near(f"{one}, row {q}", bars.pop((q, key), -1), length, 0.02)
        report.same(f"{one}, bars in other cells", bars, {})


def check_nothing_is_cut(picture: Picture, report: Report) -> None:
    """No text extends beyond its canvas."""
    for view in ("map", "lines"):
        for one in each_kind(picture, view=view):
            for text in picture.texts():
                back = {"left": 0, "center": 0.5, "right": 1}[text.align] * text.width
                along = np.array([np.cos(text.turn), np.sin(text.turn)])
                start = np.array([text.x, text.y]) - back * along
                x, y = np.array([start, start + text.width * along]).T
                inside = x.min() >= -0.5 and x.max() <= one.width + 0.5 and y.min() >= 4
                inside = inside and y.max() <= one.height - 4
                report.true(f"{one}, {text.words}", inside, f"{x} {y}")


# The lines.


def line_words(texts: list[Text], side: str) -> list[Text]:
    """Return the labels of one of the two columns, from top to bottom."""
    align = {"left": "right", "right": "left"}[side]
    return sorted((t for t in texts if t.label and t.align == align), key=lambda t: t.y)


def drawn_lines(picture: Picture) -> tuple[list[tuple[int, int, Shape, list]], list[Text]]:
    """Return the saved picture's lines, each with the key and query at its ends, and its texts."""
    texts, shapes = picture.svg()
    keys, queries = ([t.y - 1 for t in line_words(texts, side)] for side in ("left", "right"))
    lines = []
    for shape in shapes:
        if "C" not in shape.path:
            continue
        numbers = [float(n) for n in re.findall(r"-?[\d.]+", shape.path)]
        ends = []
        for heights, y in ((keys, numbers[1]), (queries, numbers[-1])):
            away = np.abs(np.array(heights) - y)
            ends.append(int(away.argmin()) if away.min() < 1 else -1)
        lines.append((*ends, shape, numbers))
    return lines, texts


def fewest(weights: NDArray, share: float) -> tuple[set, set]:
    """Return the cells that are certainly, and possibly, among the fewest to cover the share."""
    sure, maybe = set(), set()
    for query, row in enumerate(weights):
        held, doubt = 0.0, 2 * NEAR * (1 + len(row))
        for key in np.argsort(-row, kind="stable"):
            if row[key] <= 0:
                break
            if held < share * row.sum() - doubt:
                sure.add((query, int(key)))
            if held < share * row.sum() + doubt:
                maybe.add((query, int(key)))
            held += row[key]
    return sure, maybe


def check_lines_ends(picture: Picture, report: Report) -> None:
    """Lines are exactly the fewest cells that cover 70 % of each row, from key to query."""
    for one in each_kind(picture, "pieces", "words", view="lines"):
        lines, _ = drawn_lines(picture)
        sure, maybe = fewest(one.values, 0.7)
        cells = [(query, key) for key, query, _, _ in lines]
        report.same(f"{one}, duplicates", len(cells), len(set(cells)))
        report.same(f"{one}, missing", sure - set(cells), set())
        report.same(f"{one}, too many", set(cells) - maybe, set())
        report.compared += len(cells)
        # On the canvas, lines start at these keys and no others.
        pixels, left = picture.image(MAP), int(lines[0][3][0]) + 1
        blank = (pixels[:, left, 3] == 0) | (pixels[:, left, :3] == 255).all(-1)
        for key, text in enumerate(line_words(picture.texts(MAP), "left")):
            drawn = not blank[int(text.y - 1)]
            report.same(f"{one}, canvas, key {key}", drawn, key in {k for _, k in cells})


def check_lines_of_a_row(picture: Picture, report: Report) -> None:
    """A pinned row's lines are opaque, all others faint; its keys are shaded and numbered."""
    for one in each_kind(picture, view="lines"):
        query = len(one.values) - 3
        at = line_words(picture.svg()[0], "right")[query]
        picture.do("keepAt", at.x + 5, at.y)
        report.same(f"{one}, pinned", picture.do("said")["query"], str(query))
        lines, texts = drawn_lines(picture)
        for key, row, shape, _ in lines:
            report.same(f"{one}, {row}, {key}", shape.opacity < 0.5, row != query)
        grounds = [s for s in picture.svg()[1] if s.tag == "rect" and s.fill.startswith("rgb")]
        numbers = [t for t in texts if not t.label and t.align == "left" and t.x < one.width]
        numbers = [t for t in numbers if re.fullmatch(r"\d*\.\d+", t.words)]
        for key, word in enumerate(line_words(texts, "left")):
            where, value, y = f"{one}, word {key}", one.values[query, key], word.y - 1
            under = [colour(s.fill) for s in grounds if s.y < y < s.y + s.height]
            if abs(value - 0.02) > NEAR and one.mask[query, key]:
                report.same(f"{where}, shaded", len(under), int(value >= 0.02))
            if under:
                picture.has_colour(report, where, under[0], value)
            if abs(value - 0.05) > NEAR:
                beside = next((t.words for t in numbers if 0 < y - t.y < 13), "")
                expected = either(value, NEAR, 2) if value >= 0.05 else {""}
                report.true(f"{where}, number", beside in expected, f"{beside}, not {expected}")


# The overview and the measures.


def in_order(frames: list[dict]) -> list[dict]:
    """Return thumbnails as arranged on the page, row by row."""
    return sorted(frames, key=lambda frame: (frame["top"], frame["left"]))


def thumbnail(pixels: NDArray, frame: dict, shape: tuple[int, int]) -> NDArray:
    """Return the pixel in the middle of each cell of a thumbnail."""
    ys, xs = (
        [int(frame[side] + (i + 0.5) * frame["size"] / n) for i in range(n)]
        for side, n in zip(("top", "left"), shape, strict=True)
    )
    return pixels[np.ix_(ys, xs)]


def own_thumbnail(picture: Picture, shape: tuple[int, int]) -> NDArray:
    """Return the pixel in the middle of each cell of the chosen head's thumbnail."""
    [frame] = [f for f in picture.do("thumbnails") if f["outlineWidth"] == "2px"]
    return thumbnail(picture.image(THUMBNAILS), frame, shape)


def check_thumbnails(picture: Picture, report: Report) -> None:
    """Every cell of every thumbnail has the right colour; masked cells are grey."""
    for kind in KINDS:
        layers, heads = picture.layers[kind], picture.heads
        picture.show(Choice(kind, 0, 0))
        frames, pixels = in_order(picture.do("thumbnails")), picture.image(THUMBNAILS)
        report.same(f"{kind}, thumbnails", len(frames), (layers + 1) * (heads + 1))
        for index, frame in enumerate(frames):
            layer, head = divmod(index, heads + 1)
            values, mask = picture.values(Choice(kind, layer, head))
            cells, where = thumbnail(pixels, frame, mask.shape), f"{kind} {layer}.{head}"
            picture.cell_colours(report, where, cells, values, mask)
            grey = (cells[..., :3] == (226, 227, 230)).all(-1)
            report.same(f"{where}, masked", grey[~mask].all(), True)


ROLES = {  # key minus query
    "encoder": {"prev": -1, "self": 0, "next": 1, "eos": None},
    "decoder": {"prev": 0, "2 back": -1, "bos": 0},  # row q is named by the token after key q
    "cross": {"eos": None},
}


def caption(picture: Picture, choice: Choice) -> tuple[str, float, str]:
    """Return a head's caption: word, number and unit."""
    values, _ = picture.values(choice)
    rows, keys = values.shape
    shares = {}
    for role, step in ROLES[choice.kind].items():
        first = 2 if choice.kind == "decoder" else 0
        at = {"eos": lambda q: keys - 1, "bos": lambda q: 0}.get(role, lambda q, s=step: q + s)
        shares[role] = np.mean([values[q, at(q)] for q in range(first, rows) if 0 <= at(q) < keys])
    role = max(shares, key=shares.get)
    peak = float(values.max(1).mean())
    if shares[role] >= 0.3 or peak >= 0.5:
        word, share = (role, shares[role]) if shares[role] >= 0.3 else ("largest", peak)
        return word, 100 * share, "\u00a0%"
    return "entropy", float(entropy(values).mean()), " b"


def same_caption(report: Report, where: str, seen: tuple[str, str], expected: tuple) -> None:
    word, value, unit = expected
    digits = 1 if unit == " b" else 0
    ways = {f"{value + d:.{digits}f}{unit}" for d in (-0.01, 0.01)}
    report.true(where, seen[0] == word and seen[1] in ways, f"{seen}, not {word} {ways}")


def check_captions(picture: Picture, report: Report) -> None:
    """Each thumbnail has its head's caption below it."""
    for kind in KINDS:
        picture.show(Choice(kind, 0, 0))
        texts = picture.texts(THUMBNAILS)
        for index, frame in enumerate(in_order(picture.do("thumbnails"))):
            choice = Choice(kind, *divmod(index, picture.heads + 1))
            left, foot = frame["left"], frame["top"] + frame["size"]
            under = [t for t in texts if foot < t.y < foot + 30]
            under = [t for t in under if left - 2 <= t.x <= left + frame["size"]]
            seen = tuple("".join(t.words for t in under if t.label == label) for label in (1, 0))
            same_caption(report, f"{choice}", seen, caption(picture, choice))


def check_saved_overview(picture: Picture, report: Report) -> None:
    """The saved overview has each head's thumbnail above its number and caption."""
    for kind in KINDS:
        picture.show(Choice(kind, 1, 1))
        counts = picture.layers[kind], picture.heads
        texts, shapes = picture.svg("overview-svg")
        images = [shape for shape in shapes if shape.tag == "image"]
        report.same(f"{kind}, pictures", len(images), (counts[0] + 1) * (counts[1] + 1))
        for image in images:
            under = [t for t in texts if 0 < t.y - image.y - image.height < 20]
            words = [t.words for t in under if t.align == "left" and abs(t.x - image.x) < 2]
            end = image.x + image.width
            numbers = [t.words for t in under if t.align == "right" and abs(t.x - end) < 2]
            place, _, word = "".join(words).partition("  ")
            layer, head = (
                count if part == "all" else int(part or 0) - 1
                for part, count in zip((place + "..").split(".")[:2], counts, strict=True)
            )
            choice = Choice(kind, layer, head)
            values, mask = picture.values(choice)
            cells = decode(image.href)
            report.same(f"{choice}, size", cells.shape[:2], mask.shape)
            if cells.shape[:2] == mask.shape:
                picture.cell_colours(report, f"{choice}", cells, values, mask)
            expected = caption(picture, choice)
            if word.endswith("…") and expected[0].startswith(word[:-1]):
                word = expected[0]  # truncated for lack of space
            same_caption(report, f"{choice}", (word, "".join(numbers)), expected)


def check_chosen_head(picture: Picture, report: Report) -> None:
    """Only the chosen head's thumbnail is framed; the saved picture's title names that head."""
    for kind, layer, head in (
        *(("encoder", 2, picture.heads // 2), ("decoder", 0, picture.heads - 1)),
        ("cross", 3, 0),
    ):
        picture.show(Choice(kind, layer, head))
        framed = [
            divmod(index, picture.heads + 1)
            for index, frame in enumerate(in_order(picture.do("thumbnails")))
            if frame["outlineWidth"] == "2px" and colour(frame["outlineColor"]) == colour(INK.ink)
        ]
        report.same(kind, framed, [(layer, head)])
        title = picture.svg()[0][0].words
        report.true(f"{kind}, SVG", title.startswith(f"Layer {layer + 1}, head {head + 1}"), title)
        report.compared += 2


# Themes and scales.


def check_scale(picture: Picture, report: Report, name: str, colours: list) -> None:
    """The legend has the colours of the figures."""
    scale, signed = picture.scale(name).astype(int), name == "scores"
    for at, css in colours:
        step = 128 + round(127 * (2 * at - 1)) if signed else round(255 * at)
        away = np.abs(scale[step] - colour(css)).max()
        report.true(f"{name}, colour at {at:.2f}", away <= 2, f"{scale[step]}, not {css}")


def check_legend(picture: Picture, report: Report) -> None:
    """The scale goes from 0 to 1; hatching is explained if there is any."""
    check_scale(picture, report, "light", sequential("light"))
    for one in each_kind(picture):
        expected = {"low": "0", "high": "1", "masked": one.choice.kind == "decoder"}
        report.same(f"legend of {one}", picture.do("legend"), expected)
    hatch = picture.image("[data-part=hatch]")[..., :3].reshape(-1, 3)
    report.true("hatching in the legend", np.ptp(hatch[:, 0].astype(int)) > 30)


def check_dark(picture: Picture, report: Report) -> None:
    """A dark page has the figures' dark scale, on the map and in the thumbnails."""
    picture.page.emulate_media(color_scheme="dark")
    picture.page.wait_for_selector(".explorer[data-theme=dark]")
    try:
        check_scale(picture, report, "dark", sequential("dark"))
        for one in each_kind(picture):
            for cells in (
                picture.sample(MAP, *one.grid()),
                own_thumbnail(picture, one.mask.shape),
            ):
                picture.cell_colours(report, f"{one}", cells, one.values, one.mask, scale="dark")
    finally:
        picture.page.emulate_media(color_scheme="light")
        picture.page.wait_for_selector(".explorer[data-theme=light]")


def check_quantities(picture: Picture, report: Report) -> None:
    """Scores, norms and rollout have the right colours, digits, thumbnails and scale ends."""
    [(quantity, numbers)] = picture.quantities.items()
    signed = quantity == "scores"
    for kind in KINDS:
        unmasked = numbers[kind][..., picture.record.mask(kind)]
        low, high = min(0.0, unmasked.min()), 1.0 if quantity == "rollout" else unmasked.max()
        limit = max(-low, high)
        near = (high - low) / 65535 + 1e-5
        ends = {"low": -limit, "high": limit} if signed else {"low": low, "high": high}
        heads = [picture.heads] if quantity == "rollout" else [1, picture.heads - 2]
        for layer, head in ((la, h) for la in (0, picture.layers[kind] - 1) for h in heads):
            choice = Choice(kind, layer, head, quantity=quantity)
            picture.show(choice)
            one = shown(picture, replace(choice, head=head % picture.heads))
            # Step 128 is 0; scores have 127 steps on either side.
            shares, within = (one.values - low) / (high - low), near / (high - low)
            if signed:
                shares, within = (128 + 127 * one.values / limit) / 255, near * 127 / 255 / limit
            for where, cells in (
                (f"{quantity}, {one}", picture.sample(MAP, *one.grid())),
                (f"{quantity}, SVG, {one}", one.squares(picture.svg()[1])),
                (f"{quantity}, thumbnail, {one}", own_thumbnail(picture, one.mask.shape)),
            ):
                picture.cell_colours(report, where, cells, shares, one.mask, within, quantity)
            texts = [t for t in picture.texts() if t.align == "center"]
            digits = {one.inside(t.x, t.y): t.words for t in texts}
            for q, k in zip(*np.nonzero(one.mask), strict=True):
                value, seen = one.values[q, k], digits.get((q, k), "")
                ways = {digits_of(quantity, value + d, high) for d in (-near, 0, near)}
                report.true(f"{quantity}, {one}, {q}, {k}", seen in ways, f"{seen}, not {ways}")
            legend = picture.do("legend")
            for end, value in ends.items():
                ways = {fixed(value, 1), fixed(value, 0)}
                report.true(f"{quantity}, {one}, {end} end", legend[end] in ways, f"{legend}")
    check_scale(picture, report, quantity, diverging("light") if signed else sequential("light"))


def digits_of(quantity: str, value: float, high: float) -> str:
    if quantity == "scores":
        return fixed(value, 1).replace("\u22120.0", "0.0")
    if value < 0.095 * high:
        return ""
    if high == 1:
        return "1" if value >= 0.995 else fixed(value, 2)[1:]
    return fixed(value, 0) if value >= 9.95 else fixed(value, 1).removeprefix("0")


# Long sentences.


def check_long_sentence(picture: Picture, report: Report) -> None:
    """A long sentence has all its rows and columns, on the canvas and in the saved SVG."""
    for one in each_kind(picture):
        assert min(one.mask.shape) > 30
        report.true("too small for gaps", one.cell <= 9, str(one.cell))
        cells = picture.sample(MAP, *one.grid())
        picture.cell_colours(report, f"canvas, {one}", cells, one.values, one.mask)
        texts, shapes = picture.svg()
        cells = one.squares(shapes)
        report.same(f"{one}, cells", ((cells >= 0).all(-1) != one.mask).sum(), 0)
        picture.cell_colours(report, f"SVG, {one}", cells, one.values, one.mask)
        every = int(np.ceil(10.5 * 0.92 / one.cell))
        for words, labels in zip(
            (one.row_words(texts)[0], one.column_words(texts)[0]),
            picture.labels(one.choice),
            strict=True,
        ):
            expected = {i: labels[i] for i in range(0, len(labels), every)}
            report.same(f"{one}, labels", words, expected)
        frame = [(s.x, s.y, s.x + s.width) for s in shapes if s.fill == "none" and s.tag == "rect"]
        box = (one.left - 0.5, one.top - 0.5, one.right - 0.5)
        report.same(f"{one}, frame", frame, [box])


def check_zoomed(picture: Picture, report: Report) -> None:
    """An enlarged map shows the right part: a raster after one step, squares after four."""
    for one in each_kind(picture):
        picture.do("keep", len(one.mask) - 4, one.mask.shape[1] // 2)
        for step in range(1, 5):
            picture.do("press", "zoom-in")
            if step not in (1, 4):
                continue
            said, (texts, shapes) = picture.do("said"), picture.svg()
            first = int(said["firstQuery"]), int(said["firstKey"])
            whole = shown(picture, one.choice)
            small = whole.cell <= 9 or one.choice.kind == "decoder"  # the smallest map
            report.true(f"{one}, enlarged", whole.cell >= 23 if step == 4 else small, str(said))
            report.true(f"{one}, moved", first[0] > 0, str(said))
            corner = (whole.left - 0.5, whole.top - 0.5)
            frame = next(s for s in shapes if s.fill == "none" and (s.x, s.y) == corner)
            height, width = round(frame.height / whole.cell), round(frame.width / whole.cell)
            part = np.s_[first[0] : first[0] + height, first[1] : first[1] + width]
            seen = shown(picture, one.choice, part)
            cells = picture.sample(MAP, *seen.grid())
            picture.cell_colours(report, f"{one} from {first}", cells, seen.values, seen.mask)
        cells = seen.squares(shapes)
        report.same(f"{one}, cells", (cells >= 0).all(-1).tolist(), seen.mask.tolist())
        picture.cell_colours(report, f"{one}, SVG", cells, seen.values, seen.mask)
        rows, columns = picture.labels(one.choice)
        for drawn in (texts, picture.texts()):
            words = seen.row_words(drawn)[0], seen.column_words(drawn)[0]
            expected = dict(enumerate(rows[part[0]])), dict(enumerate(columns[part[1]]))
            report.same(f"{one}, labels", words, expected)
        for _ in range(4):
            picture.do("press", "zoom-out")


Check = Callable[[Picture, Report], None]
SHORT: tuple[Check, ...] = (
    *(check_cells, check_saved_cells, check_digits, check_canvas_and_svg_have_the_same_texts),
    *(check_fed_tokens, check_entropy, check_received),
    *(check_frames, check_masked, check_hidden_column, check_nothing_is_cut),
    *(check_lines_ends, check_lines_of_a_row),
    *(check_thumbnails, check_captions, check_saved_overview, check_chosen_head),
    *(check_legend, check_dark),
)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(CHECKPOINT, device="cpu")


@pytest.fixture(scope="module")
def short(translator: Translator) -> TranslationRecord:
    record = translator.inspect(SOURCE, TARGET)
    assert len(record.source) != len(record.target_out)
    for tokens in (record.source, record.target_out):
        texts = [token.text for token in tokens]
        assert len(set(texts)) < len(texts) and not all(token.starts_word for token in tokens)
    return record


@pytest.fixture(scope="module")
def open_page(browser: Browser, tmp_path_factory) -> Iterator[Callable[[str], Page]]:
    """`open_page(html)` shows a page in this file's only tab, unless it is there already."""
    page = browser.new_page(viewport={"width": 1600, "height": 1100}, color_scheme="light")
    page.add_init_script(DRIVER)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    file = tmp_path_factory.mktemp("pictures") / "record.html"
    current = [""]

    def show(html: str) -> Page:
        if html != current[0]:
            current[0] = html
            file.write_text(html, encoding="utf-8")
            page.goto(file.as_uri())
            page.wait_for_selector(".explorer[data-painted]")
        assert not errors, errors
        return page

    yield show
    page.close()


@pytest.fixture(scope="module")
def short_page(short) -> str:
    return standalone(short)


def holds(check: Check, picture: Picture, least: int) -> None:
    """Assert that a check makes at least `least` comparisons and finds no deviation."""
    report = Report()
    check(picture, report)
    assert not report.wrong, report.wrong[:12]
    assert report.compared >= least


@pytest.mark.parametrize("check", SHORT, ids=lambda check: check.__name__.removeprefix("check_"))
def test_a_picture_is_the_record(open_page, short, short_page, check: Check) -> None:
    holds(check, Picture(open_page(short_page), short), 9)


def test_a_long_sentences_picture_is_whole(open_page, translator: Translator) -> None:
    record = translator.inspect(LONG)
    for check in (check_long_sentence, check_zoomed):
        holds(check, Picture(open_page(standalone(record)), record), 500)


@pytest.mark.parametrize("name", ["scores", "norms", "rollout"])
def test_another_quantitys_picture_is_the_models(
    open_page, translator: Translator, short: TranslationRecord, name: str
) -> None:
    compute = {"scores": scores, "norms": value_norms, "rollout": lambda _, record: rollout(record)}
    arrays = compute[name](translator, short)
    numbers = {name: {kind: np.asarray(arrays[kind], np.float64) for kind in KINDS}}
    html = standalone(short, quantities=numbers)
    holds(check_quantities, Picture(open_page(html), short, numbers), 500)
