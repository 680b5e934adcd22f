"""The canvases of a map row show its arrays: cells, hatching, labels, axes, scale and frames."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Page

from app.components.map_row.payload import Difference, Map, MapRow, Scale, Side
from app.look.numbers import scientific
from core.record.record import RecordToken
from tests.app.axes import colours, same_picture, svg_marks, table
from tests.app.drawn import Mark, marks_of, record
from tests.app.explorer_drawn import box, is_label, labelled, near, only, runs, same_boxes, text_at
from tests.app.map_rows import scores_row, weights_row
from tests.app.test_map_row import act_on

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def tokens(words: str) -> list[RecordToken]:
    """Return a token per word; `?` marks an unknown one, `<…>` a special one."""
    return [
        RecordToken(i, word, word.strip("?"), True, word[0] == "<", word[0] == "?")
        for i, word in enumerate(words.split())
    ]


def cross_row() -> MapRow:
    """A row whose maps are not square, with numbers from 0 and in another order, and two masks."""
    random = np.random.default_rng(4)
    queries = Side(tokens("the ?cat the <eos>"), [3, 1, 0, 2], "English token")
    keys = Side(tokens("<bos> die ?Katz ist die da"), range(6), "German token, by position")
    shape = 3, 2, 4, 6
    limits = Scale("norm", random.uniform(2, 9, (3, 2)))
    mask = random.random((4, 6)) < 0.7
    maps = [
        Map("One", "one", "", random.dirichlet(np.ones(6), shape[:3]), mask=mask),
        Map("Two", "two", "", random.uniform(-2, 2, shape), limits),
        Difference("Two − one", "difference", 1, 0, Scale("change", 3.0)),
    ]
    return MapRow("Cross", range(3), queries, keys, maps, np.tri(4, 6, 3, dtype=bool), outlined=2)


ROWS = {
    "weights": (weights_row(), "light"),
    "scores": (scores_row(), "dark"),
    "cross": (cross_row(), "dark"),
    "long": (weights_row(60), "light"),  # so small that not every row has a label
}


@pytest.fixture
def drawn(page: Page) -> Callable[..., tuple[dict, list[list[Mark]]]]:
    """Return `drawn(row, theme, *acts)`: a row's texts and files after the acts, and its marks.

    The texts hold the geometry of the first map too, as "at".
    """
    record(page)
    page.goto("about:blank")

    def show(row: MapRow, theme: str, *acts: tuple) -> tuple[dict, list[list[Mark]]]:
        said = act_on(page, row, *acts, theme=theme)
        canvases = page.locator(".map-row canvas").all()
        at = canvases[0].evaluate("(map) => ({ ...map.dataset })")
        return said | {"at": at}, [marks_of(canvas) for canvas in canvases]

    return show


def values_of(row: MapRow, place: int, layer: int, head: int) -> NDArray:
    drawn = row.maps[place]
    if isinstance(drawn, Difference):
        first, second = (values_of(row, n, layer, head) for n in (drawn.first, drawn.second))
        return first - second
    return np.where(mask_of(row, place), drawn.values[layer, head], 0).astype("<f4").astype(float)


def mask_of(row: MapRow, place: int) -> NDArray:
    own = getattr(row.maps[place], "mask", None)
    mask = row.mask if own is None else own
    return np.ones((len(row.queries.tokens), len(row.keys.tokens)), bool) if mask is None else mask


def names_of(side: Side) -> list[str]:
    """Return the labels: a repeated word with its number, hidden characters by their codes."""
    texts = [token.text.replace("\u200b", "‹U+200B›") for token in side.tokens]
    return [
        text + str(number).translate(SUBSCRIPTS) * (texts.count(text) > 1 and not token.special)
        for text, number, token in zip(texts, side.numbers, side.tokens, strict=True)
    ]


def check(
    row: MapRow, place: int, layer: int, head: int, marks: list[Mark], theme: str, at: dict,
    focus: tuple[int, int] | None = None,
) -> None:  # fmt: skip
    where = f"{row.site}, map {place}, {layer}.{head}, {theme}"
    ink = colours(theme)
    values, mask = values_of(row, place, layer, head), mask_of(row, place)
    queries, keys = values.shape
    left, top, cell = (float(at[name]) for name in ("left", "top", "cell"))
    width, height = keys * cell, queries * cell
    scale = row.maps[place].scale
    shape = len(row.layers), row.maps[0].values.shape[1]
    limit = None if scale.limit is None else float(np.broadcast_to(scale.limit, shape)[layer, head])
    steps_of = np.array(table(theme, limit is not None))
    maps = [m for m in marks if m.what == "pixels"]
    raster, bar = maps
    assert near(box(raster), (left, top, width, height)), where
    fits = np.zeros(values.shape, bool)
    for d in (-1e-6, 1e-6):
        share = np.clip(values + d, 0, 1) if limit is None else np.clip((values + d) / limit, -1, 1)
        steps = np.round(255 * share) if limit is None else 128 + np.round(127 * share)
        fits |= (raster.pixels[..., :3] == steps_of[steps.astype(int)]).all(-1)
    assert fits[mask].all(), f"{where}: {np.argwhere(~fits & mask).tolist()}"
    # The scale.
    wide = max(96, width)
    assert near(box(bar), (left, top + height + 10, wide, 10)), where
    assert (bar.pixels[0, :, :3] == steps_of).all(), f"{where}, scale"
    text_at(marks, scale.word, left - 8, top + height + 15, "right")
    ends = ["0", "0.5", "1"] if limit is None else [scientific(-limit), "0", scientific(limit)]
    for n, align in enumerate(("left", "center", "right")):
        text_at(marks, ends[n], left + n * wide / 2, top + height + 30, align)
    # Hatching.
    clips = [m.clip for m in marks if m.what == "line" and m.stroke == ink["hatch"]]
    masked = [
        (left + start * cell, top + q * cell, length * cell, cell)
        for q in range(queries)
        for start, length in runs(~mask[q])
    ]
    same_boxes(f"{where}, hatched", clips, masked)
    grounds = [box(m) for m in marks if m.what == "fill" and m.fill == ink["hatch_ground"]]
    same_boxes(f"{where}, hatched", grounds, masked)
    # Axes and labels.
    text_at(marks, f"key: {row.keys.words}", left, 9, "left")
    title = only((m for m in marks if m.words == f"query: {row.queries.words}"), where)
    assert (title.x, title.align, round(title.turn, 3)) == (8, "center", -1.571), where
    unknown = []
    for axis, side in enumerate((row.queries, row.keys)):
        names = names_of(side)
        for i in labelled(cell, 13, range(len(names)), focus and focus[axis]):
            name = names[i]
            x, y = (left - 8, top + (i + 0.5) * cell + 1), (left + (i + 0.5) * cell + 1, top - 8)
            place_of = x if axis == 0 else y
            align = "right" if axis == 0 else "left"
            at_place = [m for m in marks if m.align == align and near((m.x, m.y), place_of)]
            label = only((m for m in at_place if m.what == "text"), f"{where}, {name}")
            assert is_label(label.words, name), f"{where}, {label.words}, not {name}"
            assert bool(label.turn) == bool(axis), f"{where}, {name}"
            strong = focus is not None and focus[axis] == i
            assert label.font.startswith("650 ") == strong, f"{where}, {name}"
            if side.tokens[i].unknown:
                unknown.append((axis, place_of))
    dashed = [m for m in marks if m.what == "frame" and m.dash == (2, 2)]
    assert len(dashed) == len(unknown), where
    for axis, (x, y) in unknown:
        aside = [m.middle[1] - y if axis == 0 else m.middle[0] - x for m in dashed]
        assert min(map(abs, aside)) <= 1.5, f"{where}, frame of an unknown token"
    # Frames.
    expected = [((left - 0.5, top - 0.5, width + 1, height + 1), ink["line"], 1)]
    if row.outlined is not None:
        y = top + row.outlined * cell - 1
        expected.append(((left - 1, y, width + 2, cell + 1), ink["ink"], 2))
    if focus is not None:
        y, x = top + focus[0] * cell, left + focus[1] * cell
        expected += [((left - 0.5, y - 0.5, width, cell), ink["ink"], 1)]
        expected += [((x - 0.5, top - 0.5, cell, height), ink["ink"], 1)]
        cell_box = x - 1, y - 1, cell + 1, cell + 1
        expected += [(cell_box, ink["page"], 5), (cell_box, ink["ink"], 2.5)]
    same_boxes(
        f"{where}, frames",
        ((*box(m), *m.stroke, m.thickness) for m in marks if m.what == "frame" and not m.dash),
        ((*place, *stroke, thickness) for place, stroke, thickness in expected),
    )


@pytest.mark.parametrize("name", ROWS)
def test_each_map_is_drawn_as_its_array(drawn: Callable, name: str) -> None:
    row, theme = ROWS[name]
    heads = row.maps[0].values.shape[1]
    for layer, head in [(1, 2)] if name == "long" else np.ndindex(len(row.layers), heads):
        focus = None if layer == head else (layer + 1, len(row.keys.tokens) - 1 - head)
        acts = [("choose", "layer", layer)] * (len(row.layers) > 1) + [("choose", "head", head)]
        said, shown = drawn(row, theme, *acts, *([("over", *focus)] if focus else []))
        assert len(shown) == len(row.maps)
        for place, marks in enumerate(shown):
            check(row, place, layer, head, marks, theme, said["at"], focus)
        check_file(said, shown, theme)


def check_file(said: dict, shown: list[list[Mark]], theme: str) -> None:
    """The saved file has the heading, then each map below its name and note."""
    ground, heading, *marks = svg_marks(said["svg"])
    assert ground.fill == colours(theme)["page"] and heading.words == said["title"]
    wide = ground.width / len(shown)
    for place, canvas in enumerate(shown):
        (name, note), marks = marks[:2], marks[2:]
        assert (name.words, note.words) == (said["names"][place], said["notes"][place])
        assert name.x == note.x == 8 + place * wide and name.y < note.y < 68
        same_picture(marks[: len(canvas)], canvas, (8 + place * wide, 68))
        marks = marks[len(canvas) :]
    assert not marks
