"""Everything that the explorer draws is what a bundled model's record holds.

Each check reads one part of the page's pictures, by pixels and in the saved SVG. Faults that they
must notice are in tests/plant/faults/explorer.toml.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page

from app.components.explorer.payload import KINDS
from app.export.page import page as standalone
from app.figures.style import diverging, sequential
from app.look.palette import PALETTES
from core.analysis.rollout import rollout
from core.experiments.score_parts import scores
from core.experiments.values import value_norms
from core.record.record import TranslationRecord
from core.translator import Translator
from tests.app.pictures import (
    DRIVER,
    Choice,
    Found,
    Picture,
    Shape,
    Text,
    colour,
    decode,
    either,
    entropy,
    fixed,
)
from tests.app.test_explorer_arithmetic import sides

CHECKPOINT = Path(__file__).parents[2] / "checkpoints/scratch-de-en"
# Words of several tokens and repeated words on both sides, and maps that are no squares.
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


# What is read of a map's picture.


def inside(geometry: dict, shape: tuple[int, int], x: float, y: float) -> tuple[int, int] | None:
    """The cell, as query and key, in which a point lies."""
    query = int(np.floor((y - geometry["top"]) / geometry["cell"]))
    key = int(np.floor((x - geometry["left"]) / geometry["cell"]))
    return (query, key) if 0 <= query < shape[0] and 0 <= key < shape[1] else None


def grid(geometry: dict, shape: tuple[int, int], at: float | None = None) -> tuple[list, list]:
    """The same place in every column and row: where no digit and no frame is, or its middle."""
    cell = geometry["cell"]
    at = (3 if cell >= 12 else cell / 2) if at is None else at
    xs = [int(geometry["left"] + key * cell + at) for key in range(shape[1])]
    return xs, [int(geometry["top"] + query * cell + at) for query in range(shape[0])]


def squares(shapes: list[Shape], geometry: dict, shape: tuple[int, int]) -> NDArray:
    """The colour of the filled square that a saved picture has in each cell, -1 for none."""
    found = np.full((*shape, 3), -1)
    gap = 1 if geometry["cell"] > 9 else 0
    for rect in shapes:
        side = geometry["cell"] - gap
        if rect.tag != "rect" or not rect.fill.startswith("rgb") or rect.width != side:
            continue
        place = inside(geometry, shape, rect.x + side / 2, rect.y + side / 2)
        at = (geometry["left"] + place[1] * geometry["cell"] if place else None, rect.height)
        if at == (rect.x, side):
            found[place] = colour(rect.fill)
    return found


def row_words(texts: list[Text], geometry: dict, count: int) -> tuple[dict, dict]:
    """Words and numbers that stand left of the grid, by the row at whose height they are."""
    words, numbers = {}, {}
    for text in texts:
        row = int(np.floor((text.y - geometry["top"]) / geometry["cell"]))
        if text.turn or text.align != "right" or not 0 < text.x <= geometry["left"]:
            continue
        if not 0 <= row < count:
            continue
        middle = geometry["top"] + (row + 0.5) * geometry["cell"]
        if abs(text.y - middle) <= 1.5:
            (words if text.label else numbers)[row] = text.words
    return words, numbers


def column_words(texts: list[Text], geometry: dict, count: int) -> tuple[dict, dict]:
    """Words and numbers on the slant above the grid, by the column to which the slant leads."""
    words, numbers = {}, {}
    for text in texts:
        if not text.turn or text.y > geometry["top"]:
            continue
        foot = text.x + (text.y - (geometry["top"] - 9)) / np.tan(-text.turn)
        column = int(np.floor((foot - geometry["left"]) / geometry["cell"]))
        if 0 <= column < count:
            (words if text.label else numbers)[column] = text.words
    return words, numbers


def both(picture: Picture, choice: Choice) -> Iterator[tuple[str, list[Text], list[Shape] | None]]:
    """The texts on the canvas, and texts and shapes in the saved SVG."""
    yield f"canvas, {name(choice)}", picture.texts(MAP), None
    yield f"SVG, {name(choice)}", *picture.svg()


def name(choice: Choice) -> str:
    return f"{choice.kind} {choice.layer + 1}.{choice.head + 1} {choice.unit}"


def one_of_each_kind(picture: Picture, **more: object) -> Iterator[Choice]:
    """Shows a head of each kind, another one each time."""
    for place, kind in enumerate(KINDS):
        layer = (place + 1) % picture.layers[kind]
        choice = Choice(kind, layer, (3 * place + 2) % picture.heads, **more)
        picture.show(choice)
        yield choice


# The checks.


def check_cells(picture: Picture, found: Found) -> None:
    """Colours on the canvas: heads of every layer, means and maxima, tokens and words."""
    for kind in KINDS:
        layers, heads = picture.layers[kind], picture.heads
        single = [(x, (3 * x + y) % heads) for x in range(layers) for y in (0, 5)]
        several = [(1, heads), (layers, 2), (layers, heads)]
        for places, unit, combine in [
            (single + several, "pieces", "mean"),
            ([(2, heads), (layers, heads)], "pieces", "max"),
            ([(0, 3), (layers - 1, 1), (1, heads)], "words", "mean"),
        ]:
            picture.show(Choice(kind, 0, 0, unit=unit, combine=combine))
            geometry = picture.do("geometry")
            shape = picture.values(Choice(kind, 0, 0, unit))[1].shape
            xs, ys = grid(geometry, shape)
            seen = np.frombuffer(picture.bytes("heads", places, xs, ys), np.uint8)
            for place, cells in zip(places, seen.reshape(-1, *shape, 4), strict=True):
                choice = Choice(kind, *place, unit=unit, combine=combine)
                values, mask = picture.values(choice)
                near = picture.tolerance(choice)
                picture.cell_colours(found, f"{name(choice)} {combine}", cells, values, mask, near)


def check_saved_cells(picture: Picture, found: Found) -> None:
    """Colours in the saved SVG, of exactly the open cells, and in the saved PNG."""
    for unit in ("pieces", "words"):
        for choice in one_of_each_kind(picture, unit=unit):
            values, mask = picture.values(choice)
            geometry = picture.do("geometry")
            cells = squares(picture.svg()[1], geometry, mask.shape)
            found.same(f"{name(choice)}, cells", (cells >= 0).all(-1).tolist(), mask.tolist())
            near = picture.tolerance(choice)
            picture.cell_colours(found, f"SVG, {name(choice)}", cells, values, mask, near)
    pixels = decode(picture.do("saved", "map-png"))
    twice = 2
    xs, ys = grid(geometry, mask.shape)
    before = pixels.shape[1] / twice - geometry["width"] - 12
    origin = pixels.shape[0] / twice - geometry["height"] - 12
    ys = [int(twice * (y + origin)) for y in ys]
    cells = pixels[np.ix_(ys, [int(twice * (x + before)) for x in xs])]
    picture.cell_colours(found, f"PNG, {name(choice)}", cells, values, mask, near)


def check_digits(picture: Picture, found: Found) -> None:
    """Two decimals in every cell that holds a tenth, nothing in the others."""
    for choice in one_of_each_kind(picture):
        values, mask = picture.values(choice)
        geometry = picture.do("geometry")
        assert geometry["cell"] >= 23, "cells of this size have digits"
        for where, texts, _ in both(picture, choice):
            digits = {
                place: text.words
                for text in texts
                if text.align == "center" and not text.turn
                if (place := inside(geometry, mask.shape, text.x, text.y))
            }
            for q, k in zip(*np.nonzero(mask), strict=True):
                expected = {
                    "" if v < 0.095 else "1" if v >= 0.995 else fixed(v, 2)[1:]
                    for v in (values[q, k] - picture.near, values[q, k] + picture.near)
                }
                seen = digits.pop((q, k), "")
                found.true(f"{where}, cell {q}, {k}", seen in expected, f"{seen}, not {expected}")
            found.same(f"{where}, digits in masked cells", digits, {})
        pixels = picture.image(MAP)[..., :3]
        for q, k in zip(*np.nonzero(mask & (np.abs(values - 0.095) > 0.001)), strict=True):
            x, y = (geometry[s] + n * geometry["cell"] for s, n in (("left", k), ("top", q)))
            cell = pixels[int(y) + 2 : int(y + geometry["cell"]) - 2][
                :, int(x) + 2 : int(x + geometry["cell"]) - 2
            ]
            marked = int((cell != cell[0, 0]).any(-1).sum())
            found.same(f"{name(choice)}, ink in cell {q}, {k}", marked > 4, values[q, k] >= 0.095)


def numbered(tokens: tuple, first: int) -> dict[int, str]:
    return {i: str(first + i) for i in range(len(tokens))}


def check_row_labels(picture: Picture, found: Found) -> None:
    """Each row has its own word and number, tokens and words."""
    for unit in ("pieces", "words"):
        for choice in one_of_each_kind(picture, unit=unit):
            labels = picture.labels(choice)[0]
            pixels = picture.image(MAP)
            for text in picture.texts():
                end = int(text.x)
                if text.label and not text.turn and text.align == "right":
                    ink = pixels[int(text.y) - 4 : int(text.y) + 5, end - 30 : end, 3] > 100
                    found.true(f"{name(choice)}, ink of {text.words}", ink.any())
            for where, texts, _ in both(picture, choice):
                words, numbers = row_words(texts, picture.do("geometry"), len(labels))
                found.same(f"{where}, rows", words, dict(enumerate(labels)))
                first = [str(pieces[0] + 1) for pieces in picture.members(choice, 0)]
                found.same(f"{where}, numbers of rows", numbers, dict(enumerate(first)))


def fed_column(texts: list[Text], geometry: dict, lines: bool) -> list[Text]:
    """The words that a saved picture has beside its canvas: left of a map, right of the lines."""
    beside = [t for t in texts if (t.x > geometry["width"] if lines else t.x < 0) and t.y > 0]
    return [t for t in beside if t.align == ("left" if lines else "right")]


def check_fed_tokens(picture: Picture, found: Found) -> None:
    """A saved picture's rows name the token fed in beside the one produced, as every file does."""
    fed = picture.record.target_in
    for view in ("map", "lines"):
        for unit in ("pieces", "words"):
            for choice in one_of_each_kind(picture, view=view, unit=unit):
                geometry = picture.do("geometry")
                where = f"{name(choice)}, {view}"
                texts = picture.svg()[0]
                column = fed_column(texts, geometry, view == "lines")
                if choice.kind == "encoder":
                    found.same(where, column, [])
                    continue
                expected = [
                    " ".join(fed[i].text for i in pieces) for pieces in picture.members(choice, 0)
                ]
                found.same(where, [t.words for t in column], ["fed in", *expected])
                if view == "map":
                    heights = [geometry["top"] + (q + 0.5) * geometry["cell"] + 1
                               for q in range(len(expected))]  # fmt: skip
                else:
                    heights = [t.y for t in line_words(texts, "right")]
                for text, y in zip(column[1:], heights, strict=True):
                    found.near(f"{where}, height of {text.words}", text.y, y, 0.1)
            pixels = decode(picture.do("saved", "map-png"))
            more = pixels.shape[1] // 2 - 24 - int(geometry["width"])
            found.true(f"{name(choice)}, {view}, room in the PNG", more > 30, str(more))
            margin = pixels[100:, 24 : 24 + 2 * more] if view == "map" else pixels[
                100:, -24 - 2 * more : -24]  # fmt: skip
            inked = (margin[..., :3].min(-1) < 140).any(1)
            found.true(f"{name(choice)}, {view}, words in the PNG", inked.sum() > 8 * len(expected))


