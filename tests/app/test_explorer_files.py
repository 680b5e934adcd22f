"""The explorer's saved pictures show what its canvases show, and canvases have the pixels drawn."""

from __future__ import annotations

import re
from functools import partial
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.app.axes import png_marks, png_pixels, same_picture, svg_marks
from tests.app.drawn import Mark
from tests.app.explorer_drawn import Scene, at, mount, near, only, scenes, shown
from tests.app.explorer_harness import synthetic_record
from tests.app.mounted import Mounted
from tests.app.test_explorer_lines import side_of
from tests.app.test_explorer_overview import (
    MAPS,
    buttons,
    captions,
    check_pixels,
    on,
    own,
    ways,
    words,
)

__all__ = ["at", "shown"]


def files(scene: Scene, name: str) -> list[list[Mark]]:
    """Return the marks of a saved SVG and of a saved PNG."""
    press = partial(scene.at.does, ("press", f"[data-export={name}-png]"))
    return [svg_marks(scene.at.saves(f"{name}-svg")), png_marks(scene.page, press)]


@pytest.mark.parametrize("view", ["map", "lines"])
def test_saved_pictures_show_the_canvas_and_the_tokens_fed_in(shown: Scene, view: str) -> None:
    unit = "words" if (view == "lines") == (shown.theme == "light") else "pieces"
    for scene in scenes(shown, unit):
        scene.show(view)
        canvas, lines = scene.marks(), view == "lines"
        for ground, title, *marks in files(scene, "map"):
            assert ground.fill == scene.ink("page") and ground.alpha == 1
            at_all = scene.layer == len(getattr(scene.record, scene.kind))
            name = f"Layer {scene.layer + 1}, head {scene.head + 1} · "
            name = f"Head {scene.head + 1}, mean of all layers · " if at_all else name
            assert title.words.startswith(name), str(scene)
            if not lines:
                marks = without_scale(scene, marks)
            left = marks[0].x - canvas[0].x
            same_picture(marks[: len(canvas)], canvas, (left, 46))
            column = marks[len(canvas) :]
            assert (left > 12 + 20) == (scene.kind != "encoder" and not lines)
            if scene.kind == "encoder":
                assert not column
                continue
            check_fed(scene, column, canvas, left, lines)
            for text in (m for m in marks if m.what == "text" and m.width):  # in the PNG
                assert in_picture(text, ground.width, ground.height), text


def without_scale(scene: Scene, marks: list[Mark]) -> list[Mark]:
    """Return the marks of a map's file before those of its colour scale, which come last."""
    *rest, scale, name, low, middle, high = marks
    assert words([name, low, middle, high]) == ["weight", "0", "0.5", "1"]
    assert scale.what == "pixels" and scale.pixels.shape[:2] == (1, 256)
    for weight in (0.0, 0.5, 1.0):
        colour = tuple(map(int, scale.pixels[0, round(255 * weight), :3]))
        assert colour in scene.colours(weight), weight
    assert scale.x < low.x + 1 and near((high.x,), (scale.x + scale.width,))
    return rest


FORM = """(chosen) => Object.entries(chosen).forEach(([name, value]) => {
    const input = root().querySelector(`[data-part=figure-${name}]`);
    if (typeof value === "boolean") input.checked = value; else input.value = value;
})"""
USUAL = {"title": True, "labels": True, "bars": True, "caption": False, "width": "", "font": "8"}
POINTS = 72 / 25.4


