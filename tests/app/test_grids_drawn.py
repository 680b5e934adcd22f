"""The grids of questions, of the test and of a batch, and the gloss, show what they were sent."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from playwright.sync_api import Page

from app.components.question import Asked, Grid
from app.components.token_table import payload as batch
from app.look.palette import PALETTES, diverging_table, sequential_table
from core.analysis.questions import Question
from tests.app import asked_page
from tests.app.asked_page import page
from tests.app.axes import THEMES, ink_on
from tests.app.drawn import Colour, colour, drawn_component
from tests.app.quiz_harness import open_quiz
from tests.app.test_question_component import WORDS, grid, option
from tests.app.test_quiz import NAMES, WRONG, item, payload

__all__ = ["page"]


def step_of(theme: str, weight: float) -> Colour:
    return tuple(map(int, sequential_table(theme)[int(255 * weight + 0.5)]))


# The test.

CELLS = """[...at.rows].map((row) => [...row.cells].map((cell) => [
  cell.textContent, cell.tagName, cell.className, getComputedStyle(cell).backgroundColor,
  getComputedStyle(cell).color, cell.querySelector(".mark.chosen")?.textContent ?? "",
  getComputedStyle(cell).backgroundImage.includes("gradient")]))"""


def check_picture(own: dict, drawn: list, chosen: str, theme: str) -> None:
    """Compare a drawn table with an item's: labels, weights, colours, letters, the chosen one."""
    picture = own["picture"]
    rows, columns = picture["rows"], picture["columns"]
    head, *lines = drawn
    assert [words for words, *_ in head] == ["query ↓  key →", *columns]
    assert [line[0][:2] for line in lines] == [[label, "TH"] for label in rows]
    marks = {tuple(at): letter for letter, at in picture.get("marks", {}).items()}
    seen = []
    for r, line in enumerate(lines):
        for c, (words, _, _, ground, ink, bold, hatched) in enumerate(line[1:]):
            if bold:
                seen.append(bold)
            weight = picture["cells"][r][c]
            if isinstance(weight, float):
                assert words == f"{weight:.2f}"
                assert colour(ground) == step_of(theme, weight), f"cell {r}, {c}"
                assert colour(ink) == ink_on(colour(ground)), f"cell {r}, {c}"
            else:
                assert words == (marks.get((r, c)) or weight.strip("_")), f"cell {r}, {c}"
            assert not hatched
    assert seen == ([chosen] if marks and chosen else [])


@pytest.mark.parametrize(("form", "theme"), list(zip("AB", THEMES, strict=True)))
def test_pictures_of_the_test_show_their_items(local_page: Page, form: str, theme: str):
    """While asked, the learner's cell is marked; in the solution, the right one is."""
    local_page.add_init_script(
        f"""document.addEventListener("readystatechange", () =>
          document.documentElement.style.setProperty(
            "--st-background-color", "{PALETTES[theme].page}"))"""
    )
    open_quiz(local_page, payload())
    local_page.get_by_role("button", name=f"Form {form}").click()
    pictured = []
    for name in NAMES:
        own = item(name, form)
        answer = WRONG[own["right"]]
        tables = local_page.locator(".picture-box .picture")
        if "picture" in own:
            pictured.append(name)
            check_picture(own, tables.evaluate(f"(at) => {CELLS}"), "", theme)
        local_page.locator(".option").nth("ABCD".index(answer)).click()
        if "picture" in own:
            check_picture(own, tables.evaluate(f"(at) => {CELLS}"), answer, theme)
        if name != NAMES[-1]:
            local_page.get_by_role("button", name="Next").click()
    local_page.locator("[data-part=finish]").click()
    assert pictured == ["axes_1", "axes_2", "masks_1"]
    for name in pictured:
        own = item(name, form)
        entry = local_page.locator(".entry").nth(NAMES.index(name))
        check_picture(own, entry.locator(".picture").evaluate(f"(at) => {CELLS}"), "", theme)
        entry.get_by_role("button", name="Show the answer").click()
        check_picture(
            own, entry.locator(".picture").evaluate(f"(at) => {CELLS}"), own["right"], theme
        )