def check_column_labels(picture: Picture, found: Found) -> None:
    """Each column has its own word, and a repeated one its number."""
    for unit in ("pieces", "words"):
        for choice in one_of_each_kind(picture, unit=unit):
            labels = picture.labels(choice)[1]
            start = 0 if choice.kind == "decoder" else 1  # <bos> is fed in before step 1
            special = [
                token.text for token in sides(picture.record, choice.kind)[1] if token.special
            ]
            for where, texts, _ in both(picture, choice):
                words, numbers = column_words(texts, picture.do("geometry"), len(labels))
                found.same(f"{where}, columns", words, dict(enumerate(labels)))
                # Repeated in the whole row of the page, of which these columns are a part.
                for column, number in numbers.items():
                    first = picture.members(choice, 1)[column][0]
                    found.same(f"{where}, number of column {column}", number, str(first + start))
                again = {i for i, word in enumerate(labels) if labels.count(word) > 1}
                again -= {i for i in again if labels[i] in special}
                found.true(f"{where}, numbered", again <= set(numbers), f"{again} {numbers}")


def check_lines_words(picture: Picture, found: Found) -> None:
    """In the Lines view both columns of words are the tokens, from top to bottom."""
    for unit in ("pieces", "words"):
        for choice in one_of_each_kind(picture, view="lines", unit=unit):
            for where, texts, _ in both(picture, choice):
                for side, labels in zip(
                    ("left", "right"), picture.labels(choice)[::-1], strict=True
                ):
                    column = line_words(texts, side)
                    found.same(f"{where}, {side}", [text.words for text in column], labels)
                    steps = np.diff([text.y for text in column])
                    found.true(f"{where}, {side}, evenly", np.ptp(steps) < 0.1, str(steps))


