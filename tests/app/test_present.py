"""Presentation mode: large type, complete screens, and keys that lead through the stops."""

# ruff: noqa: E501 (lines of script)

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from app.lessons.texts import text
from tests.app.page_checks import ROOT
from tests.app.test_navigation import expect_query

MAIN = ROOT / "app/main.py"
SIZES = [(1280, 720), (1024, 768)]
SCREEN = """(names) => {
  const main = document.querySelector("[data-testid=stMain]");
  const image = document.querySelector(".st-key-present_map img")?.getBoundingClientRect();
  const text = document.querySelector(".st-key-tour_text, .st-key-presented_text");
  const shown = [...names, ".st-key-present_map img"].flatMap((name) => [...document.querySelectorAll(name)]);
  const sized = document.querySelector(".st-key-tour_text p");
  const own = document.querySelector(".st-key-present_map img");
  return {
    fits: main.scrollHeight <= innerHeight && main.scrollWidth <= innerWidth,
    inside: shown.map((one) => one.getBoundingClientRect()).every((box) =>
      box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight),
    beside: !image || text.getBoundingClientRect().right <= image.left,
    source: document.querySelector(".st-key-source")?.getClientRects().length ?? 0,
    text: sized ? parseFloat(getComputedStyle(sized).fontSize) : null,
    label: image ? 13 * Math.min(image.width / own.naturalWidth, image.height / own.naturalHeight) : null,
    hidden: [...document.querySelectorAll("[data-testid=stSidebar], [data-testid=stHeader]")].every((one) => one.getClientRects().length === 0),
  };
}"""


def settled(page: Page) -> None:
    expect(page.locator("[data-testid=stApp]")).not_to_have_attribute(
        "data-test-script-state", "running", timeout=60_000
    )
    page.wait_for_timeout(300)


def expect_complete(page: Page, *parts: str) -> dict:
    """At both sizes, the page does not scroll, and all elements of these selectors are in view."""
    settled(page)
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(300)
        found = page.evaluate(SCREEN, [*parts])
        assert found["fits"] and found["inside"] and found["beside"], (width, found)
        assert found["hidden"] and (found["label"] is None or found["label"] >= 1.4 * 13)
    return found


@pytest.mark.parametrize(("direction", "stop"), [("de-en", 3), ("en-de", 11)])
def test_each_screen_of_a_stop_is_complete(local_page: Page, serve, direction, stop):
    local_page.goto(f"{serve(MAIN)}/tour?present=1&direction={direction}&stop={stop}")
    more = local_page.locator(".st-key-tour_more button")
    expect(local_page.locator(".st-key-tour_text p").first).to_be_visible(timeout=60_000)
    for screen in range(4):
        found = expect_complete(local_page, ".st-key-tour_text", ".st-key-tour_next button")
        assert found["text"] >= 1.4 * 16, screen
        if not more.count():
            break
        before = local_page.locator(".st-key-tour_text").inner_text()
        local_page.keyboard.press("PageDown")
        expect(local_page.locator(".st-key-tour_text")).not_to_have_text(before, timeout=60_000)
    assert found["label"] is not None  # the last screen is the map
    assert screen == (1 if stop == 3 else 2)


SENTENCE = "Ein Straßenmusiker spielt im Park Fußball."


@pytest.mark.parametrize("lesson", ["masks", "why", "steps", "tokens"])
def test_a_presented_lesson_is_complete(local_page: Page, serve, lesson):
    local_page.goto(f"{serve(MAIN)}/tour?present=1&plan=1~{lesson}.{SENTENCE}")
    expect(local_page.locator(".st-key-presented p").first).to_be_visible(timeout=60_000)
    skip = local_page.get_by_role("button", name="Skip this question")
    if lesson != "tokens":
        expect(skip).to_be_visible(timeout=60_000)
    # The map that the question is about is next to it.
    expect(local_page.locator(".map-row")).to_have_count(int(lesson == "masks"))
    for screen in ("question", "answered", "map"):
        if screen == "answered" and lesson != "tokens":
            skip.click()
            expect(skip).not_to_be_visible(timeout=60_000)
        if screen == "map" and lesson not in ("steps", "tokens"):
            local_page.keyboard.press("PageDown")
            expect(local_page.locator(".st-key-present_map img")).to_be_visible(timeout=60_000)
        found = expect_complete(local_page, ".st-key-presented", ".st-key-presented button")
        assert not found["source"]
    expect(local_page.get_by_text(text("questions", "present.rest"))).to_be_visible()


