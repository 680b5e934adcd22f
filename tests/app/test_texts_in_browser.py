"""In a browser, no text creates an element, request or dialog; every text is shown exactly."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from app.look.labels import label
from tests.app.conftest import watched
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
ACTIVE = """() => {
  const found = [];
  const tags = "script, iframe, frame, object, embed, base, meta, link, img, video, [href], [src]";
  const visit = (node) => {
    for (const element of node.querySelectorAll("*")) {
      const names = element.getAttributeNames();
      const link = element.getAttribute("href") ?? element.getAttribute("src") ?? "";
      const inert = element.matches("a, img") && link === "";  // such as a button of a figure
      if (element.matches(tags) && !inert) {
        found.push(`${element.localName} ${link.split("?")[0]}`);
      }
      found.push(...names.filter((name) => name.startsWith("on")));
      if (element.shadowRoot) visit(element.shadowRoot);
    }
  };
  visit(document.body);
  return [...new Set(found)].sort();
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


PAGES = ["", "tour", "steps", "head", "why", "together", "masks", "positions", "comparison"]


def visited(page: Page, url: str, text: str) -> set[str]:
    """Return the active elements of a page that shows a text, including Streamlit's."""
    page.goto(f"{url}?direction=de-en&model=scratch&search=greedy&source={quote(text)}")
    expect(page.get_by_test_id("stSidebarUserContent")).to_be_visible(timeout=60_000)
    shown = page.locator("[data-testid=stMain] .st-key-source, .st-key-tour_links a")
    shown.first.wait_for(timeout=60_000)
    page.get_by_test_id("stSidebar").locator("img").first.wait_for()  # the logo
    settled(page)
    assert page.get_by_test_id("stException").count() == 0
    return set(page.evaluate(ACTIVE))


def together(limit: int = 60) -> list[str]:
    """Join the texts into lines that are short enough for the models."""
    lines = [""]
    for text in TEXTS:
        if lines[-1] and len(lines[-1]) + len(text) > limit:
            lines.append("")
        lines[-1] = f"{lines[-1]} {text}".strip() if lines[-1] else text
    return lines


@pytest.mark.soak
@pytest.mark.parametrize("name", PAGES, ids=lambda name: name or "translate")
def test_all_texts_on_every_page_of_the_guarded_app(serve, page: Page, name):
    """Nothing violates the content security policy."""
    broken: list[str] = []
    page.on("console", lambda said: "Content Security" in said.text and broken.append(said.text))
    with watched(page):
        url = f"{serve(APP)}/{name}"
        usual = visited(page, url, "a") | visited(page, url, "Ein Hund läuft.")
        for text in together():
            assert visited(page, url, text) <= usual, text
            assert page.evaluate("window.taken") is None
            if name in ("masks", "positions"):
                shown = page.locator(".st-key-lesson_sentence").all_text_contents()
                refused = page.get_by_test_id("stAlert").count()
                assert refused or bare(text) == bare("".join(shown).split("→")[0]), text
    assert not broken
    title = name or "the first page"
    print(f"\n{len(TEXTS)} texts on {title}: nothing active, no request, no dialog")  # noqa: T201
