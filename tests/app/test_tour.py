"""The guided tour in a browser: its links to lessons, to Translate and to the other direction."""

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from app.stops import PAGES, TOURS
from app.views.tour.finders import find
from tests.app.page_checks import ROOT, record
from tests.app.test_navigation import expect_query

MAIN = ROOT / "app/main.py"


def skip_question(page: Page) -> None:
    """Skip the stop's question; until then, the map covers a row."""
    asked = page.locator("section.question")
    expect(asked).to_have_count(1, timeout=60_000)  # the previous stop's question is gone
    expect(asked).to_have_attribute("data-answered", "", timeout=60_000)
    expect(page.locator("section[aria-label='Attention explorer']")).to_have_count(0)
    asked.get_by_role("button", name="Skip this question").click()
    expect(asked).to_have_attribute("data-answered", "skipped")


def test_a_click_uncovers_the_row_of_the_question(local_page: Page, serve):
    local_page.goto(f"{serve(MAIN)}/tour?stop=3")
    row = local_page.locator(".map-row")
    expect(row).to_have_attribute("data-painted", re.compile("."), timeout=60_000)
    query = int(str(row.get_attribute("data-covered")).split()[0])
    canvas = row.locator("canvas")
    left, top, cell = (
        float(str(canvas.get_attribute(f"data-{n}"))) for n in ("left", "top", "cell")
    )
    place = {"x": left + cell / 2, "y": top + (query + 0.5) * cell}
    canvas.hover(position=place)
    expect(row.locator("[data-part=readout]")).to_contain_text("Covered")
    expect(row).to_have_attribute("data-values", "")
    canvas.click(position=place)
    expect(row).to_have_attribute("data-covered", "")
    expect(row).to_have_attribute("data-values", re.compile(r"\d"))


def test_the_last_stop_opens_on_translate_and_links_to_the_lessons(local_page: Page, serve):
    """The other direction's tour starts at its first stop."""
    last = TOURS["de-en"][-1]
    local_page.goto(f"{serve(MAIN)}/tour?stop={len(TOURS['de-en'])}")
    skip_question(local_page)
    end = local_page.locator(".st-key-tour_end")
    with local_page.expect_download() as file:
        end.get_by_role("button", name="Your answers (.csv)").click()
    assert f"\ntour,{last.id},,0,,0,0,1," in Path(file.value.path()).read_text(encoding="utf-8")
    lessons = [page.title for name, page in PAGES.items() if name not in ("translate", "bugs")]
    for name in lessons:
        expect(end.get_by_role("link", name=name)).to_have_attribute(
            "href", re.compile(rf"\w+\?.*source={last.source.split()[0]}.{last.source.split()[1]}")
        )
    local_page.get_by_role("button", name="The same tour, English → German").click()
    main = local_page.locator("[data-testid=stMain]")
    first = TOURS["en-de"][0]
    expect(main.get_by_role("heading", name=first.title)).to_be_visible(timeout=60_000)
    shown = find(first.find, record(first.source, "scratch-en-de"))
    row = local_page.locator(".map-row")
    expect(row).to_have_attribute("data-query", str(shown.query), timeout=60_000)
    local_page.get_by_role("link", name="Open on Translate").click()
    expect(local_page.locator(".st-key-source textarea")).to_have_value(first.source)
    root = local_page.locator(".st-key-explorer section[aria-label='Attention explorer']")
    expect(root).to_have_attribute("data-head", str(shown.head.head), timeout=60_000)
    view = {"layer": str(shown.head.layer), "head": str(shown.head.head), "q": str(shown.query)}
    expect_query(local_page, source=first.source, **view)
