"""The page "Two at once": what it opens on, both sides' numbers, and that they are level."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import FloatRect, Locator, Page, expect

from app.examples import EXAMPLES, MINIMAL_PAIRS, minimal_change
from core.record.edits import Edits
from core.record.record import TranslationRecord
from core.translator import Translator
from tests.app.rendered import Item, Rendered, render, unpacked

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "app/main.py"
SHIRTS = "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd."
SWAPPED = "Ein Mann in einem blauen Hemd spricht mit einem Mann in einem roten Hemd."
SNOW = "Ein Hund läuft durch den Schnee."
SIDEBAR = re.compile(r"source|translate|direction|model|search|example.*|model_note")


def said(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def claim_side(page: Rendered, key: str, record: TranslationRecord) -> None:
    """An explorer was sent this record's maps, tokens and probabilities."""
    header, raw = unpacked(page.payload(key))
    assert header["together"] == "two"
    assert header["address"] == (key == "first_of_two")
    assert (header["source_text"], header["translation"]) == (
        record.source_text,
        record.translation,
    )
    assert header["log_prob"] == pytest.approx(float(np.sum(record.log_probs)), abs=1e-4)
    for kind in ("encoder", "decoder", "cross"):
        maps = getattr(record, kind)
        mask = (
            np.tri(*maps.shape[2:], dtype=bool)
            if kind == "decoder"
            else np.full(maps.shape[2:], True)
        )
        place = header[kind]
        sent = np.frombuffer(raw[place["at"] : place["at"] + place["length"]], "<f4")
        np.testing.assert_allclose(sent, maps[..., mask].ravel(), rtol=0, atol=1e-6)


def claim_captions(page: Rendered, *expected: str) -> None:
    page.claim_all("two_at_once", list(expected), "caption")


def nothing_else(page: Rendered) -> None:
    def elsewhere(item: Item) -> bool:
        return bool(SIDEBAR.fullmatch(item.where)) or item.kind == "help"

    page.everything_was_claimed(elsewhere)


def test_it_opens_on_a_sentence_and_its_minimal_change(translator):
    page = render("together")
    page.claim_all("second_source", ["Second sentence", SWAPPED])
    first, second = translator.inspect(SHIRTS), translator.inspect(SWAPPED)
    claim_side(page, "first_of_two", first)
    claim_side(page, "second_explorer", second)
    claim_captions(
        page,
        f"scratch-de-en, log-probability {said(first.log_prob)}",
        f"scratch-de-en, log-probability {said(second.log_prob)}",
    )
    nothing_else(page)


@pytest.mark.parametrize("direction", ["de-en", "en-de"])
def test_every_known_sentence_has_a_change_of_few_words(direction):
    known = [example.text(direction) for example in EXAMPLES]
    known += [text for pair in MINIMAL_PAIRS for text in pair.texts(direction)]
    for source in known:
        second = minimal_change(source, direction)
        words, others = (Counter(text.casefold().split()) for text in (source, second))
        assert second != source
        assert (words - others).total() + (others - words).total() <= 6, (source, second)


def test_the_second_follows_the_first_until_it_is_typed():
    changed = "Zwei junge Männer spielen im Park Fußball."

    def act(app):
        app.text_area(key="source").set_value(changed).run()

    page = render("together", act=act)
    page.claim("Zwei junge Frauen spielen im Park Fußball.", "second_source")

    def typed(app):
        app.text_input(key="second_source").set_value(SNOW)
        act(app)

    page = render("together", act=typed)
    assert unpacked(page.payload("first_of_two"))[0]["source_text"] == changed
    assert unpacked(page.payload("second_explorer"))[0]["source_text"] == SNOW


def test_an_unknown_sentence_stands_beside_itself():
    page = render("together", source="Der Hund schläft.")
    page.claim("Der Hund schläft.", "second_source")
    page.claim("Both sentences are the same: change a word in one of them.")


def test_another_model_is_given_the_same_translation(translator):
    page = render("together", source=SNOW, beside="model", second_of_two="baseline")
    first = translator.inspect(SNOW)
    other = Translator.load(ROOT / "checkpoints/baseline-de-en", device="cpu")
    second = other.inspect(SNOW, first.translation)
    claim_side(page, "first_of_two", first)
    claim_side(page, "second_explorer", second)
    claim_captions(
        page,
        f"scratch-de-en, log-probability {said(first.log_prob)}",
        f"baseline-de-en, log-probability {said(second.log_prob)}",
    )


