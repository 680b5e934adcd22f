"""The first screen: its first sentence, what is visible, and how readable it is."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from app.examples import EXAMPLES, opening
from app.state import models, results
from tests.app.rendered import render, unpacked
from tests.app.test_app import MAIN, painted
from tests.app.test_navigation import expect_sentence


def idle(page: Page) -> None:
    """Wait until the script has drawn the page's heading and is seen finished twice in a row."""
    expect(page.locator("h1").first).to_be_attached(timeout=60_000)
    app = page.locator("[data-testid=stApp]")
    done = 0
    while done < 2:
        expect(app).to_have_attribute("data-test-script-state", "notRunning", timeout=60_000)
        page.wait_for_timeout(250)
        finished = app.get_attribute("data-test-script-state") == "notRunning"
        done = done + 1 if finished else 0


def steady(page: Page) -> Locator:
    """Wait for the explorer and its next step: the effects of all heads come after the maps."""
    root = painted(page)
    expect(root.locator(".next-step")).to_be_visible(timeout=60_000)
    return root


IN_VIEW = """(root) => {
    const page = (selector) => document.querySelector(selector);
    const parts = {
        box: page(".st-key-source textarea"), button: page(".st-key-translate button"),
        claim: root.querySelector("[data-part=claim]"), badge: root.querySelector(".badge"),
        source: root.querySelector(".source"), target: root.querySelector(".target"),
        says: root.querySelector(".says"), next: root.querySelector(".next-step"),
        kinds: root.querySelector("[data-part=kinds]"), heads: root.querySelector(".overview"),
        map: root.querySelector("[data-role=map]"), foot: root.querySelector(".foot"),
    };
    return Object.entries(parts).map(([name, part]) => {
        const { left, top, right, bottom } = part.getBoundingClientRect();
        return [name, left, top, right, bottom];
    });
}"""

# Words in view, without those of sentences, canvases, and captions of the heads.
WORDS = """(root) => {
    const main = document.querySelector("[data-testid=stMain]");
    const texts = [];
    const skipped = "textarea, style, h1, .sentence, .edited-row, .overview, .st-key-translation";
    const walk = (node) => {
        if (node.nodeType === Node.TEXT_NODE) {
            const range = document.createRange();
            range.selectNodeContents(node);
            const box = range.getBoundingClientRect();
            const isInView = box.width > 2 && box.top < innerHeight && box.bottom > 0;
            const isShown = node.parentElement?.checkVisibility({ visibilityProperty: true });
            if (isInView && isShown) texts.push(node.textContent);
            return;
        }
        if (node.nodeType === Node.ELEMENT_NODE) {
            if (node.matches(skipped)) return;
            if (node.shadowRoot) walk(node.shadowRoot);
        }
        node.childNodes.forEach(walk);
    };
    walk(main);
    return texts.join(" ").split(/\\s+/).filter((word) => /[\\p{L}\\p{N}]/u.test(word));
}"""


def test_the_first_screen_shows_sentences_heads_and_map(local_page, serve, translator):
    """Nothing scrolls at 1440 × 900, also with an edit, and little is to be read."""
    local_page.set_viewport_size({"width": 1440, "height": 900})
    local_page.goto(serve(MAIN))
    root = steady(local_page)
    record = translator.inspect(EXAMPLES[0].de)
    assert len(record.target_out) == 17, "as long as a sentence on the first screen may be"

    def is_in_view() -> None:
        for name, left, top, right, bottom in root.evaluate(IN_VIEW):
            assert left >= 0 and top >= 0 and right <= 1440 and bottom <= 900, (name, bottom)

    cells = root.locator(".source .cell")
    expect(cells).to_have_count(len(record.source) - 1, timeout=30_000)
    is_in_view()
    assert {cell.count("…") for cell in cells.all_inner_texts()} == {0}
    said = ("layer", "head", "query")
    layer, head, query = (int(root.get_attribute(f"data-{name}")) for name in said)
    row = record.cross[layer, head, query]
    words = re.sub(r"[\u2068\u2069\u2080-\u2089]", "", root.locator(".says .first").inner_text())
    assert words.startswith(
        f"While writing {record.target_out[query].text} after {record.target_in[query].text}, "
        f"head {head + 1} of layer {layer + 1} "
        f"looks most at {record.source[row.argmax()].text} {row.max():.2f}"
    )
    passed = sum(check.passed for check in record.checks)
    expect(root.locator(".badge")).to_have_text(f"Pictures checked: {passed} of 8")
    read = root.evaluate(WORDS)
    assert 20 < len(read) <= 120, read
    expect(local_page.locator("h1")).to_have_text("See where each attention head looks")
    assert local_page.locator(".st-key-page_title").evaluate("at => at.offsetWidth") == 1
    text = local_page.locator(".st-key-translation").inner_text()
    drawn = local_page.locator("[data-testid=stMain]").get_by_text(text, exact=True)
    sizes = drawn.evaluate_all(
        "all => all.map(at => at.closest('.st-key-translation').offsetWidth)"
    )
    assert sizes == [1], "next to the tokens, the translation is for screen readers only"
    root.locator(".next-step").click()
    expect(root.locator(".edited-row b").first).to_be_visible(timeout=30_000)
    is_in_view()
    expect(root.locator("[data-part=claim]")).to_contain_text("One edit: ")