LONG = (
    "Eine Gruppe von Männern lädt Baumwolle auf einen Lastwagen, während zwei Frauen in roten "
    "Jacken am Straßenrand stehen."
)


def test_presented_translate_shows_the_sentences_and_then_the_maps(local_page: Page, serve):
    local_page.goto(f"{serve(MAIN)}/tour?present=1&plan=1~translate.{LONG}")
    root = local_page.locator("section[aria-label='Attention explorer']")
    expect(root).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=60_000)
    expect_complete(local_page, ".sentence", ".readout", ".st-key-source textarea")
    expect(root.locator("canvas[data-role=map]")).to_be_hidden()
    local_page.get_by_role("button", name="Show the maps").click()
    chart = root.locator("canvas[data-role=map]")
    expect(chart).to_be_visible(timeout=60_000)
    expect_complete(local_page, ".explorer .readout", ".overview", "canvas[data-role=map]")
    said, beside = root.locator(".readout").bounding_box(), chart.bounding_box()
    assert said["x"] + said["width"] <= beside["x"], "text and map are side by side"
    root.locator(".thumbnail[data-l='0'][data-h='1']").click()
    expect(root).to_have_attribute("data-head", "1")
    expect(local_page.locator(".st-key-source textarea")).to_be_hidden()


ABOVE = """async (map) => {
  const root = map.closest(".explorer");
  const chart = () => map.getBoundingClientRect().height;
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const block = document.createElement("div");
  block.style.height = "120px";
  document.querySelector("[data-testid=stMainBlockContainer]").prepend(block);
  root.style.width = "99%";
  await wait(250);
  const below = chart();
  block.remove();
  await wait(1000);
  return [below, chart()];
}"""


def test_a_presented_map_is_zoomed_and_takes_the_room_of_what_was_above_it(local_page: Page, serve):
    """The explorer finds the cell under the pointer.

    Streamlit removes the previous screen's parts only after the map has been laid out.
    """
    local_page.set_viewport_size({"width": 1280, "height": 720})
    local_page.goto(f"{serve(MAIN)}/?present=1&kind=cross&layer=2&head=0")
    root = local_page.locator(".st-key-explorer section[aria-label='Attention explorer']")
    expect(root).to_have_attribute("data-painted", "1", timeout=60_000)
    local_page.get_by_role("button", name="Show the maps").click()
    chart = root.locator("[data-part=map]")
    expect(chart).to_be_visible(timeout=60_000)
    settled(local_page)
    box = chart.bounding_box()
    own = chart.evaluate("map => ({...map.dataset, width: map.offsetWidth})")
    zoom = box["width"] / own["width"]
    assert abs(zoom - 1.4) < 0.01
    cell = float(own["cell"])
    for query, key in ((2, 3), (5, 6)):
        local_page.mouse.move(
            box["x"] + zoom * (float(own["left"]) + (key + 0.5) * cell),
            box["y"] + zoom * (float(own["top"]) + (query + 0.5) * cell),
        )
        expect(root).to_have_attribute("data-query", str(query))
        expect(root).to_have_attribute("data-key", str(key))
    below, after = chart.evaluate(ABOVE)
    assert below < after


