"""The explorer on a bundled model: quantities, a given target, links into a head, saved records."""

import re
from dataclasses import replace
from unittest.mock import Mock
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from streamlit.testing.v1 import AppTest

from app.examples import EXAMPLES
from app.state import results
from core.analysis.rollout import rollout
from core.experiments.score_parts import scores
from core.experiments.values import value_norms
from core.kinds import KINDS
from tests.app.explorer_parts import choose, open_folds
from tests.app.rendered import read, unpacked
from tests.app.test_app import MAIN, hover_cell, painted, translate
from tests.app.test_navigation import at, expect_query
from tests.app.test_navigation import query as in_address

SENTENCE = "Zwei junge Männer spielen im Park Fußball."
COMPOUND = "Ein Straßenmusiker spielt an einer Bushaltestelle Gitarre."
TARGET = "Two boys play football in the park."
LINK = f"source={quote(SENTENCE)}&direction=de-en&model=scratch&search=greedy"


def opened(page: Page, serve, query: str):
    """Open a link; return the explorer's root."""
    page.goto(f"{serve(MAIN)}/?{query}")
    return painted(page)


def test_quantities_are_the_models_own(local_page: Page, serve, translator) -> None:
    root = opened(local_page, serve, f"{LINK}&kind=decoder&layer=1&head=2&quantity=scores")
    record = translator.inspect(SENTENCE, decode=_greedy())
    expect(root).to_have_attribute("data-sentence", record.id)
    ids = [[token.id for token in side] for side in (record.source, record.target_out)]
    with translator.exclusive_model() as model:
        quantities = {
            "scores": scores(model, *ids),
            "norms": value_norms(model, *ids),
            "weights": {kind: record.maps(kind) for kind in KINDS},
            "rollout": rollout(record),
        }
    for name, found in quantities.items():
        if name != "scores":  # the link selects the scores
            choose(root, "quantity", name)
        expect(root).to_have_attribute("data-quantity", name)
        head = 0 if name == "rollout" else 2
        for kind in KINDS:
            root.locator(f"[data-kind-option={kind}]").click()
            numbers = np.asarray(found[kind][1, head])
            span = float(found[kind].max() - min(0, found[kind].min()))
            for query, key in [(5, 2), (3, 3)]:
                said = hover_cell(root, query, key)
                assert (said["kind"], said["layer"]) == (kind, "1")
                assert float(said["weight"]) == pytest.approx(
                    float(numbers[query, key]), abs=1e-4 + span / 65535
                ), (name, kind)


def open_another(page: Page) -> None:
    """Open the fold with the box for another translation."""
    page.locator(".st-key-another_translation summary").click()


def _greedy():
    from core.config import DecodeConfig

    return DecodeConfig(beam=1)


def test_a_given_translation_replaces_the_models_own(local_page: Page, serve, translator) -> None:
    root = opened(local_page, serve, LINK)
    root.evaluate("explorer => { explorer.stays = true; }")
    open_folds(root)
    open_another(local_page)
    own = translator.inspect(SENTENCE, decode=_greedy())
    box = local_page.locator(".st-key-target input")
    box.fill(TARGET)
    box.press("Enter")
    given = translator.inspect(SENTENCE, TARGET)
    expect(root).to_have_attribute("data-sentence", given.id)
    assert root.evaluate("explorer => explorer.stays"), "the explorer was remounted"
    expect(local_page.locator(".st-key-translation")).to_have_text(TARGET)
    expect(local_page.locator(".st-key-own_translation")).to_have_text(
        f"The model itself writes: {own.translation}"
    )
    expect(root.locator("[data-part=target-note]")).to_contain_text("not written by the model")
    expect(root.locator("[data-part=score]")).to_contain_text("given target")
    for step in (1, 3):
        root.locator(f".target .token[data-index='{step + 1}']").click()
        written = root.locator(".alternative.written .form")
        expect(written).to_have_text(re.compile(given.target_out[step].text))
    expect(local_page).to_have_url(re.compile("target=Two"))
    # A new sentence drops the given translation.
    translate(local_page, "Ein Hund schläft.")
    expect(root).to_have_attribute(
        "data-sentence", translator.inspect("Ein Hund schläft.", decode=_greedy()).id
    )
    expect(box).to_have_value("")


def with_target_box() -> AppTest:
    app = AppTest.from_file(MAIN, default_timeout=60)
    app.session_state["another_translation"] = True
    return app


def test_a_stale_target_is_not_used_for_the_next_sentence(monkeypatch) -> None:
    """A second click may come before the browser has seen the response to the first."""
    app = with_target_box().run()
    app.text_input("target").set_value(TARGET).run()
    assert app.text[0].value == TARGET
    with monkeypatch.context() as context:  # this run fails
        context.setattr(results, "inspect", Mock(side_effect=ValueError))
        app.text_area("source").set_value("Ein Hund schläft.").run()
    app.text_input("target").set_value(TARGET)
    app.button("translate").click().run()
    assert not app.error and app.text_input("target").value == ""
    assert app.text[0].value != TARGET
    # After a complete run, the same text counts as typed.
    app.text_input("target").set_value(TARGET).run()
    assert app.text[0].value == TARGET


def test_an_examples_reference_is_one_click(translator) -> None:
    example = EXAMPLES[1]
    app = with_target_box()
    app.query_params["source"] = example.de
    app.run()

    def shown() -> str:
        return unpacked(read(app).payload("explorer"))[0]["sentence"]

    given = translator.inspect(example.de, example.en).id
    for _ in range(2):  # a second click changes nothing
        assert app.button("use_reference").label == "Use the reference"
        app.button("use_reference").click().run()
        assert shown() == given and app.text_input("target").value == example.en
    app.text_input("target").set_value("").run()
    assert shown() == translator.inspect(example.de).id
    next(b for b in app.button if b.label == EXAMPLES[2].titles[0]).click().run()
    assert shown() == translator.inspect(EXAMPLES[2].de).id