def test_an_example_opens_with_the_head_and_word_that_show_it(local_page, serve, translator):
    local_page.set_viewport_size({"width": 1440, "height": 900})
    local_page.goto(serve(MAIN))
    root = steady(local_page)
    note = local_page.locator(".st-key-model_note")
    expect(note).to_contain_text("layers")
    box = note.bounding_box()
    assert box["y"] + box["height"] <= 900
    # An example opens with the head and the word that show it, even after a head was chosen.
    for example, chosen in ((EXAMPLES[1], False), (EXAMPLES[3], True)):
        if chosen:
            root.locator(".thumbnail[data-l='0'][data-h='1']").click()
        local_page.get_by_role("button", name=example.titles[0]).click()
        record = translator.inspect(example.de)
        expect(root).to_have_attribute("data-sentence", record.id, timeout=30_000)
        found = opening(record)
        assert found is not None
        expect_view(root, *(found[name] for name in ("kind", "layer", "head", "q")))


def test_keys_work_before_anything_has_the_focus(local_page, serve):
    local_page.set_viewport_size({"width": 1440, "height": 900})
    local_page.goto(serve(MAIN))
    root = steady(local_page)
    idle(local_page)
    press = local_page.keyboard.press
    assert local_page.evaluate("document.activeElement === document.body")
    for key, kind in (("1", "encoder"), ("2", "decoder"), ("3", "cross")):
        press(key)
        expect(root).to_have_attribute("data-kind", kind)
    press("l")
    expect(root).to_have_attribute("data-view", "lines")
    press("m")
    expect(root).to_have_attribute("data-view", "map")
    press("w")
    expect(root).to_have_attribute("data-unit", "words")
    press("w")
    press("Escape")
    expect(root).to_have_attribute("data-query", "")
    for key, cell in (("ArrowRight", (0, 0)), ("ArrowDown", (1, 0)), ("ArrowRight", (1, 1))):
        press(key)
        shown = tuple(int(root.get_attribute(f"data-{axis}")) for axis in ("query", "key"))
        assert shown == cell, key
    # A text box keeps its keys.
    box = local_page.locator(".st-key-source textarea")
    box.click()
    press("End")
    press("1")
    expect(box).to_have_value(f"{EXAMPLES[0].de}1")
    expect(root).to_have_attribute("data-kind", "cross")


def expect_view(root: Locator, *view: object) -> None:
    for name, value in zip(("kind", "layer", "head", "query"), view, strict=True):
        expect(root).to_have_attribute(f"data-{name}", str(value))


def test_a_phone_shows_sentences_first_and_the_map_next(local_page, serve):
    """Buttons are next to their text boxes, the map starts within 900 px, and nothing is cut."""
    local_page.set_viewport_size({"width": 390, "height": 844})
    local_page.goto(serve(MAIN))
    root = painted(local_page)
    idle(local_page)
    box = local_page.locator(".st-key-source").bounding_box()
    at = local_page.locator(".st-key-translate").bounding_box()
    assert box["x"] + box["width"] <= at["x"] and at["x"] + at["width"] <= 390
    assert box["y"] < at["y"] + at["height"] / 2 < box["y"] + box["height"]
    expect(root.locator(".next-step")).to_be_visible(timeout=60_000)
    canvas = root.locator("canvas[data-role=map]")
    picture = canvas.bounding_box()
    top, cell = canvas.evaluate("({dataset: d}) => [+d.top, +d.cell]")
    assert picture["y"] + top + 3 * cell < 844, "the map's first rows"
    assert picture["y"] < root.locator("[data-part=overview]").bounding_box()["y"]
    assert local_page.evaluate("document.documentElement.scrollWidth") == 390
    sidebar = local_page.locator("[data-testid=stSidebar]")
    local_page.locator("[data-testid=stExpandSidebarButton]").click()
    expect(sidebar).to_have_attribute("data-collapsed", "false")
    local_page.get_by_role("button", name=EXAMPLES[1].titles[0]).click()
    expect(sidebar).to_have_attribute("data-collapsed", "true")
    expect_sentence(local_page, EXAMPLES[1].de)


@pytest.mark.parametrize(
    ("link", "view"),
    [
        ({"kind": "encoder", "layer": "1", "head": "2"}, ("encoder", 1, 2)),
        ({"kind": "cross", "layer": "0", "head": "1", "q": "3"}, ("cross", 0, 1)),
        ({"q": "2"}, ("cross", 2, 0)),
    ],
)
def test_the_view_of_a_link_is_kept(link, view):
    """The explorer itself reads the pinned cell from the URL, so none is sent."""
    sent = unpacked(render("", **link).payload("explorer"))[0]["view"]
    assert sent == dict(zip(("kind", "layer", "head"), view, strict=True))


def test_known_effects_of_heads_come_with_a_picture_that_no_link_named(translator):
    """So the view does not move to another head once they are computed."""
    text = "Ein Kind malt ein rotes Haus."
    assert "answers_explorer_effects" not in render(source=text).payloads
    results.head_effects(models.cards()["de-en", "scratch"], translator.inspect(text))
    answer, _ = unpacked(render(source=text).payload("answers_explorer_effects"))
    assert answer["sentence"] == translator.inspect(text).id
    named = render(source=text, kind="cross", layer="0", head="1")
    assert "answers_explorer_effects" not in named.payloads
