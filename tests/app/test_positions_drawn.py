"""The table of position encodings on the offline page: its cells, labels, legend and readout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Page

from app.components.assets import joined, palette, read
from app.lessons.texts import table as lesson_table
from tests.app.axes import THEMES, colours, number, set_theme, table
from tests.app.drawn import RECORDER, marks_of, texts
from tests.app.mounted import plain
from tests.app.test_training import ROOT
from tests.app.training_run import SENTENCES

FOLDER = ROOT / "app/components/offline"
NAMES = (
    ["Ein", "Hund", "be", "llt", ".", "<eos>"],
    ["<b>ja</b>", "in₂", "in₃", "<eos>"],
)
"""The source tokens of SENTENCES; tokens that occur twice have their number, from 1."""


def sinusoids(count: int, width: int) -> NDArray[np.float32]:
    """Return the encodings of Vaswani et al. 2017, §3.5, [count, width]."""
    place, dimension = np.mgrid[:count, :width]
    angle = place / 10_000 ** (dimension // 2 * 2 / width)
    return np.where(dimension % 2, np.cos(angle), np.sin(angle)).astype(np.float32)


def learned(count: int, width: int) -> NDArray[np.float32]:
    """Return encodings whose largest size is negative and below 1, [count, width]."""
    values = np.random.default_rng(5).normal(0, 0.1, (count, width))
    values[1, 2], values[2, 3] = -0.4237, 4e-7
    return values.astype(np.float32)


@pytest.fixture(scope="module")
def lesson(shared_page: Page) -> Page:
    html = (
        "<!doctype html><meta charset=utf-8><style>body { margin: 0; width: 700px; } "
        f"{palette('.lessons')} {read(FOLDER / 'lessons.css')}</style><div class=lessons></div>"
        f"<script>{RECORDER}\n{joined(FOLDER / 'positions_lesson.js')}</script>"
    )
    shared_page.route("http://127.0.0.1/", lambda route: route.fulfill(body=html))
    return shared_page


def show(page: Page, theme: str, sentence: int, values: NDArray[np.float32]) -> None:
    page.goto("http://127.0.0.1/")
    set_theme(page, ".lessons", theme)
    source = [
        {"text": token.removeprefix("▁"), "starts_word": token.startswith("▁")}
        | {"special": token == "<eos>"}
        for token in SENTENCES[sentence].source
    ]
    page.evaluate(
        """([source, positions, tables]) => {
            const mapRow = document.createElement("div");
            const [lesson] = positionsLesson({ mapRow, render: () => {}, tables });
            document.querySelector(".lessons").append(lesson.section);
            lesson.show({ source, positions: Float32Array.from(positions) });
        }""",
        [source, values.ravel().tolist(), {"positions": lesson_table("positions")}],
    )


def over(page: Page, x: float, y: float) -> str:
    """Return the readout with the pointer at a place of the canvas."""
    said: Any = page.evaluate(
        """([x, y]) => {
            const canvas = document.querySelector(".position-table canvas");
            const box = canvas.getBoundingClientRect();
            const at = { clientX: box.left + x, clientY: box.top + y, bubbles: true };
            canvas.dispatchEvent(new PointerEvent("pointermove", at));
            return document.querySelector(".position-table .readout").textContent;
        }""",
        [x, y],
    )
    return plain(said)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("sentence", [0, 1])
@pytest.mark.parametrize(("encodings", "width"), [(sinusoids, 8), (learned, 6)])
def test_each_cell_has_its_colour_its_labels_and_its_readout(
    lesson: Page, theme: str, sentence: int, encodings: Any, width: int
) -> None:
    names = NAMES[sentence]
    values = encodings(len(names), width)
    show(lesson, theme, sentence, values)
    marks = marks_of(lesson.locator(".position-table canvas"))
    steps = np.array(table(theme, signed=True))
    (cells, legend) = [mark for mark in marks if mark.what == "pixels"]
    limit = float(np.abs(values).max())
    expected = steps[128 + np.round(127 * values.astype(float) / limit).astype(int)]
    assert cells.pixels is not None and legend.pixels is not None
    assert np.abs(cells.pixels[..., :3].astype(int) - expected).max() <= 3
    assert np.array_equal(legend.pixels[0, :, :3], steps)
    words = [mark for mark in marks if mark.what == "text"]
    labels = [mark for mark in words if mark.align == "right" and mark.y < cells.y + cells.height]
    assert [plain(label) for label in texts(labels)] == names
    row = cells.height / len(names)
    assert [m.y for m in labels] == pytest.approx(
        [cells.y + (place + 0.5) * row for place in range(len(names))]
    )
    assert all(0 < cells.x - mark.x < 12 and mark.x >= mark.width for mark in labels)
    assert f"dimension 0 to {width - 1}" in texts(words)
    below = [mark for mark in words if mark.y > legend.y]
    ends = legend.x + np.array([0, 0.5, 1]) * legend.width
    assert [(m.align, m.x) for m in below] == [
        (align, pytest.approx(x))
        for align, x in zip(("left", "center", "right"), ends, strict=True)
    ]
    assert [number(mark.words) for mark in below] == pytest.approx([-limit, 0, limit], rel=5e-3)
    assert {mark.fill for mark in words} == {colours(theme)[name] for name in ("ink", "second")}
    column = cells.width / width
    for place, dimension in np.ndindex(len(names), width):
        said = over(lesson, cells.x + (dimension + 0.5) * column, cells.y + (place + 0.5) * row)
        wave = f" ({('sine', 'cosine')[dimension % 2]})" if encodings is sinusoids else ""
        about, value = said.rsplit(": ", 1)
        assert about == f"{names[place]}, pos {place}, dimension {dimension}{wave}"
        shown = value.replace("−", "-").replace(" · 10⁻⁷", "e-7")
        assert float(shown) == pytest.approx(float(values[place, dimension]), abs=6e-5, rel=0.05)
    assert over(lesson, cells.x - 3, cells.y + 3) == "Point at a cell to read its value."
