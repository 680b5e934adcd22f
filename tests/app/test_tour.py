"""The guided tour: the shipped model shows each effect, and its pages follow one another."""

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect
from streamlit.testing.v1 import AppTest

from app import session
from app.tour import STOPS
from core.translator import Translator

ROOT = Path(__file__).parents[2]
# A mean over all rows, or a softer habit than a word and its translation.
SHARES = {"A place to rest": 0.3, "Never ahead": 0.5, "A head that looks back by one": 0.4}


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(ROOT / "checkpoints/scratch-de-en", "cpu")


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.title)
def test_the_shipped_model_shows_the_effect(translator, stop):
    found = stop.find(translator.inspect(stop.source))
    assert found.head.share > SHARES.get(stop.title, 0.6)


def test_a_model_that_writes_other_words_says_so(translator):
    record = translator.inspect("Ein Hund.")
    with pytest.raises(LookupError, match="did not write 'soccer' for 'Fußball'"):
        STOPS[0].find(record)


def test_the_tour_leaves_the_visitors_sentence_alone(monkeypatch):
    page = AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=60).run()
    own = page.session_state["latest_record"]
    page.switch_page("views/tour.py").run()
    assert not page.exception and page.subheader[0].value == STOPS[0].title
    assert page.session_state["latest_record"] is own

    def refuse(*given):
        raise ValueError("the weights are gone: make them with `make train`")

    monkeypatch.setattr(session, "_record", refuse)
    page.run()
    assert [e.value for e in page.error] == ["the weights are gone: make them with `make train`"]
    assert not page.exception


def test_a_translation_of_one_piece_has_no_staircase(translator):
    one_piece = translator.inspect("Ein Hund.", "Two")
    assert one_piece.decoder.shape[-1] == 2  # the piece and <eos>
    staircase = next(stop for stop in STOPS if stop.title == "Never ahead")
    with pytest.raises(LookupError, match="too few tokens to have a third row"):
        staircase.find(one_piece)


@pytest.mark.parametrize("title, word", [("Never ahead", "prev"), ("A place to rest", "eos")])
def test_the_caption_of_a_head_says_the_share_that_the_tour_says(
    local_page: Page, serve, translator, title, word
):
    number = [stop.title for stop in STOPS].index(title)
    found = STOPS[number].find(translator.inspect(STOPS[number].source)).head
    local_page.goto(f"{serve(ROOT / 'app/main.py')}/tour?stop={number + 1}")
    root = local_page.locator(f".st-key-tour_{number} section[aria-label='Attention explorer']")
    thumbnail = root.locator(f".thumbnail[data-l='{found.layer}'][data-h='{found.head}']")
    spoken = re.compile(rf"\b{word}\b\W*{100 * found.share:.0f}\s%$")
    expect(thumbnail).to_have_accessible_name(spoken, timeout=60_000)


def test_the_tour_from_its_first_stop_to_its_last(local_page: Page, serve, translator):
    local_page.goto(serve(ROOT / "app/main.py") + "/tour")
    for number, stop in enumerate(STOPS):
        main = local_page.locator("[data-testid=stMain]")
        expect(main.get_by_role("heading", name=stop.title)).to_be_visible(timeout=60_000)
        record = translator.inspect(stop.source)
        found = stop.find(record)
        root = main.locator(f".st-key-tour_{number} section[aria-label='Attention explorer']")
        expect(root).to_have_attribute("data-sentence", record.id, timeout=60_000)
        said = {"kind": found.kind, "layer": found.head.layer, "head": found.head.head}
        for name, value in said.items():
            expect(root).to_have_attribute(f"data-{name}", str(value))
        expect(root).to_have_attribute(
            "data-query", str("" if found.query is None else found.query)
        )
        expect(main).to_contain_text(f"puts {100 * found.head.share:.0f} % of its weight")
        if number < len(STOPS) - 1:
            main.get_by_role("button", name="Next stop").click()
    main.get_by_role("link", name="Open on the first page").click()
    expect(local_page.locator(".st-key-source textarea")).to_have_value(STOPS[-1].source)
    root = local_page.locator(".st-key-explorer section[aria-label='Attention explorer']")
    expect(root).to_have_attribute("data-kind", "decoder", timeout=60_000)
    expect(root).to_have_attribute("data-painted", re.compile(r"\d+"))
    local_page.wait_for_timeout(300)
    query = parse_qs(urlsplit(local_page.url).query)
    assert query["source"] == [STOPS[-1].source]
    assert [query["layer"], query["head"]] == [[str(found.head.layer)], [str(found.head.head)]]
