"""Each command of the explorer's canvases is that of the record: map, lines, overview, ticks.

Two records differ in sentences, layers and heads; words split into tokens, unknown and repeated
tokens; both themes. `test_explorer_files.py` reads saved pictures, and the pixels themselves.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.app.axes import ink_on
from tests.app.drawn import Mark
from tests.app.explorer_drawn import (
    Geometry,
    Scene,
    at,
    box,
    direction,
    entropy,
    fixed,
    is_label,
    labelled,
    mount,
    near,
    only,
    runs,
    same_boxes,
    scenes,
    shown,
    text_at,
)
from tests.app.explorer_harness import synthetic_quantity, synthetic_record
from tests.app.mounted import Mounted

__all__ = ["at", "shown"]
Focus = tuple[int | None, int | None]
NONE: Focus = (None, None)
Part = tuple[range, range]
"""The rows and columns that are shown."""


def check_axes(scene: Scene, marks: list[Mark], g: Geometry, part: Part) -> None:
    """Titles of both axes with arrows along them, and of both strips."""
    right, bottom = g.x(part[1][-1] + 1), g.y(part[0][-1] + 1)
    for words, y, way in (("key", g.top - 29, "right"), ("query", g.top - 12, "down")):
        title = text_at(marks, words, g.left - 22, y, "right")
        arrow = only(
            (m for m in marks if m.what == "line" and len(m.lines) == 2 and len(m.lines[1]) == 3
             and title.x < m.lines[0][0][0] < title.x + 20 and abs(m.y + m.height / 2 - y) < 5),
            f"{scene}, arrow of {words}",
        )  # fmt: skip
        assert direction(arrow) == way, f"{scene}, {words}"
        assert title.fill == arrow.stroke == scene.ink("second")
    sums = scene.quantity is None
    below = "received" if scene.small else "share received"
    below = below if sums else "mean of column"
    text_at(marks, below, g.left - 8, bottom + 16, "right")
    beside = "bits" if scene.small else "entropy, bits"
    beside = beside if sums else "largest"
    text_at(marks, beside, right + 10, g.top - 10, "left")


def shown_counts(scene: Scene, marks: list[Mark], g: Geometry) -> tuple[int, int]:
    """Return how many rows and columns the frame around the cells holds."""
    frame = only(
        (m for m in marks if m.what == "frame" and m.stroke == scene.ink("line")
         and near((m.x, m.y), (g.left - 0.5, g.top - 0.5))),
        f"{scene}, frame",
    )  # fmt: skip
    return round(frame.height / g.cell), round(frame.width / g.cell)


def cells_of(scene: Scene, marks: list[Mark], g: Geometry, part: Part) -> dict:
    """Return the colour of each drawn cell: of squares, or of a raster if the cells are small."""
    if g.cell > 9:
        side = g.cell - 1
        return {
            (round((m.y - g.y(0)) / g.cell), round((m.x - g.x(0)) / g.cell)): m.fill
            for m in marks
            if m.what == "fill" and near((m.width, m.height), (side, side))
            if m.x >= g.left and m.y >= g.top
        }
    raster = only((m for m in marks if m.what == "pixels"), f"{scene}, raster")
    queries, keys = scene.mask.shape
    assert near(box(raster), (g.x(0), g.y(0), keys * g.cell, queries * g.cell)), f"{scene}, raster"
    shown = np.argwhere(scene.mask[part[0][0] :, part[1][0] :][: len(part[0]), : len(part[1])])
    places = [(int(q) + part[0][0], int(k) + part[1][0]) for q, k in shown]
    return {place: tuple(map(int, raster.pixels[place][:3])) for place in places}


def check_cells(scene: Scene, marks: list[Mark], g: Geometry, part: Part) -> None:
    """The colour of each cell, the hatching of masked ones, and the bars of hidden columns."""
    fills = [m for m in marks if m.what == "fill"]
    cells = cells_of(scene, marks, g, part)
    hidden = scene.hidden()
    expected = {(q, k) for q in part[0] for k in part[1] if scene.mask[q, k] and k not in hidden}
    assert set(cells) == expected, f"{scene}, cells"
    for q, k in expected:
        assert cells[q, k] in scene.colours(scene.values[q, k]), f"{scene}, cell {q}, {k}"
    hatched = [m for m in fills if m.fill == scene.ink("hatch_ground")]
    boxes = [
        (g.x(part[1][0] + start), g.y(q), length * g.cell, g.cell)
        for q in part[0]
        for start, length in runs(~scene.mask[q, part[1][0] : part[1][-1] + 1])
    ]
    same_boxes(f"{scene}, hatched", map(box, hatched), boxes)
    strokes = [m for m in marks if m.what == "line" and m.stroke == scene.ink("hatch")]
    same_boxes(f"{scene}, clips", (m.clip for m in strokes if m.clip), boxes)
    third = [m for m in fills if m.fill == scene.ink("third") and g.left < m.x and g.top < m.y]
    inside = [m for m in third if m.x < g.x(part[1][-1] + 1) and m.y < g.y(part[0][-1] + 1)]
    bars = [
        (g.x(k) + 1, g.y(q) + 1, (g.cell - 2) * scene.values[q, k], g.cell - 3)
        for k in hidden
        for q in part[0]
        if scene.mask[q, k]
    ]
    same_boxes(f"{scene}, bars of hidden columns", map(box, inside), bars)


def check_digits(scene: Scene, marks: list[Mark], g: Geometry) -> None:
    """Large cells print their number, without its leading zero; small weights none."""
    name = scene.quantity[0] if scene.quantity else ""
    high = scene.ends[1]

    def digits(value: float) -> str:
        if name == "scores":
            return fixed(value, 1).replace("\u22120.0", "0.0")
        if value < 0.095 * high:
            return ""
        if high == 1:
            return "1" if value >= 0.995 else fixed(value, 2)[1:]
        return fixed(value, 0) if value >= 9.95 else fixed(value, 1).removeprefix("0")

    inside = [m for m in marks if m.what == "text" and not m.turn and m.align == "center"]
    seen = {
        (int((m.y - g.y(0)) // g.cell), int((m.x - g.x(0)) // g.cell)): m
        for m in inside
        if g.top < m.y < g.y(len(scene.mask)) and m.x > g.left
    }
    for place in np.argwhere(scene.mask).tolist():
        (q, k), where = place, f"{scene}, digits of {place}"
        value = scene.values[q, k]
        ways = {digits(value + d) for d in (-scene.near, 0, scene.near)}
        text = seen.pop((q, k), None)
        if g.cell < 23 or k in scene.hidden():
            assert text is None, where
        elif text is None:
            assert "" in ways, where
        else:
            assert text.words in ways, where
            assert near((text.x, text.y), (g.x(k) + (g.cell - 1) / 2, g.y(q + 0.5))), where
            assert text.fill in {ink_on(ground) for ground in scene.colours(value)}, where
    assert not seen, f"{scene}, digits in masked cells"


def check_strips(scene: Scene, marks: list[Mark], g: Geometry, part: Part, focus: Focus) -> None:
    """Beside each row its entropy or largest value, below each column its share or mean."""
    values, mask, sums = scene.values, scene.mask, scene.quantity is None
    low, high = scene.ends
    right, bottom = g.x(part[1][-1] + 1), g.y(part[0][-1] + 1)
    fills = [m for m in marks if m.what == "fill"]
    beside = {round((m.y - g.top) / g.cell - 0.3) + g.query: m for m in fills
              if near((m.x,), (right + 10,)) and g.top <= m.y < bottom}  # fmt: skip
    assert set(beside) == set(part[0]), f"{scene}, rows with a bar"
    bits = entropy(values)
    peaks = np.where(mask, values, -np.inf).max(1)
    for q, bar in beside.items():  # a focused row's bar is drawn last, over the other one
        share = bits[q] / np.log2(values.shape[1]) if sums else (peaks[q] - low) / (high - low)
        assert near((bar.width,), (max(1, (26 if scene.small else 34) * share),), 0.03), (
            f"{scene}, bar of row {q}"
        )
        assert bar.fill == scene.ink("ink" if q == focus[0] else "third"), f"{scene}, row {q}"
        number = fixed(bits[q] if sums else peaks[q], 1)
        if not scene.small and (g.cell >= 14 or q == focus[0]):
            at = right + 50, g.y(q + 0.5)
            found = [m.words for m in marks if m.what == "text" and near((m.x, m.y), at)]
            assert found and set(found) <= {number, number.lstrip("\u2212")}, f"{scene}, row {q}"
    count = 1 if sums else mask.sum(0)
    received = values.mean(0) if sums else values.sum(0) / np.maximum(1, count)
    full = max(0.25, received.max())
    below = {m.x: m for m in fills if near((m.y,), (bottom + 8,)) and m.x > g.left}
    same_boxes(
        f"{scene}, columns with a bar", ((x,) for x in below), ((g.x(k + 0.25),) for k in part[1])
    )
    for k in part[1]:
        share = received[k] / full if sums else (received[k] - low) / (high - low)
        bar = below[min(below, key=lambda x: abs(x - g.x(k + 0.25)))]
        assert near((bar.height,), (max(1, 24 * share),), 0.03), f"{scene}, bar of column {k}"
        assert bar.fill == scene.ink("ink" if k == focus[1] else "third"), f"{scene}, column {k}"
    if sums:
        bar = "full" if scene.small else "full bar"
        text_at(marks, f"{bar}: {100 * full:.0f}\u00a0%", g.left - 8, bottom + 31, "right")
    named = int(received.argmax()) if focus[1] is None else focus[1]
    if named in part[1]:
        share = received[named] / full if sums else (received[named] - low) / (high - low)
        place = g.x(named + 0.5), bottom + 17 + max(1, 24 * share)
        texts = [m for m in marks if m.what == "text" and near((m.x, m.y), place, 0.05)]
        number = only(texts, f"{scene}, number of column {named}")
        text = f"{100 * received[named]:.0f}\u00a0%" if sums else fixed(received[named], 1)
        if sums and received[named] < 0.005:
            text = f"{100 * received[named]:.1f}\u00a0%"
        assert number.words == text
        assert number.fill == scene.ink("second" if focus[1] is None else "ink")


def check_labels(scene: Scene, marks: list[Mark], g: Geometry, part: Part, focus: Focus) -> None:
    """Labels with their numbers and looks, brackets of split words, frames of unknown tokens."""
    texts = [m for m in marks if m.what == "text"]
    upright = [m for m in texts if not m.turn and m.align == "right"]
    slanted = [m for m in texts if m.turn and m.align == "left"]
    within = lambda found, x, y, by: [m for m in found if np.hypot(m.x - x, m.y - y) < by]  # noqa: E731
    dashed = [m for m in marks if m.what == "frame" and m.dash == (2, 2)]
    numbered, framed = g.cell >= 14 and not scene.small, []
    shift = 2 if g.cell >= 16 else 0  # of slanted labels
    for axis, items in enumerate(scene.items):
        drawn = labelled(g.cell, 13 if scene.small else 15, part[axis], focus[axis])
        assert axis == 0 or len([m for m in slanted if m.words in {i.label for i in items}]) == len(
            drawn
        )
        for i in drawn:
            item, where = items[i], f"{scene}, label {i} of axis {axis}"
            if axis == 0:
                found = within(upright, g.left - 8 - 20 * numbered, g.y(i + 0.5) + 1, 0.1)
            else:
                found = within(slanted, g.x(i + 0.5) + shift, g.top - 9, 1.5)
            one = only(found, where)
            assert is_label(one.words, item.label), where
            strong, weak = i == focus[axis], focus[axis] is not None
            quiet = item.special or (axis == 1 and i in scene.hidden())
            name = "ink" if strong else "third" if quiet else "second" if weak else "ink"
            assert one.fill == scene.ink(name), where
            assert one.font.startswith("650 ") == strong, where
            number = str(item.number)
            if axis == 0 and numbered:
                beside = text_at(texts, number, g.left - 8, g.y(i + 0.5) + 1, "right")
                assert beside.fill == scene.ink("ink" if strong else "third"), where
            elif axis == 1:
                along = np.array([np.cos(one.turn), np.sin(one.turn)])
                end = np.array([one.x, one.y]) + (one.width + 3) * along
                after = [m.words for m in within(slanted, *end, 4) if m is not one]
                assert after == [number] * (numbered and item.repeated), where
            if item.unknown:
                framed.append((axis, i))
    middles = [m.middle for m in dashed]
    assert len(dashed) == len(framed), f"{scene}, frames of unknown tokens"
    for axis, i in framed:
        at = [g.y(i + 0.5) - y for x, y in middles if x < g.left and y > g.top]
        if axis:
            at = [m.x + 6 - g.x(i + 0.5) for m in dashed if m.y + m.height < g.top + 9]
        assert min(map(abs, at)) < 0.3 * g.cell, f"{scene}, frame of {i} of axis {axis}"
    lines = []
    for first, last in scene.brackets(0):
        first, last = max(first, part[0][0]), min(last, part[0][-1])
        if first <= last:
            lines.append((g.left - 4.5, g.y(first) + 3, g.left - 4.5, g.y(last + 1) - 4))
    for first, last in scene.brackets(1):
        first, last = max(first, part[1][0]), min(last, part[1][-1])
        if first <= last:
            lines.append((g.x(first) + 3, g.top - 4.5, g.x(last + 1) - 4, g.top - 4.5))
    seen = [
        (*line[0], *line[1])
        for m in marks
        if m.what == "line" and all(len(line) == 2 for line in m.lines) and not m.clip
        for line in m.lines
    ]
    same_boxes(f"{scene}, brackets", seen, lines)


def check_focus(
    scene: Scene, marks: list[Mark], g: Geometry, part: Part,
    focus: Focus, pinned: Focus,
) -> None:  # fmt: skip
    """Frames of the focused row, column and cell; dashed ones of what is pinned meanwhile."""
    width, height = len(part[1]) * g.cell, len(part[0]) * g.cell
    place = g.left - 0.5, g.top - 0.5, width, height
    frames = [m for m in marks if m.what == "frame" and not near(box(m), place)]
    frames = [m for m in frames if m.dash != (2, 2)]

    def sides(cell: Focus, besides: Focus) -> list[tuple[float, ...]]:
        row, column = cell
        found = []
        if row is not None and row != besides[0] and row in part[0]:
            found.append((g.left - 0.5, g.y(row) - 0.5, width, g.cell))
        if column is not None and column != besides[1] and column in part[1]:
            found.append((g.x(column) - 0.5, g.top - 0.5, g.cell, height))
        return found

    dashed = [m for m in frames if m.dash]
    same_boxes(
        f"{scene}, pinned", map(box, dashed), sides(pinned, focus) if pinned != focus else []
    )
    assert {(m.stroke, m.dash) for m in dashed} <= {(scene.ink("third"), (3, 3))}
    expected = [((*side, 1, 0.75), scene.ink("ink")) for side in sides(focus, NONE)]
    if None not in focus and focus[0] in part[0] and focus[1] in part[1]:
        cell = g.x(focus[1]) - 1, g.y(focus[0]) - 1, g.cell + 1, g.cell + 1
        expected += [((*cell, 5, 1), scene.ink("page")), ((*cell, 2.5, 1), scene.ink("ink"))]
    solid = [m for m in frames if not m.dash]
    for ink in {stroke for _, stroke in expected} | {m.stroke for m in solid}:
        same_boxes(
            f"{scene}, focused, {ink}",
            ((*box(m), m.thickness, m.alpha) for m in solid if m.stroke == ink),
            (numbers for numbers, stroke in expected if stroke == ink),
        )


def check_legend(scene: Scene) -> None:
    """The scale's colours and ends, and the hatching, which is explained if there is any."""
    scale = only(scene.marks("[data-part=scale]"), f"{scene}, scale")
    assert (scale.pixels[0, :, :3] == scene.table).all(), f"{scene}, scale"
    for part, value in zip(("low", "high"), scene.ends, strict=True):
        words = scene.page.locator(f"#host [data-part=scale-{part}]").text_content()
        digits = 0 if scene.quantity is None else 1
        assert words in {fixed(value, digits), fixed(value, 0)}, f"{scene}, {part} end"
    legend = scene.page.locator("#host [data-part=masked-legend]")
    assert legend.is_visible() == (not scene.mask.all()), f"{scene}, legend of masked cells"
    hatch = scene.marks("[data-part=hatch]")
    assert {m.fill for m in hatch if m.what == "fill"} == {scene.ink("hatch_ground")}
    assert {m.stroke for m in hatch if m.what == "line"} == {scene.ink("hatch")}


