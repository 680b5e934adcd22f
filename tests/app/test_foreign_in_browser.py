"""The explorer shows right-to-left rows, and lists the comparisons made on import."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from app.components.explorer.payload import payload
from core.checkpoint.imported import Imported
from tests.app import explorer_harness
from tests.app.explorer_harness import synthetic_record
from tests.app.foreign_models import IMPORTED
from tests.app.mounted import Mounted

VIEW = {"kind": "cross", "layer": 0, "head": 0}


@pytest.fixture(scope="module")
def at(browser: Browser) -> Iterator[Mounted]:
    context = browser.new_context(viewport={"width": 1000, "height": 1000})
    shown = Mounted(context.new_page())
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(explorer_harness.SOURCES, "arabic", "الرجل يقرأ كتابا (New York) .")
        patch.setitem(explorer_harness.TARGETS, "arabic", "The man read|s .")
        record = synthetic_record("arabic", 2, 2)
    shown.show(payload(record, VIEW, provenance=Imported.from_json(IMPORTED)))
    yield shown
    context.close()


def lefts(at: Mounted, side: str) -> list[float]:
    """Return the left edges of a row's tokens, in the order of the tokens."""
    boxes = at.page.locator(f"[data-part={side}] .token").all()
    return [box.bounding_box()["x"] for box in boxes]


def test_a_row_follows_the_writing_direction_of_its_sentence(at):
    """English words in the Arabic row do not change its direction."""
    source, target = lefts(at, "source"), lefts(at, "target")
    assert source == sorted(source, reverse=True) and len(set(source)) == len(source) == 7
    assert target == sorted(target) and len(target) > 4


def test_arrow_keys_move_to_the_neighbour_on_that_side(at):
    for side, towards_next in (("source", "ArrowLeft"), ("target", "ArrowRight")):
        tokens = at.page.locator(f"[data-part={side}] .token")
        tokens.nth(0).focus()
        at.page.keyboard.press(towards_next)
        at.page.keyboard.press(towards_next)
        assert at.page.evaluate("root().getRootNode().activeElement.dataset.index") == "2"


def test_what_was_compared_on_import_is_listed_after_the_checks(at):
    lines = at.page.locator("[data-part=checks] li")
    texts = [line.text_content() for line in lines.all()]
    at_heading = next(i for i, text in enumerate(texts) if text.startswith("On import"))
    assert texts[at_heading] == (
        "On importopus-mt-ar-en (marian), imported, by Language Group <b>X</b>, licence CC-BY-4.0."
    )
    passed, failed, open_point = lines.all()[at_heading + 1 :]
    assert "logits, float64" in passed.text_content() and passed.get_attribute("class") != "failed"
    assert "greedy ids" in failed.text_content() and failed.get_attribute("class") == "failed"
    assert "The order of the vocabulary was not compared." in open_point.text_content()