def test_too_long_a_translation_gives_a_one_line_error() -> None:
    app = with_target_box().run()
    app.text_input("target").set_value("x. " * 99).run()
    (error,) = app.error
    assert "tokens are too many" in error.value and "\n" not in error.value
    app.text_input("target").set_value("").run()
    assert not app.error


def test_a_pinned_cell_leads_into_its_head(local_page: Page, serve) -> None:
    root = opened(local_page, serve, f"{LINK}&kind=decoder&layer=1&head=2&q=4&k=3")
    entries = local_page.evaluate("history.length")
    weight = float(root.get_attribute("data-weight"))
    open_folds(root)
    link = root.get_by_role("link", name="Inside this head")
    root.locator("[data-kind-option=cross]").click()
    root.locator("[data-kind-option=decoder]").click()
    hover_cell(root, 4, 3)
    root.locator("[data-part=map]").press("Enter")
    expect(link).to_have_attribute("href", re.compile("kind=decoder.*q=4&k=3"))
    with local_page.context.expect_page() as tab:
        link.click(modifiers=["ControlOrMeta"])
    said = tab.value.locator(".st-key-head_sentence")
    expect(said).to_contain_text("head 3 of layer 2", timeout=60_000)
    tab.value.close()
    assert in_address(local_page)["q"] == "4"
    local_page.evaluate("window.stays = true")
    link.click()
    said = local_page.locator(".st-key-head_sentence")
    expect(said).to_contain_text("head 3 of layer 2")
    expect(said).to_contain_text(re.compile(rf"{weight:.3f}"[:-1]))
    at(local_page, "head")  # the head page's own parameters add no history entry
    expect_query(local_page, source=SENTENCE, kind="decoder", layer="1", head="2", q="4", k="3")
    assert local_page.evaluate("history.length") == entries + 1
    assert local_page.evaluate("window.stays"), "a full page load would start a new session"
    local_page.mouse.move(0, 0)  # hovering overrides the pinned cell
    local_page.go_back()
    expect(root).to_have_attribute("data-painted", re.compile("."), timeout=60_000)
    for name, value in (("kind", "decoder"), ("layer", "1"), ("head", "2"), ("query", "4")):
        expect(root).to_have_attribute(f"data-{name}", value)


def test_a_pinned_word_opens_its_head_at_the_default_cell(local_page: Page, serve) -> None:
    """The head page shows tokens, not words. Browser and Python escape this text differently."""
    text = "Ein * Straßenmusiker ~ spielt an einer Bushaltestelle Gitarre."
    view = "kind=encoder&layer=1&head=2&words=1&q=0&k=1"
    root = opened(local_page, serve, f"source={quote(text)}&{view}")
    expect(root).to_have_attribute("data-unit", "words")
    entries = local_page.evaluate("history.length")
    open_folds(root)
    root.get_by_role("link", name="Inside this head").click()
    at(local_page, "head")
    expect_query(local_page, source=text, kind="encoder", layer="1", head="2", words=None)
    assert in_address(local_page)["q"] != "0", "the default"
    assert local_page.evaluate("history.length") == entries + 1
    local_page.go_back()
    expect(root).to_have_attribute("data-unit", "words", timeout=60_000)
    for name, value in (("kind", "encoder"), ("query", "0"), ("key", "1")):
        expect(root).to_have_attribute(f"data-{name}", value)


def test_an_opened_record_is_checked_again(local_page: Page, serve, translator, tmp_path) -> None:
    """A file's own checks are ignored: its weights may have been modified."""
    record = translator.inspect(SENTENCE, decode=_greedy())
    forged = replace(record, cross=np.roll(record.cross, 1, axis=-1))
    foreign = replace(record, weights_sha256="0" * 64)
    opened(local_page, serve, LINK)
    local_page.locator(".st-key-take_away summary").click()
    for name, saved in (("own", record), ("forged", forged), ("foreign", foreign)):
        saved.save(tmp_path / f"{name}.npz")
        local_page.locator(".st-key-open_record input").set_input_files(tmp_path / f"{name}.npz")
        root = local_page.locator(".st-key-opened_explorer section.explorer")
        expect(root).to_have_attribute("data-sentence", saved.id, timeout=30_000)
        beside = root.locator("[data-part=not-checked]")
        badge = root.get_by_role("button", name="Pictures checked")
        choose(root, "quantity", "weights")  # rollout, kept from the last file, has no heads
        expect(root).to_have_attribute("data-quantity", "weights", timeout=30_000)
        root.locator(".thumbnail[data-l='2'][data-h='1']").click()
        if name == "foreign":
            expect(beside).to_have_text("saved maps: not checked here")
            expect(badge).to_be_hidden()
            offered = root.locator("[data-part=quantity] option")
            assert offered.all_text_contents() == ["weights", "rollout"]
        else:
            expect(beside).to_have_text("")
            held, _, of = root.get_attribute("data-checks").partition("/")
            assert (held == of) == (name == "own")
            expect(badge).to_contain_text(f"{held} of {of}")
            choose(root, "quantity", "scores")
            expect(root).to_have_attribute("data-quantity", "scores", timeout=30_000)
        choose(root, "quantity", "rollout")
        expect(root).to_have_attribute("data-quantity", "rollout", timeout=30_000)
