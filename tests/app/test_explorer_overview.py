"""Each thumbnail, caption, label and tick of the overview is that of its layer and head."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from app.components.explorer.payload import payload
from tests.app.drawn import Mark
from tests.app.explorer_drawn import (
    Scene,
    at,
    box,
    entropy,
    fixed,
    mount,
    near,
    only,
    same_boxes,
    scenes,
    shown,
)
from tests.app.explorer_harness import synthetic_quantity, synthetic_record
from tests.app.mounted import Mounted

__all__ = ["at", "shown"]
MAPS, OVER = ".overview-maps", ".overview-focus"
PLACES = """(root) => [...root.querySelectorAll(".thumbnail, .head-label, .layer-label")]
  .filter((at) => !at.classList.contains("missing"))
  .map((at) => [at.className.split(" ")[0], at.dataset.l ?? at.textContent, at.dataset.h ?? "",
    at.offsetLeft, at.offsetTop, at.offsetWidth])"""


def buttons(scene: Scene) -> dict[tuple[int, int], tuple[float, float, float]]:
    """Return left, top and size of each thumbnail's button, by layer and head."""
    found = scene.page.locator("#host section.explorer").evaluate(PLACES)
    return {
        (int(layer), int(head)): (left, top, size)
        for name, layer, head, left, top, size in found
        if name == "thumbnail"
    }


def thumbnails(scene: Scene, marks: list[Mark]) -> dict[tuple[int, int], Mark]:
    """Return the picture above each button: each is as large as its button."""
    pictures = [m for m in marks if m.what == "pixels"]
    found = {}
    for place, (left, top, size) in buttons(scene).items():
        at = [m for m in pictures if near(box(m), (left, top, size, size), 0.6)]
        found[place] = only(at, f"{scene}, thumbnail {place}")
    assert len(found) == len(pictures)
    return found


def own(scene: Scene, layer: int, head: int) -> NDArray:
    """Return a thumbnail's values. Rollout has one map per layer."""
    if scene.quantity and scene.quantity[0] == "rollout":
        head = 0
    return replace(scene, layer=layer, head=head).values


def check_thumbnails(scene: Scene) -> None:
    """Every cell of every thumbnail has its weight's colour, or the grey of masked or hidden."""
    for place, picture in thumbnails(scene, scene.marks(MAPS)).items():
        check_pixels(scene, *place, picture.pixels)


def check_pixels(scene: Scene, layer: int, head: int, pixels: NDArray) -> None:
    """Compare the pixels of a head's map, one per cell."""
    values, where = own(scene, layer, head), f"{scene}, thumbnail {layer}, {head}"
    pixels = pixels[..., :3].astype(int)
    assert pixels.shape[:2] == values.shape, where
    one, other = ((pixels == scene.table[steps]).all(-1) for steps in scene.steps(values))
    fits = one | other
    greys = np.where(scene.mask[..., None], scene.ink("left_out"), scene.ink("masked"))
    hidden = np.zeros(values.shape, bool)
    hidden[:, scene.hidden()] = True
    fits = np.where(hidden | ~scene.mask, (pixels == greys).all(-1), fits)
    assert fits.all(), f"{where}: {np.argwhere(~fits)[:4].tolist()}"


def captions(scene: Scene) -> dict[tuple[int, int], list[Mark]]:
    """Return the texts below each thumbnail, from top to bottom."""
    texts = [m for m in scene.marks(MAPS) if m.what == "text"]
    found = {}
    for place, (left, top, size) in buttons(scene).items():
        under = [m for m in texts if abs(m.x - left) < 1 and 0 < m.y - top - size < 30]
        found[place] = sorted(under, key=lambda m: m.y)
    assert sum(map(len, found.values())) == len(texts), f"{scene}: a caption below no thumbnail"
    return found


def words(marks: list[Mark]) -> list[str]:
    return [m.words for m in marks]


