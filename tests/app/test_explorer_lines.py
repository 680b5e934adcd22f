"""Each line of the explorer is a weight of the record: its ends, width, colour, and its words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.app.drawn import Mark
from tests.app.explorer_drawn import Scene, at, fixed, near, only, same_boxes, scenes, shown

__all__ = ["at", "shown"]

Focus = tuple[int | None, int | None]


def smallest_set(values: NDArray, share: float) -> list[tuple[int, int]]:
    """Return the fewest cells (query, key) that cover a share of each row."""
    found = []
    for query, row in enumerate(values):
        order = np.argsort(-row)
        before = np.cumsum(row[order]) - row[order]
        found += [(query, int(k)) for k in order[before < share * row.sum() - 1e-9]]
    return found


@dataclass(frozen=True)
class Side:
    """One of the two columns of words: the labels from top to bottom, and where they are."""

    labels: list[Mark]
    pitch: float

    def y(self, place: float) -> float:
        return self.labels[0].y - 1 + place * self.pitch


def side_of(scene: Scene, marks: list[Mark], axis: int) -> Side:
    """Check and return the words of the queries (axis 0, right) or the keys (axis 1, left)."""
    items, align = scene.items[axis], ("left", "right")[axis]
    texts = [m for m in marks if m.what == "text" and m.align == align and m.y > 20]
    names = {item.label for item in items}
    labels = sorted((m for m in texts if m.words in names), key=lambda m: m.y)
    assert [m.words for m in labels] == [item.label for item in items], f"{scene}, words"
    steps = np.diff([m.y for m in labels])
    assert np.ptp(steps) < 0.05, f"{scene}, words are evenly spaced"
    return Side(labels, float(steps.mean()))


def check_lines(scene: Scene, marks: list[Mark], focus: Focus, queries: Side, keys: Side) -> None:
    """The lines of the fewest cells: from key to query, as wide and dark as the weight."""
    values = scene.values.copy()
    values[:, scene.hidden()] = 0
    curves = [m for m in marks if m.what == "line" and len(m.lines[0]) == 4]
    expected = smallest_set(values, 0.7)
    assert len(curves) == len(expected), f"{scene}, lines"
    seen = []
    for curve in curves:
        (_, start), (_, end) = curve.lines[0][0], curve.lines[0][-1]
        key, query = (start - keys.y(0)) / keys.pitch, (end - queries.y(0)) / queries.pitch
        place = round(query), round(key)
        assert near((query, key), place, 0.01), f"{scene}, {place}"
        assert curve.lines[0][0][0] < curve.lines[0][-1][0], "from the keys on the left"
        value = values[place]
        assert near((curve.thickness,), (0.7 + 3.6 * value,), 1e-4), f"{scene}, width of {place}"
        assert curve.stroke in scene.colours(0.22 + 0.78 * value), f"{scene}, colour of {place}"
        belongs = place[0] == focus[0] if focus[0] is not None else focus[1] in (None, place[1])
        assert curve.alpha == (1 if belongs else pytest.approx(0.13)), f"{scene}, {place}"
        seen.append((belongs, value, place))
    assert sorted(place for *_, place in seen) == sorted(expected), f"{scene}, lines"
    order = [one[:2] for one in seen]
    assert order == sorted(order), f"{scene}: faint lines, and small weights, are drawn first"


def check_words(scene: Scene, marks: list[Mark], focus: Focus, sides: tuple[Side, Side]) -> None:
    """Shading and number of the words that the focus is about, its frame, and the brackets."""
    values, mask = scene.values, scene.mask
    texts = [m for m in marks if m.what == "text"]
    fills = [m for m in marks if m.what == "fill"]
    framed = []
    for axis, side in enumerate(sides):
        other = focus[1 - axis] if axis or focus[0] is None else None
        for i, label in enumerate(side.labels):
            where = f"{scene}, word {i} of axis {axis}"
            cell = (other, i) if axis else (i, other)
            counts = other is not None and mask[cell] and not (axis and i in scene.hidden())
            value = values[cell] if counts else 0
            grounds = [
                m for m in fills if m.y < side.y(i) < m.y + m.height and label.clip is None
                and m.x < label.x - (label.width / 2) * (1 if axis else -1) < m.x + m.width
                and abs(m.middle[1] - side.y(i)) < 0.1
            ]  # fmt: skip
            shaded = counts and value >= 0.02
            assert len(grounds) == int(shaded or i == focus[axis]), f"{where}, ground"
            for ground in grounds:
                expected = scene.colours(value) if shaded else {scene.ink("page")}
                assert ground.fill in expected, f"{where}, ground"
            item = scene.items[axis][i]
            quiet = item.special or (axis == 1 and i in scene.hidden())
            if not shaded:
                assert label.fill == scene.ink("third" if quiet else "ink"), where
            assert label.font.startswith("650 ") == (i == focus[axis]), where
            x = label.x + (14 + 14 * item.repeated if axis else -14)
            place = x, side.y(i) - max(8, 0.32 * side.pitch)
            above = [m.words for m in texts if near((m.x, m.y), place, 0.05)]
            assert above == [fixed(value, 2)] * int(value >= 0.05), f"{where}, number"
            place = label.x + 3 + label.width * (not axis), side.y(i) + 3
            numbers = [m.words for m in texts if near((m.x, m.y), place, 1.1)]
            assert numbers == [str(item.number)] * item.repeated, f"{where}, number of the word"
            if i == focus[axis]:
                framed.append(side.y(i))
    frames = [m for m in marks if m.what == "frame"]
    assert {(m.stroke, m.thickness) for m in frames} <= {(scene.ink("ink"), 1.5)}
    same_boxes(f"{scene}, frames", ((m.middle[1],) for m in frames), ((y,) for y in framed))
    left, right = (  # the ends of the lines
        {
            x
            for m in marks
            if m.what == "line" and len(m.lines[0]) == 4
            for x in (m.lines[0][end][0],)
        }
        for end in (0, -1)
    )
    lines = []
    for axis, x in ((0, right.pop() + 3.5), (1, left.pop() - 3.5)):
        side = sides[axis]
        half = side.pitch / 2 - 3
        lines += [(x, side.y(a) - half, x, side.y(b) + half) for a, b in scene.brackets(axis)]
    brackets = [m for m in marks if m.what == "line" and len(m.lines[0]) == 2]
    seen = [(*line[0], *line[1]) for m in brackets for line in m.lines]
    same_boxes(f"{scene}, brackets", seen, lines)


def check_ends(scene: Scene, marks: list[Mark]) -> None:
    """The title above each column: what is looked at, and what looks."""
    made = scene.record
    key = made.target_language if scene.kind == "decoder" else made.source_language
    query = made.source_language if scene.kind == "encoder" else made.target_language
    doing = "read" if scene.kind == "encoder" else "produced"
    titles = [(m.words, m.align, m.fill) for m in marks if m.what == "text" and near((m.y,), (12,))]
    grey = scene.ink("second")
    assert titles == [
        (f"key: {key}", "right", grey),
        (f"query: {query}, being {doing}", "left", grey),
    ]


def check(scene: Scene, focus: Focus = (None, None)) -> None:
    marks = scene.marks()
    queries, keys = (side_of(scene, marks, axis) for axis in (0, 1))
    check_ends(scene, marks)
    check_lines(scene, marks, focus, queries, keys)
    check_words(scene, marks, focus, (queries, keys))
    hidden = [m for m in marks if m.what == "text" and m.words.startswith("hidden")]
    if focus[0] is None or not scene.hide:
        assert not hidden
        return
    mass = scene.values[focus[0], scene.hidden()].sum()
    one = only(hidden, f"{scene}, hidden")
    assert one.words == f"hidden {fixed(mass, 2)}" and near((one.y,), (queries.y(focus[0]),))


@pytest.mark.parametrize("hide", [False, True])
def test_lines_are_the_weights(shown: Scene, hide: bool) -> None:
    for scene in scenes(shown, hide=hide):
        scene.show("lines")
        check(scene)
        rows, columns = scene.mask.shape
        side = "source" if scene.kind == "encoder" else "target"
        if scene.unit == "pieces":
            token = rows - 2 + (side == "target")
            scene.at.does(("press", f".{side} .token[data-index='{token}']"), ("leave",))
            check(scene, (rows - 2, None))
            scene.at.does(("key", "Escape"))
            if scene.kind != "encoder":
                of = "target" if scene.kind == "decoder" else "source"
                key = 0 if scene.kind == "decoder" else columns - 3
                scene.at.does(("press", f".{of} .token[data-index='{key}']"), ("leave",))
                check(scene, (None, key))
                scene.at.does(("key", "Escape"))