def saved_svg(scene: Scene, name: str = "map-svg", **chosen: object) -> tuple[Any, list[str]]:
    """Return the root and the texts of a file that is saved with these choices in the form."""
    scene.page.evaluate(FORM, USUAL | chosen)
    root = ElementTree.fromstring(scene.at.saves(name))
    return root, [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize(("mm", "points"), [(85, 8), (175, 8), (175, 10)])
def test_a_figure_has_the_width_and_the_font_size_that_were_asked_for(
    shown: Scene, mm: int, points: float
) -> None:
    scene = next(iter(scenes(shown, "pieces")))
    for view in ("map", "lines"):
        scene.show(view)
        root, _ = saved_svg(scene, width=str(mm), font=str(points))
        assert root.get("width") == f"{mm}mm"
        *_, width, height = map(float, root.get("viewBox").split())
        assert float(root.get("height").removesuffix("mm")) == pytest.approx(
            mm * height / width, abs=0.01
        )
        sizes = [float(text.get("font-size")) for text in root.iter() if text.get("font-size")]
        usual = max(sizes, key=sizes.count)
        assert usual * mm * POINTS / width <= 1.06 * points, "no label is larger"
        if view == "map":
            assert max(sizes) * mm * POINTS / width == pytest.approx(points, rel=0.06)


def test_a_figure_leaves_out_what_is_switched_off_and_has_a_caption(shown: Scene) -> None:
    scene = next(one for one in scenes(shown, "pieces") if one.kind == "cross")
    head = f"head {scene.head + 1}"
    place = f"layer {scene.layer + 1}, {head}"
    place = f"{head}, mean of all layers" if scene.layer == len(scene.record.cross) else place
    scene.show()
    whole, words = saved_svg(scene)
    entropy, title = "entropy, bits", words[0][:8]  # a narrow picture cuts its title
    assert {entropy, "fed in", "query"} <= set(words)
    for name, gone, stay in (
        ("title", set(), {entropy, "query"}),
        ("bars", {entropy}, {"query", "fed in"}),
        ("labels", {"query", "key", "fed in"}, set()),
    ):
        root, left = saved_svg(scene, **{name: False})
        assert not gone & set(left) and stay <= set(left), name
        assert left[0].startswith(title) == (name != "title"), name
        sizes = [tuple(map(float, r.get("viewBox").split()[2:])) for r in (root, whole)]
        assert sizes[0] != sizes[1] and sizes[0][0] <= sizes[1][0]
        assert sizes[0][1] <= sizes[1][1]
    _, said = saved_svg(scene, caption=True)
    caption = " ".join(said[len(words) :])
    record = scene.record
    for part in (
        f"Cross-attention, {place}",
        "Query (row)",
        "Key (column)",
        record.search,
        record.source_text,
        record.translation,
    ):
        assert part in caption, part
    _, of_all = saved_svg(scene, "overview-svg", caption=True, width="175", font="7")
    assert any("every layer and head" in text for text in of_all)
    scene.page.evaluate(FORM, USUAL)


BYTES = """async (name) => {
    saved.length = 0;
    root().querySelector(`[data-export=${name}]`).click();
    await new Promise((done) => setTimeout(done));
    return Array.from(new Uint8Array(await saved[0].arrayBuffer()));
}"""


@pytest.mark.parametrize("name", ["map", "overview"])
def test_a_pdf_has_the_marks_of_the_svg_at_its_size(shown: Scene, name: str) -> None:
    scene = next(one for one in scenes(shown, "pieces") if one.kind == "cross")
    scene.show()
    root, words = saved_svg(scene, f"{name}-svg", width="85")
    file = bytes(scene.page.evaluate(BYTES, f"{name}-pdf"))
    scene.page.evaluate(FORM, USUAL)
    (start,) = re.findall(rb"startxref\n(\d+)\n%%EOF\n$", file)
    table = file[int(start) :].split(b"\n")
    count = int(table[1].split()[1])
    for number, line in enumerate(table[3 : 2 + count], 1):
        assert file[int(line.split()[0]) :].startswith(f"{number} 0 obj".encode())
    (box,) = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", file)
    *_, width, height = map(float, root.get("viewBox").split())
    assert float(box[0]) == pytest.approx(85 * POINTS, abs=0.01)
    assert float(box[1]) == pytest.approx(85 * POINTS * height / width, abs=0.01)
    drawn = [
        bytes.fromhex(h.decode()).decode("cp1252") for h in re.findall(rb"<([0-9a-f]+)> Tj", file)
    ]
    encodable = [
        w for w in words if w.strip() and w.encode("cp1252", "ignore").decode("cp1252") == w
    ]
    assert sorted(drawn) == sorted(encodable)
    stencils = len([word for word in words if word.strip()]) - len(encodable)
    assert file.count(b"/ImageMask true") == stencils
    boxes = len(re.findall(rb"^[\d.-]+ [\d.-]+ [\d.-]+ [\d.-]+ re f$", file, re.M))
    rects = [r for r in root.iter("{http://www.w3.org/2000/svg}rect") if r.get("fill") != "none"]
    assert boxes == len(rects)
    images = list(root.iter("{http://www.w3.org/2000/svg}image"))
    assert file.count(b"/ColorSpace /DeviceRGB") == len(images) > 0


def check_fed(scene: Scene, column: list[Mark], canvas: list[Mark], left: float, lines: bool):
    """Beside each row is the token that was fed in."""
    fed = [scene.record.target_in[i].text for i in range(len(scene.record.target_in))]
    rows = [" ".join(fed[i] for i in item.members) for item in scene.items[0]]
    sign, align = ("←", "left") if lines else ("→", "right")
    assert words(column) == ["fed in", *(part for row in rows for part in (sign, row))]
    heights = [m.y + 46 for m in side_of(scene, canvas, 0).labels] if lines else [
        scene.geometry().y(i + 0.5) + 47 for i in range(len(rows))
    ]  # fmt: skip
    start = left + (scene.page.locator("#host [data-part=map]").evaluate("m => m.clientWidth")
                    if lines else 0)  # fmt: skip
    for arrow, text, y in zip(column[1::2], column[2::2], heights, strict=True):
        side = 1 if lines else -1
        assert near(
            (arrow.x, arrow.y, text.x, text.y), (start + 10 * side, y, start + 20 * side, y)
        )
        assert text.align == align and text.fill == scene.ink("second")


def in_picture(text: Mark, width: float, height: float) -> bool:
    """Return whether a whole text is inside a rectangle, at least 4 px from top and bottom."""
    back = {"left": 0.0, "center": 0.5, "right": 1.0}[text.align] * text.width
    along = np.array([np.cos(text.turn), np.sin(text.turn)])
    start = np.array([text.x, text.y]) - back * along
    x, y = np.array([start, start + text.width * along]).T
    return bool(
        x.min() >= -0.5 and x.max() <= width + 0.5 and y.min() >= 4 and y.max() <= height - 4
    )


def test_no_text_is_cut_by_its_canvas(shown: Scene) -> None:
    for view in ("map", "lines"):
        for scene in scenes(shown):
            scene.show(view)
            size = scene.page.locator("#host [data-part=map]").evaluate(
                "(map) => [map.clientWidth, map.clientHeight]"
            )
            for text in (m for m in scene.marks() if m.what == "text"):
                assert in_picture(text, *size), f"{scene}, {text.words}"


def caption(scene: Scene, layer: int, head: int) -> tuple[str, set[str]]:
    """Return a head's caption: its role, else its largest weights."""
    values = own(scene, layer, head)
    last = values.shape[1] - 1
    shares = {
        "encoder": {
            "prev": on(values, 0, lambda q: q - 1),
            "self": on(values, 0, lambda q: q),
            "next": on(values, 0, lambda q: q + 1),
            "eos": on(values, 0, lambda q: last),
        },
        "decoder": {
            "fed": on(values, 2, lambda q: q),
            "2 back": on(values, 2, lambda q: q - 1),
            "bos": on(values, 2, lambda q: 0),
        },
        "cross": {"eos": on(values, 0, lambda q: last)},
    }[scene.kind]
    role = max(shares, key=lambda name: shares[name])
    if shares[role] >= 0.3:
        return role, ways(100 * shares[role], 0, "\u00a0%")
    return "largest", ways(100 * values.max(1).mean(), 0, "\u00a0%")


def test_the_saved_overview_has_each_head_with_its_caption(shown: Scene) -> None:
    for scene in scenes(shown, "pieces"):
        scene.show()
        layers, heads = getattr(scene.record, scene.kind).shape[:2]
        for place, below in captions(scene).items():
            name, number = words(below)
            expected = caption(scene, *place)
            assert name == expected[0] and number in expected[1], f"{scene}, {place}"
        for _, title, *marks in files(scene, "overview"):
            assert title.words.startswith("Every layer and head")
            marks = without_scale(scene, marks)
            pictures = [m for m in marks if m.what == "pixels"]
            assert len(pictures) == (layers + 1) * (heads + 1)
            for index, picture in enumerate(sorted(pictures, key=lambda m: (m.y, m.x))):
                layer, head = divmod(index, heads + 1)
                check_pixels(scene, layer, head, picture.pixels)
                below = [m for m in marks if m.what == "text" and 0 < m.y - picture.y - 84 < 20
                         and -1 < m.x - picture.x < 85]  # fmt: skip
                place = ".".join("all" if at == count else str(at + 1)
                                 for at, count in ((layer, layers), (head, heads)))  # fmt: skip
                text, number = words(below)
                name, numbers = caption(scene, layer, head)
                whole, cut = f"{place}  {name}", text.removesuffix("…")
                assert text == whole or (cut != text and whole.startswith(cut)), str(scene)
                assert number in numbers, f"{scene}, {place}"


def framed(scene: Scene) -> list[list[int]]:
    """Return layer and head of each thumbnail that has a thick frame."""
    return scene.page.locator("#host .thumbnail:not(.missing)").evaluate_all(
        """(all) => all.flatMap((button) => {
            const { outlineWidth } = getComputedStyle(button.querySelector(".frame"));
            return outlineWidth === "2px" ? [[+button.dataset.l, +button.dataset.h]] : [];
        })"""
    )


def test_the_pixels_are_those_of_the_drawn_cells(at: Mounted) -> None:
    """Squares and rasters, thumbnails included, are not blurred, moved or covered."""
    for case, theme in (("unknown", "dark"), ("short", "light"), ("long", "dark")):
        made = synthetic_record(case, 2, 3, 2)
        mount(at, theme, made)
        for scene in scenes(Scene(at, made, theme, "cross", 0, 0), "pieces"):
            scene.show()
            assert framed(scene) == [[scene.layer, scene.head]]
            g, (queries, keys) = scene.geometry(), scene.mask.shape
            pixels = png_pixels(
                scene.page.locator("#host [data-part=map]").evaluate("m => m.toDataURL()")
            )
            aside = 3 if g.cell >= 12 else g.cell / 2  # away from digits
            for q, k in np.argwhere(scene.mask).tolist():
                pixel = pixels[int(g.y(q) + aside), int(g.x(k) + aside)]
                assert tuple(map(int, pixel[:3])) in scene.colours(scene.values[q, k]), str(scene)
            overview = png_pixels(
                scene.page.locator(f"#host {MAPS}").evaluate("m => m.toDataURL()")
            )
            for (layer, head), (left, top, size) in buttons(scene).items():
                ys, xs = ([int(start + (i + 0.5) * size / n) for i in range(n)]
                          for start, n in ((top, queries), (left, keys)))  # fmt: skip
                check_pixels(scene, layer, head, overview[np.ix_(ys, xs)])
            assert (g.cell <= 9) == (case == "long"), "a raster"
            if case == "long":
                check_squares(scene, svg_marks(at.saves("map-svg")))


def check_squares(scene: Scene, saved: list[Mark]) -> None:
    """A file has a square for each unmasked cell, however small."""
    g, (queries, keys) = scene.geometry(), scene.mask.shape
    size = keys * g.cell, queries * g.cell
    frame = only((m for m in saved if m.what == "frame" and near((m.width, m.height), size)), scene)
    cells = {
        (round((m.y - frame.y - 0.5) / g.cell), round((m.x - frame.x - 0.5) / g.cell)): m.fill
        for m in saved
        if m.what == "fill" and m.fill != scene.ink("hatch_ground")
        if near((m.width, m.height), (g.cell, g.cell)) and m.x > frame.x and m.y > frame.y
    }
    assert set(cells) == {(int(q), int(k)) for q, k in np.argwhere(scene.mask)}, str(scene)
    for (q, k), ground in cells.items():
        assert ground in scene.colours(scene.values[q, k]), f"{scene}, {q}, {k}"
