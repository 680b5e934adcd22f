"""The page "Two at once": its default, the numbers of both sides, and their alignment."""

from __future__ import annotations

import re
from collections import Counter
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import FloatRect, Locator, Page, expect

from app.examples import EXAMPLES, MINIMAL_PAIRS, minimal_change
from app.look.labels import ATTENTION
from app.views.shared.axes import axis_words
from core.experiments.head_effects import head_effects
from core.kinds import KINDS
from core.record.edits import Edits
from core.record.record import TranslationRecord
from tests.app.charts import says
from tests.app.page_checks import ROOT, map_row, nothing_else, number
from tests.app.page_checks import translator as load
from tests.app.rendered import Rendered, read, render, unpacked

MAIN = ROOT / "app/main.py"
SHIRTS, SWAPPED = EXAMPLES[0].texts("de-en")
SNOW = "Ein Hund läuft durch den Schnee."


def claim_side(page: Rendered, key: str, record: TranslationRecord) -> None:
    """Check that an explorer was sent this record."""
    header, _ = unpacked(page.payload(key))
    assert (header["sentence"], header["together"]) == (record.id, "two")
    assert header["host"]["address"] == (key == "first_of_two")
    assert header["lens_offer"] == {"unasked": True} and "lens" in header["host"]["answers"]
    assert "edit" not in header["host"]["answers"]


def claim_both(
    page: Rendered,
    first: TranslationRecord,
    second: TranslationRecord,
    name: str = "scratch-de-en",
    note: str = "",
) -> None:
    claim_side(page, "first_of_two", first)
    claim_side(page, "second_explorer", second)
    scores = [number(record.log_prob, 2) for record in (first, second)]
    captions = [
        f"scratch-de-en, log-probability {scores[0]}",
        f"{name}, log-probability {scores[1]}{note}",
    ]
    page.claim_all("two_at_once", captions, "caption")


def claim_largest(
    page: Rendered, first: TranslationRecord, second: TranslationRecord, where: str
) -> None:
    """Check the line about the cell that differs most, and the maps, which open at it."""
    gaps = {kind: np.abs(first.maps(kind) - second.maps(kind)) for kind in KINDS}
    kind = max(KINDS, key=lambda kind: gaps[kind].max())
    at = tuple(map(int, np.unravel_index(gaps[kind].argmax(), gaps[kind].shape)))
    words = [[side[i] for side, i in zip(axis_words(one, kind), at[2:], strict=True)]
             for one in (first, second)]  # fmt: skip
    count = f"{sum(first.maps(one).size for one in KINDS):,}"
    said = says(
        page, "largest_of_two", count, str(at[1] + 1), str(at[0] + 1), *words[0],
        number(first.maps(kind)[at], 2), where, *(b for a, b in zip(*words, strict=True) if a != b),
        number(second.maps(kind)[at], 2),
    )  # fmt: skip
    assert ATTENTION[kind] in said
    header, (one, other) = map_row(page, "maps_of_two")
    np.testing.assert_allclose(one, first.maps(kind), atol=1e-6)
    np.testing.assert_allclose(other, second.maps(kind), atol=1e-6)
    assert header["maps"][2]["minus"] == [0, 1] and tuple(header["pinned"]) == at[2:]
    assert (header["opened"]["layer"], header["opened"]["head"]) == at[:2]


def bold(text: str, other: str) -> str:
    words = zip(text.split(), other.split(), strict=True)
    return " ".join(word if word == one else f"**{word}**" for word, one in words)


def test_one_translation_of_two_sentences_is_shown_once(translator):
    first, second = (translator.inspect(text) for text in MINIMAL_PAIRS[-1].texts("de-en"))
    assert first.translation == second.translation
    for other, alike in ((second, "The sentences differ, yet both"), (first, "Both")):
        page = render("together", source=first.source_text, second_source=other.source_text)
        expected = [f"{alike} get the same translation: {first.translation}"]
        page.claim_all("two_translations", expected, "markdown")


