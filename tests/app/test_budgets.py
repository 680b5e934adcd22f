"""One visit of each page: its budget of words and height, its heading, and all contrasts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Page, expect

from app.examples import EXAMPLES
from app.views import VIEWS
from tests.app.test_app import MAIN
from tests.app.test_first_screen import idle
from tests.app.test_navigation import expect_query, expect_sentence

MEASURE, CONTRASTS = (
    Path(__file__).with_name(name).read_text(encoding="utf-8")
    for name in ("budget.js", "contrasts.js")
)
QUERIES = {"tour": "stop=6&kind=decoder&layer=0&head=0&q=4", "tokens": "word=Dogge"}
QUERIES |= dict.fromkeys(("why", "positions"), "source=Ein+Hund.")
"""Links that show more of a page than the page alone, or a sentence that is computed faster."""


class Budget(NamedTuple):
    """Words on the first screen and on the page, and the page's height in px, at 1440 × 900."""

    first: float = 120
    page: float = 400
    height: float = 2400


BUDGETS = {
    "glossary": Budget(*[float("inf")] * 3),
}


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Collect a row per page, and print them all at the end."""
    rows: list[str] = []
    yield rows
    sys.stdout.write("\n".join(["", "page          first   page  height", *rows, ""]))


def settled(page: Page) -> None:
    """Wait until components, tables and figures are drawn: until nothing changes the height."""
    expect(page.locator("h1, .st-key-explorer").first).to_be_visible(timeout=60_000)
    idle(page)
    expect(page.locator("[data-stale=true]")).to_have_count(0)
    heights = [0]
    while len(heights) < 4 or len(set(heights[-3:])) > 1:
        page.wait_for_timeout(500)
        heights.append(page.locator("[data-testid=stMain]").evaluate("main => main.scrollHeight"))


def open_sections(page: Page) -> None:
    """Open all sections, and wait until they are filled.

    The page itself opens and closes those that nobody has clicked, by their expected time.
    """
    sections = page.locator("[class*='st-key-open_'] details")
    closed = page.locator("[class*='st-key-open_'] details:not([open]) > summary")
    idle(page)
    for _ in range(240):
        while closed.count():
            closed.first.click()
        idle(page)
        contents = sections.locator("[data-testid=stExpanderDetails]").all_text_contents()
        if all(text.strip() for text in contents):
            return
        page.wait_for_timeout(250)
    pytest.fail("a section stays closed or empty")


def run_again(page: Page) -> None:
    """Press Streamlit's key for a rerun, and wait until the rerun starts."""
    page.locator("[data-testid=stApp]").evaluate(
        """app => {
            window.started = false;
            new MutationObserver(() => {
                window.started ||= app.dataset.testScriptState !== "notRunning";
            }).observe(app, { attributes: true });
        }"""
    )
    page.keyboard.press("r")
    page.wait_for_function("window.started", timeout=30_000)


@pytest.mark.parametrize("path", VIEWS, ids=lambda path: path or "translate")
def test_a_page_keeps_its_budget_its_heading_and_its_contrasts(local_page, serve, table, path):
    """The budget is that of the page as opened with the first example.

    Contrast is at least 4.5:1 for text (large: 3:1) and 3:1 for borders; no icon is spoken, and no
    style displays what is hidden.
    """
    local_page.set_viewport_size({"width": 1440, "height": 900})
    local_page.goto(f"{serve(MAIN)}/{path}")
    settled(local_page)
    if VIEWS[path].own_sentence:
        expect_sentence(local_page, EXAMPLES[0].de)
        expect_query(local_page, source=EXAMPLES[0].de, model="scratch", search="beam")
    over = over_budget(local_page, path, table)
    if path in QUERIES:
        local_page.goto(f"{serve(MAIN)}/{path}?{QUERIES[path]}")
    expect(local_page.locator("h1")).to_have_count(1, timeout=60_000)
    open_sections(local_page)
    assert "keyboard_" not in local_page.locator("body").aria_snapshot()
    displayed = """all => all.filter((at, _, __, style = getComputedStyle(at)) =>
        style.display !== "none" && style.visibility === "visible").map(at => at.outerHTML)"""
    assert not local_page.locator("[hidden]").evaluate_all(displayed)
    low = low_contrasts(local_page, path)
    if path == "masks":
        formulas_fit_a_phone(local_page)
    assert not over, f"measured, and the limit: {over}"
    assert not low


def over_budget(page: Page, path: str, table: list[str]) -> dict[str, tuple[float, float]]:
    """Return what is above its limit, with the limit; `budget.js` says what counts as a word."""
    seen = Budget(**page.evaluate(MEASURE))
    table.append(f"{path or 'translate':12} {seen.first:6} {seen.page:6} {seen.height:7}")
    limits = BUDGETS.get(path, Budget())
    return {
        name: (value, limit)
        for name, value, limit in zip(Budget._fields, seen, limits, strict=True)
        if value > limit
    }


def low_contrasts(page: Page, path: str) -> dict[str, list]:
    """Return each theme's texts and borders whose contrast is too low."""
    texts, controls = 30, {"glossary": 0, "literature": 3}.get(path, 4)  # they have only folds
    app = page.locator("[data-testid=stApp]")
    low = {}
    for theme, ground in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(17, 19, 23)")):
        page.emulate_media(color_scheme=theme)
        if theme == "dark":
            expect(app).to_have_css("background-color", ground)
            idle(page)  # `run_again` would mistake a run in progress for its own
            run_again(page)  # figures use the theme of the run that drew them
        expect(app).to_have_css("background-color", ground)
        idle(page)
        expect(page.locator("[data-stale=true]")).to_have_count(0)
        page.wait_for_timeout(300)  # buttons fade between colours
        for _ in range(40):  # the style sheet may load after the first texts
            found = page.evaluate(CONTRASTS)
            if found["texts"] > texts and found["controls"] >= controls and not found["low"]:
                break
            page.wait_for_timeout(250)
        assert found["texts"] > texts and found["controls"] >= controls, found
        if found["low"]:
            low[theme] = found["low"]
    return low


def formulas_fit_a_phone(page: Page) -> None:
    """Wide formulas scroll; the page does not."""
    page.set_viewport_size({"width": 390, "height": 844})
    formulas = page.locator(".katex-display")
    expect(formulas.nth(3)).to_be_visible()
    found = formulas.evaluate_all(
        """all => all.map(at => ({
            right: at.getBoundingClientRect().right,
            wide: at.scrollWidth > at.clientWidth,
            scrolls: (at.scrollLeft = 9999, at.scrollLeft > 0),
        }))"""
    )
    assert any(formula["wide"] for formula in found)
    for formula in found:
        assert formula["right"] <= 390 and formula["scrolls"] == formula["wide"], found
    assert page.evaluate("document.documentElement.scrollWidth") == 390
