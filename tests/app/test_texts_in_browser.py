"""In a browser, no text creates an element, request or dialog; every text is shown exactly."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from app.look.labels import label
from tests.app.texts import TEXTS
from tests.app.texts_harness import ROWS, record_of, texts_from

HERE = Path(__file__).parent
APP = HERE.parents[1] / "app/serve.py"
FOUND = """() => {
  const found = new Set();
  const visit = (node) => {
    for (const element of node.querySelectorAll("*")) {
      const names = element.getAttributeNames().filter((name) => !/^(data-|aria-)/.test(name));
      if (element.localName !== "g") found.add([element.localName, ...names.sort()].join(" "));
      if (element.shadowRoot) visit(element.shadowRoot);
    }
  };
  visit(document.body);
  return [...found];
}"""
UNSEEN = re.compile("[\u200b\u2060\u2066\u2069]")


def settled(page: Page) -> None:
    """Wait until the page has run."""
    expect(page.locator("[data-testid=stApp]")).to_have_attribute(
        "data-test-script-state", "notRunning", timeout=60_000
    )


def shown_texts(page: Page, key: str, element: str) -> list[str]:
    return page.locator(f".st-key-{key} {element}").evaluate_all(
        "elements => elements.map((element) => element.textContent)"
    )


def same(shown: list[str], texts: list[str]) -> None:
    """Compare texts, except for white space and zero-width marks."""
    for one, text in zip(shown, texts, strict=True):
        assert bare(one) == bare(text)


def bare(text: str) -> list[str]:
    text = re.sub("\r\n?", "\n", text.replace("\x00", "\ufffd"))
    return UNSEEN.sub("", text).split()


def check(page: Page, start: int, allowed: set[str]) -> set[str]:
    """Check that the texts from `start` on are shown literally; return the page's elements."""
    expect(page.get_by_text(f"from {start}", exact=True)).to_be_visible(timeout=60_000)
    settled(page)
    record = record_of(texts_from(start))
    explorer = page.locator(".explorer[data-painted]")
    expect(explorer).to_have_attribute("data-sentence", record.id)
    words = [label(token) for token in record.source if not token.special]
    tokens = explorer.locator(".source .token .form").all_text_contents()
    same(tokens[: len(words)], words)
    same(shown_texts(page, "table", "td bdi"), words[:ROWS])
    texts = texts_from(start)
    said = [text for text in texts if text.split()]
    same(shown_texts(page, "lines", "[data-testid=stAlertContainer] p"), said)
    twice = [f"{text} | “{text}”" for text in said]
    same(shown_texts(page, "captions", "[data-testid=stCaptionContainer] p"), twice)
    same(shown_texts(page, "texts", "[data-testid=stText]"), texts)
    ticks = page.locator(".st-key-mask .ytick text")
    expect(ticks.first).to_be_visible()
    whole = [" ".join(bare(word)) for word in words[:ROWS]]
    ticked = {" ".join(bare(tick)).removesuffix("…").strip() for tick in ticks.all_text_contents()}
    assert len(ticked) > min(3, len(set(whole)) - 1)
    for tick in ticked:  # plotly omits some and cuts long ones
        assert any(word.startswith(tick) for word in whole), tick
    found = set(page.evaluate(FOUND))
    assert not allowed or found <= allowed, found - allowed
    assert page.evaluate("window.taken") is None
    return found


def walk(page: Page, serve: Callable[[Path], str], places: list[int]) -> None:
    page.goto(f"{serve(HERE / 'texts_harness.py')}/?from={places[0] - ROWS}")
    allowed = set()
    for start in [places[0] - ROWS, *places]:
        if start != places[0] - ROWS:
            page.locator(".st-key-next button").click(timeout=120_000)
        found = check(page, start, allowed)
        allowed = allowed or found


def test_forty_texts_create_no_element(serve, local_page: Page):
    walk(local_page, serve, [0])


@pytest.mark.soak
def test_all_texts_create_no_element(serve, local_page: Page):
    walk(local_page, serve, list(range(0, len(TEXTS), ROWS)))
    print(f"\n{len(TEXTS)} texts on every part of a page: no element, no request, no dialog")  # noqa: T201