def test_the_page_opens_on_a_sentence_and_its_minimal_change(translator):
    page = render("together")
    assert "first_of_two" not in page.payloads
    page = render("together", "full_passes")
    page.claim_all("second_source", ["Second sentence", SWAPPED])
    first, second = translator.inspect(SHIRTS), translator.inspect(SWAPPED)
    expected = [
        f"{name}: {bold(one.translation, other.translation)}"
        for name, one, other in (("First", first, second), ("Second", second, first))
    ]
    page.claim_all("two_translations", expected, "markdown")
    claim_both(page, first, second)
    claim_largest(page, first, second, "in the second sentence")
    nothing_else(page)


@pytest.mark.parametrize("direction", ["de-en", "en-de"])
def test_every_known_sentence_has_a_change_of_few_words(direction):
    for source in (text for pair in EXAMPLES + MINIMAL_PAIRS for text in pair.texts(direction)):
        second = minimal_change(source, direction)
        words, others = (Counter(text.casefold().split()) for text in (source, second))
        assert second != source
        assert (words - others).total() + (others - words).total() <= 6, (source, second)


def test_the_second_sentence_follows_the_first_until_it_is_edited():
    changed, second = EXAMPLES[1].texts("de-en")

    def act(app):
        app.text_area(key="source").set_value(changed).run()

    page = render("together", act=act)
    page.claim(second, "second_source")

    def typed(app):
        app.text_area(key="second_source").set_value(SNOW)
        act(app)

    page = render("together", act=typed)
    assert unpacked(page.payload("first_of_two"))[0]["source_text"] == changed
    assert unpacked(page.payload("second_explorer"))[0]["source_text"] == SNOW


def test_an_unknown_sentence_is_compared_with_itself():
    page = render("together", source="Der Hund schläft.")
    page.claim("Der Hund schläft.", "second_source")
    page.claim("Both sentences are the same: change a word in one of them.")
    page.claim("No attention weight differs.")
    assert "maps_of_two" not in page.payloads


def test_sentences_of_different_lengths_are_not_subtracted(translator):
    page = render("together", source=SHIRTS, second_source=SNOW)
    both = [translator.inspect(text) for text in (SHIRTS, SNOW)]
    says(page, "largest_of_two", *(str(len(s)) for r in both for s in (r.source, r.target_out)))
    assert "maps_of_two" not in page.payloads


def test_another_model_gets_the_same_target(translator):
    page = render("together", source=SNOW, beside="model", second_of_two="baseline")
    first = translator.inspect(SNOW)
    second = load("baseline-de-en").inspect(SNOW, first.translation)
    claim_both(page, first, second, "baseline-de-en")


def test_edits_keep_the_target(translator):
    page = render("together", "full_passes", source=SNOW, beside="edits", edits="off.cross.2.3")
    first = translator.inspect(SNOW)
    edits, _ = Edits.parse("off.cross.2.3")
    ids = tuple(token.id for token in first.target_out)
    second = translator.inspect(SNOW, edits=edits, target_ids=ids)
    assert abs(second.log_prob - first.log_prob) > 0.01
    claim_both(page, first, second, note=", with edits")
    claim_largest(page, first, second, "with the edits")


def test_the_head_that_matters_most_is_offered_as_an_edit(translator):
    none = render("together", "full_passes", source=SNOW, beside="edits")
    assert "second_explorer" not in none.payloads
    first = translator.inspect(SNOW)
    effects = head_effects(translator, first).changes
    most = min(
        ((float(c.sum()), kind, *at) for kind, of in effects.items() for at, c in
         [((i, j), of[i, j]) for i, j in np.ndindex(of.shape[:2])]),
    )  # fmt: skip
    change, kind, layer, head = most
    assert any(number(change, 2, "+") in text for text in none.texts(kind="caption"))
    none.app.button(key="offer_edit").click().run()
    edits, _ = Edits.parse(f"off.{kind}.{layer}.{head}")
    ids = tuple(token.id for token in first.target_out)
    second = translator.inspect(SNOW, edits=edits, target_ids=ids)
    assert any(number(second.log_prob, 2) in text for text in read(none.app).texts(kind="caption"))