def line_words(texts: list[Text], side: str) -> list[Text]:
    """The words of one of the two columns, which are set towards the middle, downwards."""
    align = {"left": "right", "right": "left"}[side]
    return sorted((t for t in texts if t.label and t.align == align), key=lambda t: t.y)


def drawn_lines(picture: Picture) -> tuple[list[tuple[int, int, Shape, list]], list[Text]]:
    """The lines of the saved picture: each the key and the query at whose heights it ends."""
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


def fewest(weights: NDArray, share: float, near: float) -> tuple[set, set]:
    """The cells that surely are among the largest that hold a share of their row, and may be."""
    sure, maybe = set(), set()
    for query, row in enumerate(weights):
        held = 0.0
        for key in np.argsort(-row, kind="stable"):
            if row[key] <= 0:
                break
            doubt = 2 * near * (1 + len(row))
            if held < share * row.sum() - doubt:
                sure.add((query, int(key)))
            if held < share * row.sum() + doubt:
                maybe.add((query, int(key)))
            held += row[key]
    return sure, maybe


def check_lines_ends(picture: Picture, found: Found) -> None:
    """Lines are exactly the fewest cells that hold 70 % of each row, from its key to its query."""
    for unit in ("pieces", "words"):
        for choice in one_of_each_kind(picture, view="lines", unit=unit):
            lines, _ = drawn_lines(picture)
            values, _ = picture.values(choice)
            sure, maybe = fewest(values, 0.7, picture.tolerance(choice))
            cells = [(query, key) for key, query, _, _ in lines]
            found.same(f"{name(choice)}, doubled", len(cells), len(set(cells)))
            found.same(f"{name(choice)}, missing", sure - set(cells), set())
            found.same(f"{name(choice)}, too many", set(cells) - maybe, set())
            found.compared += len(cells)
            # On the canvas, something leaves the words of these keys and of no others.
            pixels = picture.image(MAP)
            left = int(lines[0][3][0]) + 1
            blank = (pixels[:, left, 3] == 0) | (pixels[:, left, :3] == 255).all(-1)
            for key, text in enumerate(line_words(picture.texts(MAP), "left")):
                drawn = not blank[int(text.y - 1)]
                expected = key in {key for _, key in cells}
                found.same(f"{name(choice)}, canvas, key {key}", drawn, expected)


def check_lines_thickness(picture: Picture, found: Found) -> None:
    """More weight, a thicker and a darker line; on the canvas it is as thick as it says."""
    for choice in one_of_each_kind(picture, view="lines"):
        lines, _ = drawn_lines(picture)
        values, _ = picture.values(choice)
        scale = [tuple(c) for c in picture.scale().tolist()]
        order = sorted(lines, key=lambda line: values[line[1], line[0]])
        widths = [line[2].thickness for line in order]
        steps = [scale.index(colour(line[2].stroke)) for line in order]
        found.true(f"{name(choice)}, thicker", np.diff(widths).min() > -0.02, str(widths))
        found.true(f"{name(choice)}, darker", np.diff(steps).min() >= -1, str(steps))
        found.true(f"{name(choice)}, differ", widths[-1] > 2 * widths[0] > 0, str(widths))
        found.true(f"{name(choice)}, full", {line[2].opacity for line in order} == {1})
        pixels = picture.image(MAP)
        for key, query, shape, numbers in (order[0], order[-1]):
            if sum(line[1] == query for line in lines) > 1:
                continue  # others end there too
            x, y = int(numbers[-2]) - 2, numbers[-1]
            strip = pixels[int(y) - 6 : int(y) + 7, x, 3] / 255.0
            where = f"{name(choice)}, canvas, {query}, {key}"
            found.near(where, strip.sum(), shape.thickness, 0.6)


def check_lines_of_a_row(picture: Picture, found: Found) -> None:
    """Of a kept row only its own lines are strong, and its keys' words stand on their numbers."""
    for choice in one_of_each_kind(picture, view="lines"):
        lines, texts = drawn_lines(picture)
        values, mask = picture.values(choice)
        query = len(values) - 3
        at = line_words(texts, "right")[query]
        picture.do("keepAt", at.x + 5, at.y)
        found.same(f"{name(choice)}, kept", picture.do("said")["query"], str(query))
        lines, texts = drawn_lines(picture)
        for key, row, shape, _ in lines:
            found.same(f"{name(choice)}, {row}, {key}", shape.opacity < 0.5, row != query)
        _, shapes = picture.svg()
        for key, word in enumerate(line_words(texts, "left")):
            where = f"{name(choice)}, word {key}"
            under = [
                colour(s.fill)
                for s in shapes
                if s.tag == "rect"
                and s.fill.startswith("rgb")
                and s.y < word.y - 1 < s.y + s.height
            ]
            value = values[query, key]
            if abs(value - 0.02) > picture.near and mask[query, key]:
                found.same(f"{where}, shaded", len(under), int(value >= 0.02))
            if under:
                picture.has_colour(found, where, under[0], value, picture.near)
            beside = [
                t.words for t in texts
                if not t.label and t.align == "left" and re.fullmatch(r"[\d.]+", t.words)
                if "." in t.words and 0 < word.y - 1 - t.y < 13
                if t.x < picture.do("geometry")["width"]
            ]  # fmt: skip
            if abs(value - 0.05) > picture.near:
                expected = sorted(either(value, picture.near, 2)) if value >= 0.05 else []
                found.true(f"{where}, number", (beside[:1] or [""])[0] in (expected or [""]),
                           f"{beside}, not {expected}")  # fmt: skip