def test_the_same_with_edits_keeps_the_translation(translator):
    page = render("together", source=SNOW, beside="edits", edits="off.cross.2.3")
    first = translator.inspect(SNOW)
    edits, _ = Edits.parse("off.cross.2.3")
    ids = tuple(token.id for token in first.target_out)
    second = translator.inspect(SNOW, edits=edits, target_ids=ids)
    assert abs(second.log_prob - first.log_prob) > 0.01
    claim_side(page, "first_of_two", first)
    claim_side(page, "second_explorer", second)
    claim_captions(
        page,
        f"scratch-de-en, log-probability {said(first.log_prob)}",
        f"scratch-de-en, log-probability {said(second.log_prob)}, with edits",
    )
    none = render("together", source=SNOW, beside="edits")
    assert [item.text for item in none.items if "Nothing is changed" in item.text]
    assert "second_explorer" not in none.payloads


def box_of(part: Locator) -> FloatRect:
    box = part.bounding_box()
    assert box
    return box


def open_both(page: Page, serve, width: int, **query: str) -> tuple[Locator, Locator]:
    page.set_viewport_size({"width": width, "height": 900})
    extra = "".join(f"&{name}={quote(value)}" for name, value in query.items())
    page.goto(f"{serve(MAIN)}/together?source={quote(SNOW)}{extra}")
    both = page.locator("section[aria-label='Attention explorer']")
    expect(both).to_have_count(2, timeout=60_000)
    for root in (both.nth(0), both.nth(1)):
        expect(root).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=30_000)
    page.wait_for_timeout(400)
    return both.nth(0), both.nth(1)


@pytest.mark.parametrize("width", [1440, 1280])
def test_both_are_level_and_have_one_row_of_choices(local_page: Page, serve, width):
    left, right = open_both(local_page, serve, width, second_source=SHIRTS)
    for name in ("source", "target", "readout", "overview", "title", "map-place", "statistics"):
        boxes = [box_of(root.locator(f"[data-part={name}]")) for root in (left, right)]
        assert boxes[0]["y"] == pytest.approx(boxes[1]["y"], abs=1), name
    for name in ("kinds", "quantity", "sort", "combines", "views", "units", "hide-eos"):
        expect(left.locator(f"[data-part={name}]")).to_be_visible()
        expect(right.locator(f"[data-part={name}]")).to_be_hidden()
    boxes = [box_of(left), box_of(right)]
    bar = box_of(left.locator(".shared-choices"))
    assert bar["x"] == boxes[0]["x"]
    assert bar["x"] + bar["width"] == pytest.approx(boxes[1]["x"] + boxes[1]["width"], abs=1)
    for root in (left, right):  # nothing lies under the choices
        assert box_of(root.locator("[data-part=source]"))["y"] >= bar["y"] + bar["height"]
    left.locator("[data-kind-option=encoder]").click()
    for root in (left, right):
        expect(root).to_have_attribute("data-kind", "encoder")
    tops = [box_of(root.locator("[data-part=map-place]"))["y"] for root in (left, right)]
    assert tops[0] == pytest.approx(tops[1], abs=1)
    rows = [row_of_first_cell(root) for root in (left, right)]
    assert rows[0] == pytest.approx(rows[1], abs=1.5)


def row_of_first_cell(root: Locator) -> float:
    """The first row's height on the page: the first y at which pointing names query 0."""
    canvas = root.locator("[data-part=map]")
    box = box_of(canvas)
    for y in range(20, int(box["height"]), 1):
        canvas.dispatch_event(
            "pointermove",
            {
                "clientX": box["x"] + box["width"] / 2,
                "clientY": box["y"] + y,
                "pointerType": "mouse",
                "bubbles": True,
            },
        )
        if root.get_attribute("data-query") == "0":
            return box["y"] + y
    raise AssertionError("no first row")


def test_on_a_phone_each_has_its_own_choices(local_page: Page, serve):
    left, right = open_both(local_page, serve, 390)
    expect(left.locator(".shared-choices")).to_have_count(0)
    for root in (left, right):
        for name in ("kinds", "quantity", "views", "units"):
            expect(root.locator(f"[data-part={name}]")).to_be_visible()
    boxes = [box_of(left), box_of(right)]
    assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"]
    local_page.set_viewport_size({"width": 1440, "height": 900})
    expect(left.locator(".shared-choices")).to_have_count(1)
    expect(right.locator("[data-part=kinds]")).to_be_hidden()
    local_page.set_viewport_size({"width": 390, "height": 900})
    expect(left.locator(".shared-choices")).to_have_count(0)
    expect(right.locator("[data-part=kinds]")).to_be_visible()