# A question.

GROUND = "at => getComputedStyle(at).backgroundColor"
OPTION = """[at.dataset.state, at.querySelector(".mark").textContent,
  at.querySelector(".value").textContent, getComputedStyle(at).backgroundColor,
  getComputedStyle(at).color, getComputedStyle(at).outlineColor, getComputedStyle(at).outlineStyle,
  getComputedStyle(at).backgroundImage.includes("gradient"),
  ...["left", "top", "width", "height"].map((side) => at.getBoundingClientRect()[side])]"""


def grid_question(rows: int, columns: int, **more) -> Asked:
    """Return a question whose options are a grid; each option's shade and value differ."""
    count = rows * columns
    shades = (np.arange(count) * 0.37 + 0.05) % 1
    layout = Grid(
        [f"r{r}" for r in range(rows)], [f"c{c}" for c in range(columns)], "Rows", "Columns"
    )
    options = [
        option(f"o{i}", value=f"{shade:.2f}", shade=float(shade)) for i, shade in enumerate(shades)
    ]
    right, near = frozenset({count - 2}), frozenset({1, 4})
    return Asked(
        id=f"{rows} {columns} {more}",
        question=Question("attends", tuple(range(count)), right, tuple(shades), near, False),
        prompt="Which?",
        hint="Point.",
        layout=replace(layout),
        options=options,
        explanation=["So."],
        uncertain="Unsure.",
        words=WORDS,
        **more,
    )


@pytest.mark.parametrize(
    ("shape", "theme", "scale"),
    [
        ((2, 5), "light", "weight"), ((4, 3), "dark", "weight"),
        ((4, 3), "light", "change"), ((2, 5), "dark", "change"),
    ],
)  # fmt: skip
def test_a_grid_marks_and_colours_its_own_cells(page: Page, shape, theme: str, scale: str):
    (rows, columns), palette = shape, PALETTES[theme]
    page.evaluate("(page) => host.style.setProperty('--st-background-color', page)", palette.page)
    asked = grid_question(rows, columns, scale=scale)
    if scale == "change":
        changes = [replace(o, shade=2 * o.shade - 1) for o in asked.options]
        asked = replace(asked, options=changes)
    count = rows * columns
    for chosen in (count - 2, 1, 0):
        asked_page.show(page, asked)
        asked_page.answer(page, [chosen], False)
        if chosen == 0:  # wrong, and only marked itself
            wrong = page.locator(".option[data-state]")
            assert wrong.count() == 1 and colour(wrong.evaluate(GROUND)) != colour(palette.page)
            page.locator("[data-part=skip]").click()
            asked_page.told(page)
        found = page.locator(".option").evaluate_all(f"(all) => all.map((at) => {OPTION})")
        tops = {r: box["y"] for r, box in boxes(page, ".row").items()}
        lefts = {c: box["x"] for c, box in boxes(page, ".column").items()}
        assert (len(tops), len(lefts)) == shape
        for i, (state, mark, value, ground, ink, frame, style, hatched, *box) in enumerate(found):
            right, near = i == count - 2, i in (1, 4)
            assert bool(state) == (right or near or i == chosen), f"option {i}"
            assert bool(mark) == (state not in ("", "also")), f"option {i}"
            assert value == asked.options[i].value
            shade = asked.options[i].shade
            table = sequential_table(theme) if scale == "weight" else diverging_table(theme)
            step = round(255 * shade) if scale == "weight" else 128 + round(127 * shade)
            assert colour(ground) == tuple(table[step]), f"option {i}"
            assert colour(ink) == ink_on(colour(ground)), f"option {i}"
            styles = {"": "none", "near": "dashed", "also": "dashed"}
            assert style == styles.get(state, "solid"), f"option {i}"
            if state:
                assert colour(frame) == colour(palette.wrong if state == "wrong" else palette.ink)
            assert not hatched
            row, column = divmod(i, columns)
            middle = box[0] + box[2] / 2, box[1] + box[3] / 2
            assert min(tops, key=lambda r: abs(tops[r] - middle[1])) == row, f"option {i}"
            assert min(lefts, key=lambda c: abs(lefts[c] - middle[0])) == column, f"option {i}"