def test_presented_find_the_bug_is_complete_on_each_screen(local_page: Page, serve):
    local_page.goto(f"{serve(MAIN)}/tour?present=1&plan=1~bugs.{LONG}")
    maps = local_page.locator(".map-row canvas")
    expect(maps.nth(1)).to_be_visible(timeout=60_000)
    expect_complete(local_page, ".map-row canvas", ".st-key-bug button")
    local_page.get_by_role("button", name="Show the numbers").click()
    expect(local_page.locator("[data-testid=stTable]")).to_be_visible(timeout=60_000)
    expect_complete(local_page, "[data-testid=stTable]")
    local_page.get_by_role("button", name="Which mistake is it?").click()
    options = local_page.locator(".question .option")
    expect(options).to_have_count(8, timeout=60_000)
    settled(local_page)
    code = local_page.get_by_role("button", name="Show the code")
    expect(code).to_have_count(0)
    expect_complete(local_page, ".question")
    options.filter(has_text="√dₖ").click()
    for _ in range(3):
        local_page.get_by_role("button", name="Hint").click()
        settled(local_page)
        expect_complete(local_page, ".question")
    expect(local_page.locator(".clue")).to_have_count(3)
    local_page.get_by_role("button", name="Show the answer").click()
    expect(code).to_be_visible(timeout=60_000)
    expect_complete(local_page, ".question")
    local_page.keyboard.press("PageDown")
    expect(local_page.get_by_text("The broken line")).to_be_visible(timeout=60_000)
    expect_complete(local_page, ".st-key-bug_answer")


def test_the_line_of_a_presented_stop_does_not_overlap(local_page: Page, serve):
    width = 390
    local_page.set_viewport_size({"width": width, "height": 768})
    local_page.goto(f"{serve(MAIN)}/tour?present=1&stop=7")
    expect(local_page.locator(".st-key-tour_more button")).to_be_visible(timeout=60_000)
    settled(local_page)
    parts = [
        local_page.locator(f".st-key-{name} button").bounding_box()
        for name in ("tour_back", "tour_next", "tour_more", "present_leave")
    ]
    parts.append(local_page.get_by_text("Stop 7 of", exact=False).bounding_box())
    for n, one in enumerate(parts):
        assert one["x"] >= 0 and one["x"] + one["width"] <= width
        for other in parts[:n]:
            apart = [
                one[at] + one[size] <= other[at] or other[at] + other[size] <= one[at]
                for at, size in (("x", "width"), ("y", "height"))
            ]
            assert any(apart), (one, other)


def test_keys_lead_through_a_plan(local_page: Page, serve):
    plan = "1~tour.ahead~translate.Ein Hund läuft.~tour.hemd"
    local_page.goto(f"{serve(MAIN)}/tour?present=1&plan={plan}")
    bar = local_page.locator(".st-key-plan_bar")
    expect(bar).to_contain_text("1 of 3", timeout=60_000)
    expect(local_page.get_by_role("button", name="Skip this question")).to_be_visible(
        timeout=60_000
    )
    settled(local_page)
    local_page.keyboard.press("ArrowRight")  # from the question to the map
    expect(local_page.locator(".st-key-present_map img")).to_be_visible(timeout=60_000)
    expect(bar).to_contain_text("1 of 3")
    local_page.keyboard.press("ArrowRight")
    expect(bar).to_contain_text("2 of 3", timeout=60_000)
    source = local_page.locator(".st-key-source textarea")
    expect(source).to_have_value("Ein Hund läuft.", timeout=60_000)
    expect_query(local_page, at="2", present="1", source="Ein Hund läuft.")
    source.focus()
    local_page.keyboard.press("ArrowRight")  # moves in the text, not in the plan
    settled(local_page)
    expect(bar).to_contain_text("2 of 3")
    local_page.keyboard.press("PageDown")  # a presenter's remote
    expect(local_page.locator(".st-key-present_maps")).to_be_visible(timeout=60_000)
    expect(bar).to_contain_text("2 of 3")
    settled(local_page)
    local_page.keyboard.press("PageDown")
    expect(bar).to_contain_text("3 of 3", timeout=60_000)
    local_page.keyboard.press("PageUp")
    expect(bar).to_contain_text("2 of 3", timeout=60_000)
    settled(local_page)
    local_page.keyboard.press("ArrowLeft")
    expect(bar).to_contain_text("1 of 3", timeout=60_000)
    settled(local_page)
    local_page.keyboard.press("Escape")
    expect(local_page.locator("[data-testid=stSidebar]")).to_be_visible(timeout=30_000)
    expect(bar).to_contain_text("1 of 3")
    expect(local_page).not_to_have_url(re.compile("present"), timeout=30_000)