def check_spread(picture: Picture, found: Found) -> None:
    """Beside each row, its entropy: the number on canvas and in the SVG, and the bar's length."""
    for choice in one_of_each_kind(picture):
        values, mask = picture.values(choice)
        geometry = picture.do("geometry")
        right = geometry["left"] + mask.shape[1] * geometry["cell"] + 10
        bits = entropy(values)
        pixels = picture.image(MAP)
        for where, texts, shapes in both(picture, choice):
            for row, expected in enumerate(bits):
                middle = geometry["top"] + (row + 0.5) * geometry["cell"]
                beside = [t.words for t in texts if t.x > right + 30 and abs(t.y - middle) < 2]
                ways = either(expected, 0.002, 1)
                found.true(f"{where}, row {row}", set(beside) & ways, f"{beside}, not {ways}")
                length = max(1.0, 34 * expected / np.log2(mask.shape[1]))
                if shapes is None:
                    strip = pixels[int(middle), int(right) : int(right) + 36]
                    dark = strip[:, 3] / 255 * (255 - strip[:, 0].astype(float))
                    seen = dark.sum() / (255 - colour(INK.third)[0])
                else:
                    bars = [s.width for s in shapes
                            if s.x == right and s.y < middle < s.y + s.height]  # fmt: skip
                    seen = sum(bars)
                found.near(f"{where}, bar of row {row}", seen, length, 0.6)


def check_received(picture: Picture, found: Found) -> None:
    """Under each column, the share of all weight that it receives; the largest one in words.

    Beside the bars stands which share has the full length.
    """
    for choice in one_of_each_kind(picture):
        values, mask = picture.values(choice)
        geometry = picture.do("geometry")
        share = values.mean(0)
        foot = geometry["top"] + mask.shape[0] * geometry["cell"] + 8
        pixels = picture.image(MAP)
        for where, texts, shapes in both(picture, choice):
            for column, expected in enumerate(share):
                middle = geometry["left"] + (column + 0.5) * geometry["cell"] - 1
                length = max(1.0, 24 * expected / max(0.25, share.max()))
                if shapes is None:
                    strip = pixels[int(foot) : int(foot) + 24, int(middle)]
                    dark = strip[:, 3] / 255 * (255 - strip[:, 0].astype(float))
                    seen = dark.sum() / (255 - colour(INK.third)[0])
                else:
                    seen = sum(s.height for s in shapes
                               if s.y == foot and s.x < middle < s.x + s.width)  # fmt: skip
                found.near(f"{where}, bar of column {column}", seen, length, 0.6)
            said = [t for t in texts if t.words.endswith("\u00a0%") and t.y > foot]
            whole = [t.words for t in said if t.x < geometry["left"]]
            said = [t for t in said if t.x >= geometry["left"]]
            full = max(0.25, share.max())
            ways = [[f"full bar: {100 * (full + d):.0f}\u00a0%"] for d in (-1e-4, 1e-4)]
            found.true(f"{where}, full", whole in ways, f"{whole}, not {ways}")
            most = int(share.argmax())
            found.same(f"{where}, said", len(said), 1)
            for text in said:
                place = (text.x - geometry["left"]) / geometry["cell"]
                found.same(f"{where}, said of", int(place), most)
                ways = {f"{100 * (share[most] + d):.0f}\u00a0%" for d in (-1e-4, 1e-4)}
                found.true(f"{where}, said", text.words in ways, f"{text.words}, not {ways}")


def check_thumbnails(picture: Picture, found: Found) -> None:
    """Every thumbnail of every kind, layer and head, pixel by pixel on the canvas."""
    for kind in KINDS:
        layers, heads = picture.layers[kind], picture.heads
        picture.show(Choice(kind, 0, 0))
        frames = picture.do("thumbnails")
        found.same(f"{kind}, thumbnails", len(frames), (layers + 1) * (heads + 1))
        pixels = picture.image(".overview-maps")
        for index, frame in enumerate(in_order(frames)):
            choice = Choice(kind, *divmod(index, heads + 1))
            values, mask = picture.values(choice)
            cells = thumbnail(pixels, frame, mask.shape)
            picture.cell_colours(found, name(choice), cells, values, mask, picture.near)
            hatched = (cells[..., :3] == (226, 227, 230)).all(-1)
            found.same(f"{name(choice)}, masked", hatched[~mask].all(), True)


def in_order(frames: list[dict]) -> list[dict]:
    """Thumbnails as they stand on the page, row by row."""
    return sorted(frames, key=lambda frame: (frame["top"], frame["left"]))


ROLES = {
    "encoder": {"prev": -1, "self": 0, "next": 1, "eos": None},
    "decoder": {"prev": 0, "2 back": -1, "bos": 0},  # seen from the token produced
    "cross": {"eos": None},
}


def shares_of_roles(values: NDArray, kind: str) -> dict[str, float]:
    """The mean weight on each place that a head of this kind may rest on."""
    rows, keys = values.shape
    shares = {}
    for role, step in ROLES[kind].items():
        first = 2 if kind == "decoder" else 0
        at = {"eos": lambda q: keys - 1, "bos": lambda q: 0}.get(role, lambda q, s=step: q + s)
        cells = [values[q, at(q)] for q in range(first, rows) if 0 <= at(q) < keys]
        shares[role] = float(np.mean(cells))
    return shares