def ways(value: float, digits: int, unit: str = "") -> set[str]:
    return {fixed(value + d, digits) + unit for d in (-1e-6, 0, 1e-6)}


def test_thumbnails_labels_and_hidden_columns(shown: Scene) -> None:
    for more in ({}, {"hide": True}, {"combine": "max"}):
        for scene in scenes(shown, **more):
            scene.show()
            check_thumbnails(scene)
            layers, heads = getattr(scene.record, scene.kind).shape[:2]
            labels = scene.page.locator("#host section.explorer").evaluate(PLACES)
            rows = {top: text for name, text, _, _, top, _ in labels if name == "layer-label"}
            columns = {left: text for name, text, _, left, _, _ in labels if name == "head-label"}
            nearest = lambda found, at: found[min(found, key=lambda place: abs(place - at))]  # noqa: E731
            for (layer, head), (left, top, size) in buttons(scene).items():
                row, column = nearest(rows, top + size / 2), nearest(columns, left)
                first = "layer 1" if layer == 0 else str(layer + 1)
                assert row == (scene.combine if layer == layers else first), f"{scene}, row"
                first = "head 1" if head == 0 else str(head + 1)
                assert column == (scene.combine if head == heads else first), f"{scene}, column"


@pytest.mark.parametrize("name", ["scores", "norms", "rollout"])
def test_thumbnails_of_other_quantities(at: Mounted, name: str) -> None:
    """Rollout has one map per layer, side by side; its columns are named by layers."""
    made = synthetic_record("short", 3, 4, 2)
    numbers = synthetic_quantity(made, name)
    mount(at, "dark", made, quantities={name: numbers})
    for scene in scenes(Scene(at, made, "dark", "cross", 0, 0), "pieces"):
        head = 4 if name == "rollout" else 2  # rollout: no head, but all of them
        scene = replace(scene, layer=0, head=head, quantity=(name, numbers[scene.kind]))
        scene.show()
        check_thumbnails(scene)
        if name != "rollout":
            continue
        places = buttons(scene)
        assert list(places) == [(layer, 4) for layer in range(len(numbers[scene.kind]))]
        labels = scene.page.locator("#host section.explorer").evaluate(PLACES)
        columns = [(left, text) for what, text, _, left, _, _ in labels if what == "head-label"]
        for (layer, _), (left, _, _) in places.items():
            nearest = min(columns, key=lambda column, left=left: abs(column[0] - left))[1]
            assert nearest == ("layer 1" if layer == 0 else str(layer + 1))


def test_the_chosen_head_alone_is_bold(shown: Scene) -> None:
    """Choosing another head changes no caption, but the weight of its own and the last one's."""
    for scene in scenes(shown, "pieces"):
        layers, heads = getattr(scene.record, scene.kind).shape[:2]
        first = None
        for layer, head in ((0, 0), (layers - 1, heads - 1), (layers, 0), (0, heads)):
            replace(scene, layer=layer, head=head).show()
            found = captions(scene)
            assert all(found.values()), "each thumbnail has a caption"
            first = first or {place: words(marks) for place, marks in found.items()}
            assert {place: words(marks) for place, marks in found.items()} == first
            bold = {
                place
                for place, marks in found.items()
                if {m.font.startswith("650 ") for m in marks} == {True}
            }
            assert bold == {(layer, head)}, f"{scene}, bold"
            for place, marks in found.items():
                ink = scene.ink("ink" if place == (layer, head) else "second")
                assert {m.fill for m in marks} == {ink}, f"{scene}, {place}"