def check_map(scene: Scene, focus: Focus = NONE, pinned: Focus = NONE) -> Part:
    """Check all that the map's canvas shows, and return the rows and columns that it shows."""
    g, marks = scene.geometry(), scene.marks()
    counts = shown_counts(scene, marks, g)
    part = range(g.query, g.query + counts[0]), range(g.key, g.key + counts[1])
    check_legend(scene)
    check_axes(scene, marks, g, part)
    check_cells(scene, marks, g, part)
    if len(part[0]) == len(scene.mask):
        check_digits(scene, marks, g)
    check_strips(scene, marks, g, part, focus)
    check_labels(scene, marks, g, part, focus)
    check_focus(scene, marks, g, part, focus, pinned)
    return part


def test_a_map_is_drawn_as_the_record_is(shown: Scene) -> None:
    for scene in scenes(shown):
        scene.show()
        counts = shown_counts(scene, scene.marks(), scene.geometry())
        assert counts == scene.mask.shape, "the whole map"
        check_map(scene)


def test_the_pointed_and_the_pinned_cell_are_framed(shown: Scene) -> None:
    for scene in scenes(shown):
        scene.show()
        rows, columns = scene.mask.shape
        pinned, pointed = (rows - 2, 1), (rows - 1, columns - 2)
        scene.at.does(("cell", *pinned), ("leave",))
        check_map(scene, pinned, pinned)
        scene.at.does(("over", *pointed))
        check_map(scene, pointed, pinned)
        scene.at.does(("leave",), ("key", "Escape"))
        check_map(scene)