def caption(picture: Picture, choice: Choice) -> tuple[str, float, str]:
    """What a head does on this sentence: the word, the number and its unit."""
    values, _ = picture.values(choice)
    shares = shares_of_roles(values, choice.kind)
    role = max(shares, key=shares.get)
    if shares[role] >= 0.3:
        return role, 100 * shares[role], "\u00a0%"
    peak = float(values.max(1).mean())
    if peak >= 0.5:
        return "largest", 100 * peak, "\u00a0%"
    return "entropy", float(entropy(values).mean()), " b"


def same_caption(found: Found, where: str, seen: tuple[str, str], expected: tuple) -> None:
    word, value, unit = expected
    digits = 1 if unit == " b" else 0
    ways = {f"{value + d:.{digits}f}{unit}" for d in (-0.01, 0.01)}
    found.true(where, seen[0] == word and seen[1] in ways, f"{seen}, not {word} {ways}")


def check_captions(picture: Picture, found: Found) -> None:
    """What is written under each thumbnail, on the canvas and in its button's name."""
    for kind in KINDS:
        picture.show(Choice(kind, 0, 0))
        frames = in_order(picture.do("thumbnails"))
        texts = picture.texts(".overview-maps")
        for index, frame in enumerate(frames):
            choice = Choice(kind, *divmod(index, picture.heads + 1))
            foot = frame["top"] + frame["size"]
            under = [t for t in texts if foot < t.y < foot + 30]
            under = [t for t in under if frame["left"] - 2 <= t.x <= frame["left"] + frame["size"]]
            words = [t.words for t in under if t.label]
            numbers = [t.words for t in under if not t.label]
            found.same(f"{name(choice)}, captions", (len(words), len(numbers)), (1, 1))
            if words and numbers:
                same_caption(found, name(choice), (words[0], numbers[0]), caption(picture, choice))


def check_saved_overview(picture: Picture, found: Found) -> None:
    """The saved overview: each head's picture over its own number and caption, cell by cell."""
    for kind in KINDS:
        picture.show(Choice(kind, 1, 1))
        layers, heads = picture.layers[kind], picture.heads
        texts, shapes = picture.svg("overview-svg")
        images = [shape for shape in shapes if shape.tag == "image"]
        found.same(f"{kind}, pictures", len(images), (layers + 1) * (heads + 1))
        for image in images:
            cells = decode(image.href)
            under = [t for t in texts if 0 < t.y - image.y - image.height < 20]
            words = [t.words for t in under if t.align == "left" and abs(t.x - image.x) < 2]
            ends = image.x + image.width
            numbers = [t.words for t in under if t.align == "right" and abs(t.x - ends) < 2]
            place, _, word = "".join(words).partition("  ")
            counts = (layers, heads)
            layer, head = (
                count if part == "all" else int(part or 0) - 1
                for part, count in zip((place + "..").split(".")[:2], counts, strict=True)
            )
            choice = Choice(kind, layer, head)
            values, mask = picture.values(choice)
            found.same(f"{name(choice)}, size", cells.shape[:2], mask.shape)
            if cells.shape[:2] == mask.shape:
                picture.cell_colours(found, name(choice), cells, values, mask, picture.near)
            # A word without room is cut.
            expected = caption(picture, choice)
            if word.endswith("…") and expected[0].startswith(word[:-1]):
                word = expected[0]
            same_caption(found, name(choice), (word, "".join(numbers)), expected)


def check_frames(picture: Picture, found: Found) -> None:
    """Frames of the kept row, column and cell: lines in the saved SVG, ink on the canvas."""
    for choice in one_of_each_kind(picture):
        _, mask = picture.values(choice)
        geometry = picture.do("geometry")
        left, top, cell = (geometry[side] for side in ("left", "top", "cell"))
        width, height = mask.shape[1] * cell, mask.shape[0] * cell
        before = picture.image(MAP).astype(int)
        q, k = mask.shape[0] - 3, 4
        picture.do("keep", q, k)
        found.same(f"{name(choice)}, kept", picture.do("said")["query"], str(q))
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
        found.same(f"{name(choice)}, SVG", boxes, expected)
        row = ("source", q) if choice.kind == "encoder" else ("target", q + 1)
        key = ("target" if choice.kind == "decoder" else "source", k)
        framed = {tuple(place) for place in picture.do("framed")}
        found.same(f"{name(choice)}, words", framed, {row, key})
        changed = np.abs(picture.image(MAP).astype(int) - before).max(-1) > 20
        away = int(left + (k + 3.5) * cell)
        rows = [y for y in range(int(top), int(top + height)) if changed[y, away]]
        at = int(top + q * cell)
        found.same(f"{name(choice)}, row on the canvas", rows, [at - 1, at + int(cell) - 1])
        aside = int(top + (q - 3) * cell + cell - 3)
        columns = [x for x in range(int(left), int(left + width)) if changed[aside, x]]
        at = int(left + k * cell)
        found.same(f"{name(choice)}, column on the canvas", columns, [at - 1, at + int(cell) - 1])