@pytest.mark.parametrize("sort", ["confidence", "spread", "distance"])
def test_sorted_thumbnails_have_their_own_captions(shown: Scene, sort: str) -> None:
    measures = {
        "confidence": lambda values, _: (values.max(1).mean(), 0),
        "spread": lambda values, _: (entropy(values).mean(), 1),
        "distance": lambda values, kind: (distance(values, kind), 1),
    }
    for scene in scenes(shown, "pieces"):
        scene.show()
        scene.at.does(("set", "[data-part=sort]", sort))
        check_thumbnails(scene)
        layers, heads = getattr(scene.record, scene.kind).shape[:2]
        for (layer, head), marks in captions(scene).items():
            if layer == layers or head == heads:
                continue
            value, digits = measures[sort](own(scene, layer, head), scene.kind)
            name, number = words(marks)
            assert name == f"{layer + 1}.{head + 1}", f"{scene}, below {layer}, {head}"
            shows = ways(100 * value, 0, "\u00a0%") if digits == 0 else ways(value, digits)
            assert re.sub(" b(its)?$", "", number) in shows, f"{scene}, {layer}, {head}"
        scene.at.does(("set", "[data-part=sort]", "layer"))


def test_a_pinned_row_or_column_captions_all_heads(shown: Scene) -> None:
    """A row: where each head looks most, a repeated word with its number. A column: its share."""
    marks_of_numbers = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
    for scene in scenes(shown, "pieces"):
        scene.show()
        query, key = len(scene.mask) - 2, 1
        columns = scene.items[1]
        side, token = ("source", query) if scene.kind == "encoder" else ("target", query + 1)
        scene.at.does(("press", f".{side} .token[data-index='{token}']"), ("leave",))
        for (layer, head), marks in captions(scene).items():
            row = own(scene, layer, head)[query]
            item = columns[int(row.argmax())]
            name = item.label + str(item.number).translate(marks_of_numbers) * item.repeated
            word, number = words(marks)
            same = word == name or (word[-1] == "…" and name.startswith(word[:-1]))
            assert same, f"{scene}, {layer}, {head}: {word}, not {name}"
            assert number in {n.removeprefix("0") for n in ways(row.max(), 2)}
        check_frames(scene, query, None)
        scene.at.does(("key", "Escape"))
        if scene.kind == "encoder":
            continue
        side, token = ("target", key) if scene.kind == "decoder" else ("source", key)
        if scene.kind == "decoder":
            side, token, key = "target", 0, 0  # only <bos> is a column and no row
        scene.at.does(("press", f".{side} .token[data-index='{token}']"), ("leave",))
        for (layer, head), marks in captions(scene).items():
            share = own(scene, layer, head)[:, key].mean()
            digits = 1 if share < 0.005 else 0
            assert words(marks)[0] == "gives"
            assert words(marks)[1] in ways(100 * share, digits, "\u00a0%"), (
                f"{scene}, {layer}, {head}"
            )
        check_frames(scene, None, key)
        scene.at.does(("key", "Escape"))


def check_frames(scene: Scene, query: int | None, key: int | None) -> None:
    """The focused row and column are framed in every thumbnail."""
    lines = [line for m in scene.marks(OVER) for line in m.lines]
    queries, keys = scene.mask.shape
    boxes = []
    for left, top, size in buttons(scene).values():
        if query is not None:
            high = max(2, size / queries) + 1
            boxes.append((left - 0.5, top + size * query / queries - 0.5, size + 1, high))
        if key is not None:
            wide = max(2, size / keys) + 1
            boxes.append((left + size * key / keys - 0.5, top - 0.5, wide, size + 1))
    ends = [np.array(line) for line in lines]
    seen = [(*points.min(0), *(points.max(0) - points.min(0))) for points in ends]
    same_boxes(f"{scene}, frames", seen, boxes)


def test_a_crowded_overview_frames_the_chosen_thumbnail(at: Mounted) -> None:
    made = synthetic_record("short", 2, 12, 3)
    mount(at, "dark", made)
    scene = Scene(at, made, "dark", "decoder", 2, 7)
    scene.show()
    check_thumbnails(scene)
    left, top, size = buttons(scene)[2, 7]
    frames = [m for m in scene.marks(MAPS) if m.what == "frame"]
    same_boxes("chosen", map(box, frames), [(left - 1, top - 1, size + 2, size + 2)])
    assert frames[0].stroke == scene.ink("ink")


