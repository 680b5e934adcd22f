"""Each page's budget: words on the first screen, words and height with all folds closed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Page, expect

from app.views import VIEWS
from tests.app.test_first_screen import MAIN, idle

MEASURE = Path(__file__).with_name("budget.js").read_text(encoding="utf-8")


class Budget(NamedTuple):
    """Words on the first screen and on the page, and the page's height in px, at 1440 × 900."""

    first: float = 120
    page: float = 400
    height: float = 2400


BUDGETS = {
    "literature": Budget(first=310),  # a table of claims
    "glossary": Budget(*[float("inf")] * 3),
}
EXCEPTIONS = {
    "together": Budget(first=175),
}
"""Pages that do not keep their budget yet, with the limits that they keep until then."""


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Collect a row per page, and print them all at the end."""
    rows: list[str] = []
    yield rows
    sys.stdout.write("\n".join(["", "page          first   page  height", *rows, ""]))


def settled(page: Page) -> None:
    """Wait until components, tables and figures are drawn: until nothing changes the height."""
    heights = [0]
    while len(heights) < 4 or len(set(heights[-3:])) > 1:
        page.wait_for_timeout(700)
        heights.append(page.locator("[data-testid=stMain]").evaluate("main => main.scrollHeight"))


@pytest.mark.parametrize("path", VIEWS, ids=lambda path: path or "translate")
def test_a_page_keeps_its_budget_of_words_and_height(local_page: Page, serve, table, path):
    """As opened with the first example; `budget.js` says what counts as a word."""
    local_page.set_viewport_size({"width": 1440, "height": 900})
    local_page.goto(f"{serve(MAIN)}/{path}")
    expect(local_page.locator("h1, .st-key-explorer").first).to_be_visible(timeout=60_000)
    idle(local_page)
    expect(local_page.locator("[data-stale=true]")).to_have_count(0)
    settled(local_page)
    seen = Budget(**local_page.evaluate(MEASURE))
    table.append(f"{path or 'translate':12} {seen.first:6} {seen.page:6} {seen.height:7}")
    over = {
        name: (value, limit)
        for name, value, limit in zip(
            Budget._fields, seen, (BUDGETS | EXCEPTIONS).get(path, Budget()), strict=True
        )
        if value > limit
    }
    assert not over, f"measured, and the limit: {over}"