def check_chosen_head(picture: Picture, found: Found) -> None:
    """One thumbnail is framed, the chosen head's; heading and file say which that is."""
    languages = {"encoder": "German looks at German", "cross": "English looks at German"}
    languages["decoder"] = "English looks back at English"
    heads = picture.heads
    for kind, layer, head in [
        ("encoder", 2, heads // 2),
        ("decoder", 0, heads - 1),
        ("cross", 3, 0),
    ]:
        picture.show(Choice(kind, layer, head))
        framed = [
            divmod(index, heads + 1)
            for index, frame in enumerate(in_order(picture.do("thumbnails")))
            if frame["outlineWidth"] == "2px" and colour(frame["outlineColor"]) == colour(INK.ink)
        ]
        found.same(kind, framed, [(layer, head)])
        title = f"Layer {layer + 1}, head {head + 1}"
        found.same(f"{kind}, heading", picture.do("title"), f"{title}{languages[kind]}")
        first = picture.svg()[0][0].words
        found.true(f"{kind}, SVG", first.startswith(title) and languages[kind] in first, first)


def check_frames_over_thumbnails(picture: Picture, found: Found) -> None:
    """The row and column pointed at are framed in every thumbnail."""
    for choice in one_of_each_kind(picture):
        _, mask = picture.values(choice)
        q, k = mask.shape[0] - 4, 2
        picture.do("point", q, k)
        drawn = picture.image(".overview-focus")[..., 3] > 30
        for index, frame in enumerate(in_order(picture.do("thumbnails"))):
            where = f"{name(choice)}, thumbnail {index}"
            size = frame["size"]
            top, left = frame["top"], frame["left"]
            aside = int(left + size * 0.8)
            rows = np.flatnonzero(drawn[top : top + size, aside])
            aside = int(top + size * 0.2)
            columns = np.flatnonzero(drawn[aside, left : left + size])
            for axis, seen, place in (("row", rows, q / mask.shape[0]),
                                      ("column", columns, k / mask.shape[1])):  # fmt: skip
                found.true(f"{where}, {axis} is framed", len(seen))
                if len(seen):
                    found.near(f"{where}, {axis}", seen.min(), size * place - 1, 1.01)
        picture.do("leave")


def check_masked(picture: Picture, found: Found) -> None:
    """What the causal mask masks is hatched, and no other cell is."""
    ground, line = colour(INK.hatch_ground), colour(INK.hatch)
    for choice in one_of_each_kind(picture):
        _, mask = picture.values(choice)
        geometry = picture.do("geometry")
        pixels = picture.image(MAP)[..., :3].astype(int)
        cell = int(geometry["cell"])
        for q, k in np.ndindex(mask.shape):
            x, y = int(geometry["left"] + k * cell), int(geometry["top"] + q * cell)
            block = pixels[y + 2 : y + cell - 2, x + 2 : x + cell - 2].reshape(-1, 3)
            grey = ((block >= line) & (block <= ground)).all(-1)
            hatched = bool(grey.all() and np.ptp(block[:, 0]) > 30)
            found.same(f"{name(choice)}, {q}, {k} hatched", hatched, not mask[q, k])
        shades = [
            (round((s.y - geometry["top"]) / cell), round((s.x - geometry["left"]) / cell) + i)
            for s in picture.svg()[1]
            if s.tag == "rect" and colour(s.fill) == ground
            for i in range(round(s.width / cell))
        ]
        masked = [tuple(map(int, place)) for place in np.argwhere(~mask)]
        found.same(f"{name(choice)}, SVG", sorted(shades), sorted(masked))


def check_hidden_column(picture: Picture, found: Found) -> None:
    """A hidden column keeps its place: grey bars as long as what each row gives it."""
    for choice in one_of_each_kind(picture, hide=("eos",)):
        values, mask = picture.values(choice)
        geometry = picture.do("geometry")
        cell = geometry["cell"]
        key = 0 if choice.kind == "decoder" else mask.shape[1] - 1
        bars = {
            inside(geometry, mask.shape, s.x, s.y): s.width
            for s in picture.svg()[1]
            if s.tag == "rect" and colour(s.fill) == colour(INK.third)
        }
        bars.pop(None, None)
        for q in range(mask.shape[0]):
            where = f"{name(choice)}, row {q}"
            found.near(where, bars.pop((q, key), -1), (cell - 2) * values[q, key], 0.02)
        found.same(f"{name(choice)}, bars in other cells", bars, {})


def check_legend(picture: Picture, found: Found) -> None:
    """The scale is the figures' own, from 0 to 1; hatching is explained where there is some."""
    scale = picture.scale().astype(int)
    for at, css in sequential("light"):
        seen = scale[round(255 * at)]
        near = np.abs(seen - colour(css)).max()
        found.true(f"colour at {at:.2f}", near <= 2, f"{seen}, not {css}")
    for choice in one_of_each_kind(picture):
        expected = {"low": "0", "high": "1", "masked": choice.kind == "decoder"}
        found.same(f"legend of {choice.kind}", picture.do("legend"), expected)
    hatch = picture.image("[data-part=hatch]")[..., :3].reshape(-1, 3)
    found.true("hatching in the legend", np.ptp(hatch[:, 0].astype(int)) > 30)


def check_long_sentence(picture: Picture, found: Found) -> None:
    """A sentence of sixty words: all rows and columns, on the canvas and in the saved SVG."""
    for choice in one_of_each_kind(picture):
        values, mask = picture.values(choice)
        assert min(mask.shape) > 30
        geometry = picture.do("geometry")
        found.true("too small for gaps", geometry["cell"] <= 9, str(geometry))
        xs, ys = grid(geometry, mask.shape)
        cells = picture.sample(MAP, xs, ys)
        picture.cell_colours(found, f"canvas, {name(choice)}", cells, values, mask, picture.near)
        labels = picture.labels(choice)
        for where, texts, shapes in both(picture, choice):
            if shapes is not None:
                cells = squares(shapes, geometry, mask.shape)
                drawn = (cells >= 0).all(-1)
                found.same(f"{where}, cells", (drawn & ~mask).sum() + (mask & ~drawn).sum(), 0)
                picture.cell_colours(found, where, cells, values, mask, picture.near)
            rows = row_words(texts, geometry, len(labels[0]))[0]
            columns = column_words(texts, geometry, len(labels[1]))[0]
            for axis, words, all_ in (("row", rows, labels[0]), ("column", columns, labels[1])):
                every = int(np.ceil(10.5 * 0.92 / geometry["cell"]))
                expected = {i: all_[i] for i in range(0, len(all_), every)}
                found.same(f"{where}, {axis}s", words, expected)
        right = geometry["left"] + mask.shape[1] * geometry["cell"]
        box = (geometry["left"] - 0.5, geometry["top"] - 0.5)
        frame = [(s.x, s.y, s.x + s.width) for s in shapes if s.fill == "none" and s.tag == "rect"]
        found.same(f"{name(choice)}, frame", frame, [(*box, right - 0.5)])


def seen_part(shapes: list[Shape], geometry: dict) -> tuple[int, int]:
    """How many rows and columns of an enlarged map are seen, by the frame around them."""
    corner = (geometry["left"] - 0.5, geometry["top"] - 0.5)
    return next(
        (round(s.height / geometry["cell"]), round(s.width / geometry["cell"]))
        for s in shapes
        if s.fill == "none" and (s.x, s.y) == corner
    )


def check_zoomed(picture: Picture, found: Found) -> None:
    """Enlarged, the part that is seen is the record's, and its labels are those of that part.

    After one step the cells are still a picture in pixels, after four they are squares.
    """
    for choice in one_of_each_kind(picture):
        values, mask = picture.values(choice)
        picture.do("keep", mask.shape[0] - 4, mask.shape[1] // 2)
        for step in range(1, 5):
            picture.do("press", "zoom-in")
            if step not in (1, 4):
                continue
            said, geometry = picture.do("said"), picture.do("geometry")
            first = int(said["firstQuery"]), int(said["firstKey"])
            pixels = geometry["cell"] <= 9 or choice.kind == "decoder"  # which is the shortest
            as_meant = geometry["cell"] >= 23 if step == 4 else pixels
            found.true(f"{name(choice)}, enlarged", as_meant and first[0] > 0, str(said))
            texts, shapes = picture.svg()
            height, width = seen_part(shapes, geometry)
            part = np.s_[first[0] : first[0] + height, first[1] : first[1] + width]
            where = f"{name(choice)}, from {first}"
            cells = picture.sample(MAP, *grid(geometry, (height, width)))
            picture.cell_colours(found, where, cells, values[part], mask[part], picture.near)
        seen = squares(shapes, geometry, (height, width))
        found.same(f"{where}, cells", (seen >= 0).all(-1).tolist(), mask[part].tolist())
        picture.cell_colours(found, where, seen, values[part], mask[part], picture.near)
        rows, columns = picture.labels(choice)
        for texts_ in (texts, picture.texts()):
            words, _ = row_words(texts_, geometry, height)
            found.same(f"{where}, rows", words, dict(enumerate(rows[part[0]])))
            words, _ = column_words(texts_, geometry, width)
            found.same(f"{where}, columns", words, dict(enumerate(columns[part[1]])))
        for _ in range(4):
            picture.do("press", "zoom-out")


def check_nothing_is_cut(picture: Picture, found: Found) -> None:
    """No word reaches over the edge of its canvas."""
    for view in ("map", "lines"):
        for choice in one_of_each_kind(picture, view=view):
            geometry = picture.do("geometry")
            for text in picture.texts():
                back = {"left": 0, "center": 0.5, "right": 1}[text.align] * text.width
                start = np.array([text.x, text.y]) - back * np.array(
                    [np.cos(text.turn), np.sin(text.turn)]
                )
                end = start + text.width * np.array([np.cos(text.turn), np.sin(text.turn)])
                x, y = np.array([start, end]).T
                within = x.min() >= -0.5 and x.max() <= geometry["width"] + 0.5 and y.min() >= 4
                where = f"{name(choice)}, {view}, {text.words}"
                found.true(where, within and y.max() <= geometry["height"] - 4, f"{x} {y}")


def check_ticks(picture: Picture, found: Found) -> None:
    """A tall tick at each of the chosen head's measures, among those of all heads."""
    for choice in one_of_each_kind(picture):
        values, mask = picture.values(choice)
        pixels = picture.image("[data-part=ticks]")
        # Kinds have different rows, at the heights of the longest list.
        pitch = len(pixels) // picture.page.locator("[data-part=statistics] > *").count()
        for line, share in (
            (0, values.max(1).mean()),
            (1, entropy(values).mean() / np.log2(mask.shape[1])),
        ):
            where = f"{name(choice)}, tick {line}"
            tall = np.flatnonzero(pixels[pitch * line + 7, :, 3] > 100)  # above the short ones
            x = 3 + (pixels.shape[1] - 6) * share
            found.true(where, len(tall) in (2, 3, 4), str(tall))
            found.near(where, (tall.mean() if len(tall) else -9) + 0.5, x, 1)


def check_dark(picture: Picture, found: Found) -> None:
    """On a dark page the scale is the figures' dark one, and cells and words have its colours."""
    picture.page.emulate_media(color_scheme="dark")
    picture.page.wait_for_selector(".explorer[data-theme=dark]")
    try:
        scale = picture.scale("dark").astype(int)
        for at, css in sequential("dark"):
            away = np.abs(scale[round(255 * at)] - colour(css)).max()
            found.true(f"colour at {at:.2f}", away <= 2, f"{scale[round(255 * at)]}, not {css}")
        for choice in one_of_each_kind(picture):
            values, mask = picture.values(choice)
            cells = picture.sample(MAP, *grid(picture.do("geometry"), mask.shape))
            near = picture.near
            picture.cell_colours(found, name(choice), cells, values, mask, near, "dark")
            pixels = picture.image(".overview-maps")
            frame = in_order(picture.do("thumbnails"))[
                choice.layer * (picture.heads + 1) + choice.head
            ]
            cells = thumbnail(pixels, frame, mask.shape)
            where = f"{name(choice)}, thumbnail"
            picture.cell_colours(found, where, cells, values, mask, near, "dark")
    finally:
        picture.page.emulate_media(color_scheme="light")
        picture.page.wait_for_selector(".explorer[data-theme=light]")


def check_quantities(picture: Picture, found: Found) -> None:
    """Scores, norms and rollout: colours and digits on the map, thumbnails, the legend's ends."""
    [(quantity, numbers)] = picture.quantities.items()
    signed = quantity == "scores"
    for kind in KINDS:
        shown = numbers[kind][..., picture.record.mask(kind)]
        low, high = min(0.0, shown.min()), 1.0 if quantity == "rollout" else shown.max()
        limit = max(-low, high)
        near = (high - low) / 65535 + 1e-5
        first, scaled = (-limit, limit) if signed else (low, high)
        heads = [picture.heads] if quantity == "rollout" else [1, picture.heads - 2]
        for layer in (0, picture.layers[kind] - 1):
            for head in heads:
                choice = Choice(kind, layer, head, quantity=quantity)
                picture.show(choice)
                values, mask = picture.values(replace(choice, head=head % picture.heads))
                # 128 is the step of 0, from which scores go 127 steps to either side.
                shares = (
                    (128 + 127 * values / limit) / 255 if signed else (values - low) / (high - low)
                )
                within = near * 127 / 255 / limit if signed else near / (high - low)
                geometry = picture.do("geometry")
                what = f"{quantity}, {name(choice)}"
                for where, cells in (
                    (what, picture.sample(MAP, *grid(geometry, mask.shape))),
                    (f"{what}, SVG", squares(picture.svg()[1], geometry, mask.shape)),
                    (f"{what}, thumbnail", own_thumbnail(picture, mask.shape)),
                ):
                    picture.cell_colours(found, where, cells, shares, mask, within, quantity)
                digits = {
                    inside(geometry, mask.shape, t.x, t.y): t.words
                    for t in picture.texts()
                    if t.align == "center"
                }
                for q, k in zip(*np.nonzero(mask), strict=True):
                    seen = digits.get((q, k), "")
                    ways = {digits_of(quantity, values[q, k] + d, high) for d in (-near, 0, near)}
                    found.true(f"{what}, {q}, {k}", seen in ways, f"{seen}, not {ways}")
                legend = picture.do("legend")
                for end, value in (("low", first), ("high", scaled)):
                    ways = {fixed(value, 1), fixed(value, 0)}
                    found.true(f"{what}, {end} end", legend[end] in ways, f"{legend}, not {ways}")
    scale = picture.scale(quantity).astype(int)
    for at, css in diverging("light") if signed else sequential("light"):
        step = 128 + round(127 * (2 * at - 1)) if signed else round(255 * at)
        away = np.abs(scale[step] - colour(css)).max()
        found.true(f"{quantity}, colour at {at:.2f}", away <= 2, f"{scale[step]}, not {css}")


def digits_of(quantity: str, value: float, high: float) -> str:
    if quantity == "scores":
        return fixed(value, 1).replace("\u22120.0", "0.0")
    if value < 0.095 * high:
        return ""
    if high == 1:
        return "1" if value >= 0.995 else fixed(value, 2)[1:]
    return fixed(value, 0) if value >= 9.95 else fixed(value, 1).removeprefix("0")


def thumbnail(pixels: NDArray, frame: dict, shape: tuple[int, int]) -> NDArray:
    """The pixel in the middle of each cell of a small picture."""
    ys, xs = (
        [int(frame[side] + (i + 0.5) * frame["size"] / n) for i in range(n)]
        for side, n in zip(("top", "left"), shape, strict=True)
    )
    return pixels[np.ix_(ys, xs)]


def own_thumbnail(picture: Picture, shape: tuple[int, int]) -> NDArray:
    """That of the chosen head."""
    [frame] = [f for f in picture.do("thumbnails") if f["outlineWidth"] == "2px"]
    return thumbnail(picture.image(".overview-maps"), frame, shape)


Check = Callable[[Picture, Found], None]
SHORT: tuple[Check, ...] = (
    check_cells,
    check_saved_cells,
    check_digits,
    check_row_labels,
    check_fed_tokens,
    check_column_labels,
    check_lines_words,
    check_lines_ends,
    check_lines_thickness,
    check_lines_of_a_row,
    check_spread,
    check_received,
    check_thumbnails,
    check_captions,
    check_saved_overview,
    check_frames,
    check_chosen_head,
    check_frames_over_thumbnails,
    check_masked,
    check_hidden_column,
    check_legend,
    check_nothing_is_cut,
    check_ticks,
    check_dark,
)
LONG_CHECKS: tuple[Check, ...] = (check_long_sentence, check_zoomed)


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
def long(translator: Translator) -> TranslationRecord:
    return translator.inspect(LONG)


@pytest.fixture(scope="module")
def open_page(browser: Browser, tmp_path_factory) -> Iterator[Callable[[str], Page]]:
    """`open_page(html)` shows a page in this file's only tab, unless it is there already."""
    page = browser.new_page(viewport={"width": 1600, "height": 1100}, color_scheme="light")
    page.add_init_script(DRIVER)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    file = tmp_path_factory.mktemp("pictures") / "record.html"
    shown = [""]

    def show(html: str) -> Page:
        if html != shown[0]:
            shown[0] = html
            file.write_text(html, encoding="utf-8")
            page.goto(file.as_uri())
            page.wait_for_selector(".explorer[data-painted]")
        assert not errors, errors
        return page

    yield show
    page.close()


def picture_of(open_page, record: TranslationRecord, html: str, quantities=None) -> Picture:
    # A saved page holds 32-bit numbers, however long the sentence.
    return Picture(open_page(html), record, 1e-6, quantities)


@pytest.fixture(scope="module")
def short_page(short) -> str:
    return standalone(short)


@pytest.fixture
def short_picture(open_page, short, short_page) -> Picture:
    return picture_of(open_page, short, short_page)


@pytest.mark.parametrize("check", SHORT, ids=lambda check: check.__name__.removeprefix("check_"))
def test_a_picture_is_the_record(short_picture: Picture, check: Check) -> None:
    holds(check, short_picture, 9)


def holds(check: Check, picture: Picture, least: int) -> None:
    """A check of at least so many things finds nothing wrong."""
    found = Found()
    check(picture, found)
    assert not found.wrong, found.wrong[:12]
    assert found.compared >= least


def test_a_long_sentences_picture_is_whole(open_page, long: TranslationRecord) -> None:
    picture = picture_of(open_page, long, standalone(long))
    for check in LONG_CHECKS:
        holds(check, picture, 500)


@pytest.fixture(scope="module")
def quantities(translator: Translator, short: TranslationRecord) -> dict[str, dict]:
    ids = [[token.id for token in side] for side in (short.source, short.target_out)]
    with translator.exclusive_model() as model:
        found = {"scores": scores(model, *ids), "norms": value_norms(model, *ids)}
    found["rollout"] = rollout(short)
    return {
        name: {kind: np.asarray(arrays[kind], np.float64) for kind in KINDS}
        for name, arrays in found.items()
    }


@pytest.mark.parametrize("name", ["scores", "norms", "rollout"])
def test_another_quantitys_picture_is_the_models(open_page, short, quantities, name: str) -> None:
    numbers = {name: quantities[name]}
    picture = picture_of(open_page, short, standalone(short, quantities=numbers), numbers)
    holds(check_quantities, picture, 500)