@pytest.mark.parametrize("theme", THEMES)
def test_masked_cells_of_a_grid_are_hatched_once_answered(page: Page, theme: str):
    page.evaluate(
        "(page) => host.style.setProperty('--st-background-color', page)", PALETTES[theme].page
    )
    asked_page.show(page, grid())
    look = "(all) => all.map((at) => getComputedStyle(at).backgroundImage)"
    options = page.locator(".option")
    assert options.evaluate_all(look) == ["none"] * 6
    asked_page.answer(page, [1, 3], True)
    page.locator("[data-part=skip]").click()
    asked_page.told(page)
    shown = [re.findall(r"rgb\([^)]*\)", image) for image in options.evaluate_all(look)]
    palette = PALETTES[theme]
    hatch = [colour(palette.hatch)] * 2 + [colour(palette.hatch_ground)] * 2
    assert [[colour(ink) for ink in inks] for inks in shown] == [
        hatch if i in (1, 2, 5) else [] for i in range(6)
    ]


def boxes(page: Page, selector: str) -> dict[int, dict[str, float]]:
    """Return the middles of the labels by the number in their text."""
    found = page.locator(f".cells {selector}").evaluate_all(
        """(all) => all.map((at) => {
          const { left, top, width, height } = at.getBoundingClientRect();
          return [at.title, { x: left + width / 2, y: top + height / 2 }];
        })"""
    )
    return {int(title[1:]): box for title, box in found}


# A batch, and the gloss.


@pytest.mark.parametrize(("first", "known"), [(1, True), (0, True), (1, False)])
def test_a_batch_has_every_id_below_its_token(page: Page, first: int, known: bool):
    ids = np.array([[5, 6, 7, 2], [9, 2, 0, 0], [4, 8, 2, 0]])
    words = [["Ein", "Hund", "?", "<eos>"], ["Ja", "<eos>"], ["a", "b", "<eos>"]]
    data = batch(ids, words if known else None, "Source", first)
    drawn = drawn_component(page, "token_table", ".token-table", data, entry="table.js")
    rows = drawn("tr", """[...at.cells].map((cell) => [
      cell.querySelector("bdi")?.textContent ?? "", cell.lastChild.textContent,
      getComputedStyle(cell).backgroundColor !== "rgba(0, 0, 0, 0)"])""")  # fmt: skip
    numbers = [str(first + n) for n in range(4)]
    assert [number for _, number, _ in rows[0]] == ["token", *numbers]
    assert [row[0][1] for row in rows[1:]] == ["sentence 1", "sentence 2", "sentence 3"]
    for line, row in enumerate(rows[1:]):
        for place, (word, id, grey) in enumerate(row[1:]):
            has = known and place < len(words[line])
            assert word == (words[line][place] if has else ""), f"{line}, {place}"
            assert (id, grey) == (str(ids[line, place]), ids[line, place] == 0)


@pytest.mark.parametrize("theme", THEMES)
def test_each_word_is_above_its_own_gloss(page: Page, theme: str):
    words = [["Ein", "A"], ["weißer", ""], ["Hund", "white dog"], [".", "."]]
    drawn = drawn_component(page, "gloss", ".gloss", {"words": words, "title": "Both"}, theme)
    shown = drawn("li", """[...at.children].map((line) => [line.textContent,
      line.getBoundingClientRect().top, getComputedStyle(line).color])""")  # fmt: skip
    assert [[text for text, *_ in pair] for pair in shown] == [[w, g or "–"] for w, g in words]
    palette = PALETTES[theme]
    for (_, top, ink), (_, below, second) in shown:
        assert top < below
        assert (colour(ink), colour(second)) == (colour(palette.ink), colour(palette.second))
    assert drawn("ol", "at.ariaLabel") == ["Both"]