def test_columns_that_are_hidden_keep_their_places(shown: Scene) -> None:
    for scene in scenes(shown, hide=True):
        scene.show()
        assert scene.hidden(), "a hidden column"
        check_map(scene)


@pytest.mark.parametrize("name", ["scores", "norms"])
def test_other_quantities_are_drawn_on_their_own_scale(at: Mounted, name: str) -> None:
    made = synthetic_record("short", 3, 2, 2)
    numbers = synthetic_quantity(made, name)
    for theme in ("light", "dark"):
        mount(at, theme, made, quantities={name: numbers})
        first = Scene(at, made, theme, "cross", 0, 0)
        for scene in scenes(first, "pieces"):
            scene = replace(scene, quantity=(name, numbers[scene.kind]))
            scene.show()
            check_map(scene)
            scene.at.does(("cell", 2, 1), ("leave",))
            check_map(scene, (2, 1), (2, 1))
            scene.at.does(("key", "Escape"))


def test_an_enlarged_map_shows_a_part_with_all_that_belongs_to_it(at: Mounted) -> None:
    made = synthetic_record("long", 1, 2, 1)
    mount(at, "dark", made)
    for scene in scenes(Scene(at, made, "dark", "cross", 0, 0), "pieces"):
        scene.show()
        check_map(scene)
        cell = tuple(2 * count // 3 for count in scene.mask.shape)
        scene.at.does(("cell", *cell), ("leave",), *[("press", "[data-part=zoom-in]")] * 4)
        rows, columns = check_map(scene, cell, cell)
        assert rows[0] > 0 and columns[0] > 0, "moved in both directions"
        part = scene.mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert part.shape != scene.mask.shape and part.all() == (scene.kind != "decoder")
        scene.at.does(*[("press", "[data-part=zoom-out]")] * 4, ("key", "Escape"))


def test_a_map_on_a_phone_has_short_titles(shown: Scene) -> None:
    shown.page.evaluate("host.style.width = '390px'")
    try:
        shown.page.wait_for_selector("#host [data-width=narrow]")
        for scene in scenes(shown, small=True):
            scene.show()
            check_map(scene)
            scene.at.does(("cell", 2, 1), ("leave",))
            check_map(scene, (2, 1), (2, 1))
            scene.at.does(("key", "Escape"))
    finally:
        shown.page.evaluate("host.style.width = ''")
