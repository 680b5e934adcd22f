"""The guided tour agrees with the explorer, and links to the other direction and the lessons."""

import re

import pytest
from playwright.sync_api import Page, expect

from app.views.tour.stops import STOPS
from tests.app.page_checks import ROOT, percent, record, translator
from tests.app.test_navigation import expect_query

MAIN = ROOT / "app/main.py"


def stop_named(direction: str, title: str):
    return next(stop for stop in STOPS[direction] if stop.title == title)


def test_a_missing_word_is_named():
    with pytest.raises(LookupError, match="did not write 'soccer' for 'Fußball'"):
        STOPS["de-en"][0].find(record("Ein Hund."))
    compound = stop_named("en-de", "Two words become one")
    with pytest.raises(LookupError, match="did not write 'Straßenmusiker'"):
        compound.find(record("A dog.", "scratch-en-de"))


@pytest.mark.parametrize("title", ["A head with nothing to find", "Never ahead"])
def test_a_translation_of_one_token_has_no_third_row(title):
    short = translator("scratch-de-en").inspect("Ein Hund.", "Two")
    assert short.decoder.shape[-1] == 2
    with pytest.raises(LookupError, match="too few tokens to have a third row"):
        stop_named("de-en", title).find(short)


@pytest.mark.parametrize(
    "title, word", [("Never ahead", "prev"), ("A head with nothing to find", "bos")]
)
def test_the_explorer_gives_the_same_share_as_the_tour(local_page: Page, serve, title, word):
    stop = stop_named("de-en", title)
    number = STOPS["de-en"].index(stop)
    head = stop.find(record(stop.source)).head
    local_page.goto(f"{serve(MAIN)}/tour?stop={number + 1}")
    skip_question(local_page)
    root = local_page.locator(f".st-key-tour_{number} section[aria-label='Attention explorer']")
    thumbnail = root.locator(f".thumbnail[data-l='{head.layer}'][data-h='{head.head}']")
    spoken = re.compile(rf"\b{word}\b\W*{100 * head.share:.0f}\s%$")
    expect(thumbnail).to_have_accessible_name(spoken, timeout=60_000)
    choice = root.get_by_role("combobox", name="Shown quantity")
    for quantity in ("scores", "norms"):
        choice.select_option(quantity)
        expect(root).to_have_attribute("data-quantity", quantity, timeout=30_000)
    expect(root.locator(".waiting")).to_have_count(0)


def skip_question(page: Page) -> None:
    """Skip the stop's question; the map is hidden until then."""
    asked = page.locator("section.question")
    expect(asked).to_have_count(1, timeout=60_000)  # the previous stop's question is gone
    expect(asked).to_have_attribute("data-answered", "", timeout=60_000)
    expect(page.locator("section[aria-label='Attention explorer']")).to_have_count(0)
    asked.get_by_role("button", name="Skip this question").click()
    expect(asked).to_have_attribute("data-answered", "skipped")


def expect_stop(page: Page, direction: str, number: int) -> None:
    """Expect a stop with its measured head open in the explorer."""
    stop = STOPS[direction][number]
    main = page.locator("[data-testid=stMain]")
    expect(main.get_by_role("heading", name=stop.title)).to_be_visible(timeout=60_000)
    skip_question(page)
    rec = record(stop.source, f"scratch-{direction}")
    shown = stop.find(rec)
    root = main.locator(f".st-key-tour_{number} section[aria-label='Attention explorer']")
    expect(root).to_have_attribute("data-sentence", rec.id, timeout=60_000)
    query = "" if shown.query is None else shown.query
    for name, value in {
        "kind": shown.kind,
        "layer": shown.head.layer,
        "head": shown.head.head,
        "query": query,
    }.items():
        expect(root).to_have_attribute(f"data-{name}", str(value))
    expect(main).to_contain_text(f"{percent(shown.head.share)} of ")
    last = number == len(STOPS[direction]) - 1
    expect(main.locator(".st-key-tour_end")).to_have_count(int(last))


def test_the_tour_links_to_the_other_direction_and_the_lessons(local_page: Page, serve):
    address = serve(MAIN) + "/tour"
    next_stop = local_page.locator(".st-key-tour_links").get_by_text("Next stop")
    local_page.goto(f"{address}?stop=9")
    expect_stop(local_page, "de-en", 8)
    for number in (9, 10):
        next_stop.click()
        expect_stop(local_page, "de-en", number)
    local_page.get_by_role("button", name="The same tour, English → German").click()
    expect_stop(local_page, "en-de", 0)
    next_stop.click()
    expect_stop(local_page, "en-de", 1)
    last = STOPS["en-de"][-1]
    local_page.goto(f"{address}?direction=en-de&stop={len(STOPS['en-de'])}")
    expect_stop(local_page, "en-de", len(STOPS["en-de"]) - 1)
    end = local_page.locator(".st-key-tour_end")
    for name in ("Tokens", "Step by step", "Inside a head", "Ask why", "Masks", "Positions"):
        expect(end.get_by_role("link", name=name)).to_have_attribute(
            "href", re.compile(r"(tokens|steps|head|why|masks|positions)\?.*source=A.man.without")
        )
    head = last.find(record(last.source, "scratch-en-de")).head
    local_page.get_by_role("link", name="Open on the page Translate").click()
    expect(local_page.locator(".st-key-source textarea")).to_have_value(last.source)
    root = local_page.locator(".st-key-explorer section[aria-label='Attention explorer']")
    expect(root).to_have_attribute("data-kind", "cross", timeout=60_000)
    expect(root).to_have_attribute("data-painted", re.compile(r"\d+"))
    expect_query(local_page, source=last.source, layer=str(head.layer), head=str(head.head))