# The measures.


def distance(values: NDArray, kind: str) -> float:
    """Mean distance from a row's own token, or from the diagonal; a row's own token comes next."""
    rows, keys = values.shape
    own_place = np.arange(rows)[:, None] * (1 if kind != "cross" else (keys - 1) / (rows - 1))
    away = np.abs(np.arange(keys) - own_place - (kind == "decoder"))
    return float((values * away).sum(1).mean())


def on(values: NDArray, first: int, key) -> float:
    """Mean weight of each row q from `first` on the column key(q), over rows that have it."""
    rows, keys = values.shape
    return float(np.mean([values[q, key(q)] for q in range(first, rows) if 0 <= key(q) < keys]))


LINES = {  # label and number of each line, for a kind
    "encoder": {
        "on the previous token": lambda v: on(v, 0, lambda q: q - 1),
        "on itself": lambda v: on(v, 0, lambda q: q),
        "on the next token": lambda v: on(v, 0, lambda q: q + 1),
        "attention to <eos>": lambda v: on(v, 0, lambda q: v.shape[1] - 1),
    },
    "decoder": {  # row q is named by the token after the one fed in, which is in column q
        "on the previous token": lambda v: on(v, 2, lambda q: q),
        "on the token 2 back": lambda v: on(v, 2, lambda q: q - 1),
        "attention to <bos>": lambda v: on(v, 2, lambda q: 0),
    },
    "cross": {"attention to <eos>": lambda v: on(v, 0, lambda q: v.shape[1] - 1)},
}


def test_ticks_are_the_measures_of_all_heads(shown: Scene) -> None:
    for scene in scenes(shown, "pieces"):
        scene.show()
        layers, heads = getattr(scene.record, scene.kind).shape[:2]
        keys = scene.mask.shape[1]
        away = "off the diagonal" if scene.kind == "cross" else "distance"
        lines = {
            "mean largest weight": lambda v: v.max(1).mean(),
            "entropy": lambda v: entropy(v).mean(),
            away: lambda v, kind=scene.kind: distance(v, kind),
            **LINES[scene.kind],
        }
        rows = scene.at.does()["statistics"]
        assert [label for label, _ in rows] == list(lines), f"{scene}, labels"
        fills = [m for m in scene.marks("[data-part=ticks]") if m.what == "fill"]
        for n, (label, measure) in enumerate(lines.items()):
            all_heads = [measure(own(scene, x, y)) for x, y in np.ndindex(layers, heads)]
            value = measure(scene.values)
            most = max(1, *all_heads) if label == away else 1
            most = np.log2(keys) if label == "entropy" else most
            inside = [m for m in fills if 22 * n <= m.y < 22 * (n + 1)]
            axis = only((m for m in inside if m.height == 1), f"{scene}, {label}")
            assert axis.fill == scene.ink("line")
            place = lambda v, axis=axis, most=most: (axis.x + axis.width * v / most,)  # noqa: E731
            short = [
                (m.middle[0],) for m in inside if m.height == 7 and m.fill == scene.ink("third")
            ]
            same_boxes(f"{scene}, {label}, short ticks", short, map(place, all_heads))
            tall = [(m.middle[0],) for m in inside if m.height == 15 and m.fill == scene.ink("ink")]
            same_boxes(f"{scene}, {label}, tall tick", tall, [place(value)])


def test_another_shape_of_network_gets_another_grid(at: Mounted) -> None:
    # Both have the same number of maps, means included.
    for again, (layers, heads) in enumerate([(3, 2), (2, 3)]):
        at.show(
            payload(synthetic_record("short", layers, heads), {"kind": "cross"}), again=again > 0
        )
        found = at.page.locator("#host section.explorer").evaluate(PLACES)
        last = max(place[1:3] for place in found if place[0] == "thumbnail" and "" not in place)
        assert last == [str(layers), str(heads)]
