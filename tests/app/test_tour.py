"""The guided tour: the shipped models show each effect, and its pages follow one another."""

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from app.views.tour.stops import STOPS
from core.translator import Translator

ROOT = Path(__file__).parents[2]
# A mean over all rows, or a softer habit than a word and its translation.
SHARES = {"Nothing to look for": 0.3, "Never ahead": 0.5, "A head that looks back by one": 0.4}
ALL = [(direction, stop) for direction, stops in STOPS.items() for stop in stops]
GERMAN = STOPS["de-en"]


@pytest.fixture(scope="module")
def translators() -> dict[str, Translator]:
    return {
        direction: Translator.load(ROOT / f"checkpoints/scratch-{direction}", "cpu")
        for direction in STOPS
    }


@pytest.fixture(scope="module")
def translator(translators) -> Translator:
    return translators["de-en"]


@pytest.mark.parametrize(("direction", "stop"), ALL, ids=[f"{d} {s.title}" for d, s in ALL])
def test_the_shipped_model_shows_the_effect(translators, direction, stop):
    found = stop.find(translators[direction].inspect(stop.source))
    assert found.head.share > SHARES.get(stop.title, 0.6)


def test_a_model_that_writes_other_words_says_so(translators):
    record = translators["de-en"].inspect("Ein Hund.")
    with pytest.raises(LookupError, match="did not write 'soccer' for 'Fußball'"):
        GERMAN[0].find(record)
    compound = next(stop for stop in STOPS["en-de"] if stop.title == "Two words become one")
    with pytest.raises(LookupError, match="did not write 'Straßenmusiker'"):
        compound.find(translators["en-de"].inspect("A dog."))


def test_a_translation_of_one_token_has_no_staircase(translator):
    one_piece = translator.inspect("Ein Hund.", "Two")
    assert one_piece.decoder.shape[-1] == 2  # the piece and <eos>
    for title in ("Nothing to look for", "Never ahead"):
        stop = next(stop for stop in GERMAN if stop.title == title)
        with pytest.raises(LookupError, match="too few tokens to have a third row"):
            stop.find(one_piece)


@pytest.mark.parametrize("title, word", [("Never ahead", "prev"), ("Nothing to look for", "bos")])
def test_the_caption_of_a_head_says_the_share_that_the_tour_says(
    local_page: Page, serve, translator, title, word
):
    number = [stop.title for stop in GERMAN].index(title)
    found = GERMAN[number].find(translator.inspect(GERMAN[number].source)).head
    local_page.goto(f"{serve(ROOT / 'app/main.py')}/tour?stop={number + 1}")
    root = local_page.locator(f".st-key-tour_{number} section[aria-label='Attention explorer']")
    thumbnail = root.locator(f".thumbnail[data-l='{found.layer}'][data-h='{found.head}']")
    spoken = re.compile(rf"\b{word}\b\W*{100 * found.share:.0f}\s%$")
    expect(thumbnail).to_have_accessible_name(spoken, timeout=60_000)
    choice = root.get_by_role("combobox", name="Shown quantity")
    for quantity in ("scores", "norms"):  # worked out here as on the first page
        choice.select_option(quantity)
        expect(root).to_have_attribute("data-quantity", quantity, timeout=30_000)
    expect(root.locator(".waiting")).to_have_count(0)


def walk(page: Page, translator: Translator, stops) -> None:
    """From the first stop to the last, each one measured."""
    main = page.locator("[data-testid=stMain]")
    for number, stop in enumerate(stops):
        expect(main.get_by_role("heading", name=stop.title)).to_be_visible(timeout=60_000)
        record = translator.inspect(stop.source)
        found = stop.find(record)
        root = main.locator(f".st-key-tour_{number} section[aria-label='Attention explorer']")
        expect(root).to_have_attribute("data-sentence", record.id, timeout=60_000)
        said = {"kind": found.kind, "layer": found.head.layer, "head": found.head.head}
        said["query"] = "" if found.query is None else found.query
        for name, value in said.items():
            expect(root).to_have_attribute(f"data-{name}", str(value))
        share = 100 * found.head.share
        percent = f"{share:.{1 if share >= 99.5 else 0}f}"
        expect(main).to_contain_text(f"puts {percent}\u00a0% of its weight")
        if number < len(stops) - 1:
            expect(main.locator(".st-key-tour_end")).to_have_count(0)
            main.locator(".st-key-tour_links").get_by_text("Next stop").click()


def test_the_tour_from_its_first_stop_to_its_last(local_page: Page, serve, translators):
    """Both halves, one after the other; the last stop leads to the lessons and the first page."""
    local_page.goto(serve(ROOT / "app/main.py") + "/tour")
    walk(local_page, translators["de-en"], GERMAN)
    local_page.get_by_role("button", name="The same tour, English → German").click()
    walk(local_page, translators["en-de"], STOPS["en-de"])
    last = STOPS["en-de"][-1]
    end = local_page.locator(".st-key-tour_end")
    for name in ("Step by step", "Inside a head", "Ask why", "Masks", "Positions"):
        expect(end.get_by_role("link", name=name)).to_have_attribute(
            "href", re.compile(r"(steps|head|why|masks|positions)\?.*source=Two.dogs")
        )
    found = last.find(translators["en-de"].inspect(last.source))
    local_page.get_by_role("link", name="Open on the first page").click()
    expect(local_page.locator(".st-key-source textarea")).to_have_value(last.source)
    root = local_page.locator(".st-key-explorer section[aria-label='Attention explorer']")
    expect(root).to_have_attribute("data-kind", "decoder", timeout=60_000)
    expect(root).to_have_attribute("data-painted", re.compile(r"\d+"))
    local_page.wait_for_timeout(300)
    query = parse_qs(urlsplit(local_page.url).query)
    assert query["source"] == [last.source]
    assert [query["layer"], query["head"]] == [[str(found.head.layer)], [str(found.head.head)]]