def test_a_new_first_sentence_keeps_the_second():
    second = EXAMPLES[1].texts("de-en")[1]

    def act(app):
        app.text_area(key="source").set_value(EXAMPLES[1].de).run()
        app.text_area(key="source").set_value("Der Hund schläft.").run()

    assert render("together", act=act).app.text_area(key="second_source").value == second


def box_of(part: Locator) -> FloatRect:
    box = part.bounding_box()
    assert box
    return box


def open_both(page: Page, serve, width: int, **query: str) -> tuple[Locator, Locator]:
    page.set_viewport_size({"width": width, "height": 900})
    extra = "".join(f"&{name}={quote(value)}" for name, value in query.items())
    page.goto(f"{serve(MAIN)}/together?source={quote(SNOW)}&kind=cross{extra}")
    both = page.locator("section[aria-label='Attention explorer']")
    expect(both).to_have_count(2, timeout=60_000)
    for root in (both.nth(0), both.nth(1)):
        expect(root).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=30_000)
    page.wait_for_timeout(400)
    return both.nth(0), both.nth(1)


def test_both_are_aligned_and_share_one_row_of_choices(local_page: Page, serve):
    left, right = open_both(local_page, serve, 1280, second_source=SHIRTS)
    for name in ("source", "target", "readout", "overview", "title", "map-place"):
        boxes = [box_of(root.locator(f"[data-part={name}]")) for root in (left, right)]
        assert boxes[0]["y"] == pytest.approx(boxes[1]["y"], abs=1), name
    left.locator("[data-part=options-button]").click()
    for name in ("kinds", "quantity", "sort", "combines", "views", "units", "hide-eos"):
        expect(left.locator(f"[data-part={name}]")).to_be_visible()
        expect(right.locator(f"[data-part={name}]")).to_be_hidden()
    left.locator("[data-part=options-button]").click()
    boxes = [box_of(left), box_of(right)]
    bar = box_of(left.locator(".shared-choices"))
    assert bar["x"] == boxes[0]["x"]
    assert bar["x"] + bar["width"] == pytest.approx(boxes[1]["x"] + boxes[1]["width"], abs=1)
    for root in (left, right):  # the choices cover nothing
        assert box_of(root.locator("[data-part=source]"))["y"] >= bar["y"] + bar["height"]
    left.locator("[data-kind-option=encoder]").click()
    for root in (left, right):
        expect(root).to_have_attribute("data-kind", "encoder")
    tops = [box_of(root.locator("[data-part=map-place]"))["y"] for root in (left, right)]
    assert tops[0] == pytest.approx(tops[1], abs=1)
    rows = [row_of_first_cell(root) for root in (left, right)]
    assert rows[0] == pytest.approx(rows[1], abs=1.5)


def row_of_first_cell(root: Locator) -> float:
    """Return the first y on the page at which the pointer is over query 0."""
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


def test_on_a_phone_each_explorer_has_its_own_choices(local_page: Page, serve):
    left, right = open_both(local_page, serve, 390)
    expect(left.locator(".shared-choices")).to_have_count(0)
    for root in (left, right):
        for name in ("kinds", "options-button", "views", "units"):
            expect(root.locator(f"[data-part={name}]")).to_be_visible()
    boxes = [box_of(left), box_of(right)]
    assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"]
    local_page.set_viewport_size({"width": 1440, "height": 900})
    expect(left.locator(".shared-choices")).to_have_count(1)
    expect(right.locator("[data-part=kinds]")).to_be_hidden()
    local_page.set_viewport_size({"width": 390, "height": 900})
    expect(left.locator(".shared-choices")).to_have_count(0)
    expect(right.locator("[data-part=kinds]")).to_be_visible()
