"""Uses the explorer in a browser as a person would and compares what it says with its record."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.app.explorer_harness import CHECKS, Record, synthetic_record

ROOT = Path(__file__).resolve().parents[2]
HARNESS = Path(__file__).with_name("explorer_harness.py")
LAYERS, HEADS = 3, 4
DECODER_LAYERS = 2
PAINTED = re.compile(r"\d+")


class Explorer:
    """The mounted component, spoken to by what a person sees and by its data attributes."""

    def __init__(self, page: Page, url: str, case: str = "short", **query: object) -> None:
        self.page = page
        sizes = {"layers": LAYERS, "heads": HEADS, "decoder_layers": DECODER_LAYERS}
        page.goto(f"{url}/?{urlencode({'case': case, **sizes, **query})}")
        self.root = page.locator("section[aria-label='Attention explorer']")
        expect(self.root).to_have_attribute("data-painted", PAINTED, timeout=30_000)

    @property
    def map(self) -> Locator:
        return self.root.locator("canvas[data-role=map]")

    def says(self) -> dict[str, str]:
        return self.root.evaluate("root => ({...root.dataset})")

    def kind(self, name: str) -> None:
        self.root.locator(f"[data-kind-option={name}]").click()
        expect(self.root).to_have_attribute("data-kind", name)

    def head(self, layer: int, head: int) -> None:
        self.root.locator(f".thumbnail[data-l='{layer}'][data-h='{head}']").click()

    def point(self, query: int, key: int) -> dict[str, float]:
        self.map.scroll_into_view_if_needed()
        place = self.map.evaluate(
            "({dataset}) => ({left: +dataset.left, top: +dataset.top, cell: +dataset.cell})"
        )
        return {
            "x": place["left"] + (key + 0.5) * place["cell"],
            "y": place["top"] + (query + 0.5) * place["cell"],
        }

    def hover(self, query: int, key: int) -> dict[str, str]:
        self.map.hover(position=self.point(query, key))
        return self.says()

    def click(self, query: int, key: int) -> None:
        self.map.click(position=self.point(query, key))

    def leave(self) -> None:
        self.page.mouse.move(5, 5)

    def token(self, side: str, index: int) -> Locator:
        return self.root.locator(f".{side} .token[data-index='{index}']")

    def readout(self) -> str:
        return (
            self.root.locator(".readout .first")
            .inner_text()
            .replace("\u2068", "")
            .replace("\u2069", "")
        )

    @property
    def badge(self) -> Locator:
        return self.root.get_by_role("button", name="Checks:")

    @property
    def checks(self) -> Locator:
        return self.root.get_by_role("list", name="The checks of these weights")


@pytest.fixture
def url(serve: Callable[[Path], str]) -> str:
    return serve(HARNESS)


@pytest.fixture
def record() -> Record:
    return synthetic_record("short", LAYERS, HEADS, DECODER_LAYERS)


def parameters(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def expect_parameters(page: Page, **wanted: str) -> None:
    page.wait_for_function(
        """wanted => {
            const query = new URLSearchParams(location.search);
            return Object.entries(wanted).every(([name, value]) => query.get(name) === value);
        }""",
        arg=wanted,
        timeout=10_000,
    )


def assert_cell(said: dict[str, str], query: int, key: int, weight: float) -> None:
    assert (said["query"], said["key"]) == (str(query), str(key))
    # Four decimals are shown of a weight that was sent in steps of 1/65535.
    assert float(said["weight"]) == pytest.approx(weight, abs=0.00005 + 1 / 65535)


@pytest.mark.parametrize(
    ("kind", "layer", "head"), [("encoder", 2, 3), ("decoder", 1, 2), ("cross", 0, 1)]
)
def test_a_cell_tells_its_own_weight(
    local_page: Page, url: str, record: Record, kind: str, layer: int, head: int
) -> None:
    explorer = Explorer(local_page, url)
    explorer.kind(kind)
    for chosen_layer, chosen_head in [(layer, head), (1, 0)]:
        explorer.head(chosen_layer, chosen_head)
        said = explorer.says()
        assert (said["kind"], said["layer"], said["head"]) == (
            kind,
            str(chosen_layer),
            str(chosen_head),
        )
        weights = getattr(record, kind)[chosen_layer, chosen_head]
        for query, key in [(4, 2), (7, 3), (weights.shape[0] - 1, weights.shape[1] - 1)]:
            assert_cell(explorer.hover(query, key), query, key, float(weights[query, key]))


def test_the_mean_is_the_mean_of_the_heads(local_page: Page, url: str, record: Record) -> None:
    explorer = Explorer(local_page, url)
    explorer.head(1, HEADS)
    assert explorer.says()["head"] == "mean"
    mean = record.cross[1].mean(0)
    for query, key in [(2, 5), (9, 1)]:
        assert_cell(explorer.hover(query, key), query, key, float(mean[query, key]))
    expect_parameters(local_page, head="mean")


def test_thumbnails_show_the_map_upright(local_page: Page, url: str, record: Record) -> None:
    explorer = Explorer(local_page, url)
    explorer.kind("cross")
    weights = record.cross[1, 2]
    pixels = explorer.root.evaluate(
        """(root, [rows, columns]) => {
            const at = root.querySelector(".thumbnail[data-l='1'][data-h='2']");
            const canvas = root.querySelector(".overview-maps");
            const ratio = canvas.width / canvas.clientWidth, size = at.offsetWidth;
            const place = (start, index, count) => (start + ((index + 0.5) * size) / count) * ratio;
            const context = canvas.getContext("2d");
            return Array.from({length: rows * columns}, (_, cell) => context.getImageData(
                place(at.offsetLeft, cell % columns, columns),
                place(at.offsetTop, Math.floor(cell / columns), rows), 1, 1).data[0]);
        }""",
        weights.shape,
    )
    red = np.array(pixels).reshape(weights.shape)
    # On a light page more weight is darker: in the order of the weights, red only falls.
    order = np.argsort(weights, axis=None)
    assert (np.diff(red.ravel()[order].astype(int)) <= 0).all()
    assert red.max() - red.min() > 100


def test_a_masked_cell_is_named_as_masked(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url, kind="decoder")
    said = explorer.hover(2, 6)
    assert (said["query"], said["key"], said["weight"]) == ("2", "6", "0.0000")
    assert explorer.readout() == "While producing in, shirt is masked: it has not been written yet."
    explorer.hover(6, 2)
    assert "masked" not in explorer.readout()


def test_the_readout_tells_words_and_weight(local_page: Page, url: str, record: Record) -> None:
    explorer = Explorer(local_page, url)
    explorer.hover(4, 5)
    weight = record.cross[0, 0, 4, 5]
    assert (
        explorer.readout() == f"While producing red, head 1 of layer 1 gives {weight:.2f} to Hemd"
    )
    explorer.hover(3, 3)
    assert "a\u2084" in explorer.readout(), "a repeated word carries its position"


def test_pointing_at_a_word_lights_its_row(local_page: Page, url: str, record: Record) -> None:
    explorer = Explorer(local_page, url)
    explorer.token("target", 5).hover()
    said = explorer.says()
    assert (said["query"], said["key"], said["weight"]) == ("4", "", "")
    row = record.cross[0, 0, 4]
    shaded = explorer.root.locator(".source .token").evaluate_all(
        "all => all.map(p => p.classList.contains('shaded'))"
    )
    assert shaded == [bool(weight >= 0.02) for weight in row]
    best = record.source[int(row.argmax())].text
    assert f"looks most at {best}" in explorer.readout()
    explorer.leave()
    expect(explorer.root.locator(".token.shaded")).to_have_count(0)
    assert explorer.says()["query"] == ""


def test_pointing_at_a_source_word_lights_its_column(
    local_page: Page, url: str, record: Record
) -> None:
    explorer = Explorer(local_page, url)
    explorer.token("source", 1).hover()
    assert (explorer.says()["query"], explorer.says()["key"]) == ("", "1")
    shaded = explorer.root.locator(".target .token").evaluate_all(
        "all => all.map(p => p.classList.contains('shaded'))"
    )
    assert shaded == [False, *[bool(weight >= 0.02) for weight in record.cross[0, 0, :, 1]]]


def test_the_wrong_side_says_so(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url, kind="encoder")
    explorer.token("target", 3).hover()
    assert "never sees the translation" in explorer.readout()
    explorer.kind("decoder")
    explorer.token("source", 3).hover()
    assert "German reaches it through cross-attention" in explorer.readout()
    explorer.kind("cross")
    explorer.token("target", 0).hover()
    assert "no step produces it" in explorer.readout()
    assert explorer.says()["weight"] == ""


def test_click_keeps_and_three_ways_let_go(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)

    def pinned() -> tuple[str, str]:
        explorer.leave()
        expect(explorer.root.locator(".token.looked-at")).to_have_count(0)
        said = explorer.says()
        return said["query"], said["key"]

    explorer.click(4, 5)
    assert pinned() == ("4", "5")
    assert explorer.hover(2, 2)["query"] == "2", "hover previews although a cell is pinned"
    assert pinned() == ("4", "5")
    explorer.click(4, 5)
    assert pinned() == ("", "")
    explorer.click(4, 5)
    local_page.keyboard.press("Escape")
    assert pinned() == ("", "")
    explorer.token("target", 5).click()
    assert pinned() == ("4", "")
    explorer.root.get_by_role("button", name="Unpin").click()
    assert pinned() == ("", "")
    expect(explorer.root.get_by_role("button", name="Unpin")).to_be_hidden()


def test_hover_moves_nothing(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    boxes = """root => [...root.querySelectorAll("button, canvas, p, h2")].map(part => {
        const box = part.getBoundingClientRect();
        return [box.x, box.y, part.tagName === "BUTTON" ? box.width : 0].map(Math.round).join();
    })"""
    explorer.map.scroll_into_view_if_needed()
    before = explorer.root.evaluate(boxes)
    for query, key in [(2, 2), (7, 9)]:
        explorer.hover(query, key)
        assert explorer.root.evaluate(boxes) == before


def test_switching_keeps_the_height(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    heights = set()
    for kind in ("encoder", "decoder", "cross"):
        explorer.kind(kind)
        explorer.hover(1, 1)
        heights.add(round(explorer.root.bounding_box()["height"]))
    assert len(heights) == 1


def tab_to_the_map(explorer: Explorer) -> list[dict]:
    """Press Tab until the map has the focus; the places of all that had it, in order."""
    places = []
    for _ in range(20):
        explorer.page.keyboard.press("Tab")
        places.append(
            explorer.root.evaluate(
                """root => {
                    const box = root.getRootNode().activeElement.getBoundingClientRect();
                    return {x: box.x, y: box.y - root.getBoundingClientRect().y};
                }"""
            )
        )
        if explorer.map.evaluate("map => map.matches(':focus')"):
            return places
    raise AssertionError("Tab does not lead to the map")


def test_tab_follows_the_eye(local_page: Page, url: str) -> None:
    """From the heads on: the map's title line, the line of its choices, then the map."""
    explorer = Explorer(local_page, url)
    explorer.root.locator(".thumbnail[aria-pressed=true]").focus()
    places = tab_to_the_map(explorer)
    assert len(places) > 6
    for one, next_one in pairwise(places):
        beside = abs(one["y"] - next_one["y"]) < 12
        later = next_one["x"] > one["x"] if beside else next_one["y"] > one["y"]
        assert later, (one, next_one)


def test_a_pinned_token_is_pressed(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    pressed = explorer.root.locator(".token[aria-pressed=true]")
    expect(explorer.root.locator(".token:not([aria-pressed])")).to_have_count(0)
    explorer.token("target", 5).click()
    expect(pressed).to_have_count(1)
    expect(explorer.token("target", 5)).to_have_attribute("aria-pressed", "true")
    explorer.token("target", 3).hover()
    expect(explorer.token("target", 5)).to_have_attribute("aria-pressed", "true")
    local_page.keyboard.press("Escape")
    expect(pressed).to_have_count(0)


def test_keys_and_pins_are_spoken_and_nothing_else(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    spoken = explorer.root.locator("[aria-live=polite]")
    expect(spoken).to_have_count(1)
    explorer.hover(2, 2)
    explorer.token("source", 1).hover()
    explorer.root.locator(".thumbnail").nth(1).hover()
    explorer.root.get_by_role("button", name="Next step").hover()
    expect(spoken).to_be_empty()
    explorer.click(4, 5)
    expect(spoken).to_contain_text(re.compile("While producing .red., head 1 of layer 1 gives"))
    local_page.keyboard.press("Escape")
    expect(spoken).to_contain_text("On average")
    explorer.map.focus()
    local_page.keyboard.press("ArrowDown")
    local_page.keyboard.press("ArrowDown")
    first = spoken.text_content()
    local_page.keyboard.press("ArrowRight")
    assert spoken.text_content() not in ("", first)
    local_page.keyboard.press("2")
    expect(spoken).to_contain_text("English looks back at English")


def test_playing_is_not_spoken(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    spoken = explorer.root.locator("[aria-live=polite]")
    explorer.root.get_by_role("button", name="Play the steps").click()
    before = spoken.text_content()
    step = explorer.root.get_attribute("data-step")
    expect(explorer.root).not_to_have_attribute("data-step", step, timeout=5_000)
    assert spoken.text_content() == before


def test_the_keys_are_listed(local_page: Page, url: str) -> None:
    """Each key that the root listens to stands in the list, which a key opens and Escape closes."""
    explorer = Explorer(local_page, url)
    script = (ROOT / "app/components/explorer/keyboard.js").read_text(encoding="utf-8")
    table = script[script.index("ROOT_KEYS = {") : script.index("};", script.index("ROOT_KEYS"))]
    keys = {a or b for a, b in re.findall(r'^  (?:"(.)"|(\w)):', table, re.MULTILINE)}
    assert len(keys) > 10
    keys_list = explorer.root.locator(".keys dl")
    expect(keys_list).to_be_hidden()
    explorer.token("source", 0).focus()
    local_page.keyboard.press("?")
    expect(keys_list).to_be_visible()
    named = set("".join(keys_list.locator("dt").all_text_contents()).replace("−", "-"))
    assert keys <= named, keys - named
    local_page.keyboard.press("Escape")
    expect(keys_list).to_be_hidden()


def test_keyboard_walk(local_page: Page, url: str, record: Record) -> None:
    explorer = Explorer(local_page, url)
    press = local_page.keyboard.press
    explorer.token("source", 0).focus()
    press("1")
    assert explorer.says()["kind"] == "encoder"
    press("ArrowRight")
    press("ArrowRight")
    assert explorer.says()["query"] == "2"
    press("Enter")
    expect(explorer.token("source", 2)).to_have_class(re.compile(r"\bpinned\b"))
    press("3")
    assert explorer.says()["kind"] == "cross"

    explorer.root.locator(".thumbnail[aria-pressed=true]").focus()
    press("ArrowDown")
    press("ArrowRight")
    said = explorer.says()
    assert (said["layer"], said["head"]) == ("1", "1")
    press("ArrowDown")
    assert explorer.says()["layer"] == "mean", "past the last layer come all of them"
    press("ArrowDown")
    assert explorer.says()["layer"] == "0", "and then the first"

    tab_to_the_map(explorer)
    assert_cell(explorer.says(), 0, 0, float(record.cross[0, 1, 0, 0]))
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        press(key)
    assert_cell(explorer.says(), 2, 1, float(record.cross[0, 1, 2, 1]))
    press("Space")
    press("ArrowRight")
    assert explorer.says()["key"] == "2"
    explorer.map.evaluate("canvas => canvas.blur()")
    assert (explorer.says()["query"], explorer.says()["key"]) == ("2", "1")
    press("Escape")
    assert explorer.says()["query"] == ""


def test_everything_that_takes_focus_has_a_name(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    nameless = explorer.root.evaluate(
        """root => [...root.querySelectorAll("button, canvas[tabindex]")].filter(
            part => part.checkVisibility({visibilityProperty: true})
                && !(part.getAttribute("aria-label") || part.textContent.trim())).length"""
    )
    assert nameless == 0
    assert explorer.map.get_attribute("role") == "application"
    expect(explorer.root.locator("[aria-live=polite]")).to_have_count(1)


def test_a_new_sentence_keeps_the_head_and_drops_the_cell(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    explorer.kind("decoder")
    explorer.head(1, 2)
    explorer.click(4, 2)
    before = explorer.says()
    local_page.get_by_text("Another sentence").click()
    other = synthetic_record("other", LAYERS, HEADS, DECODER_LAYERS)
    expect(explorer.root).to_have_attribute("data-sentence", other.id)
    explorer.leave()
    said = explorer.says()
    assert before["sentence"] != said["sentence"]
    assert (said["kind"], said["layer"], said["head"]) == ("decoder", "1", "2")
    assert (said["query"], said["key"], said["weight"]) == ("", "", "")
    assert int(said["painted"]) > int(before["painted"])
    assert_cell(explorer.hover(5, 3), 5, 3, float(other.decoder[1, 2, 5, 3]))


def test_the_address_holds_the_view_beside_what_is_not_its_own(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url, case="short")
    entries = local_page.evaluate("history.length")
    explorer.kind("encoder")
    explorer.head(2, 3)
    expect_parameters(
        local_page, kind="encoder", layer="2", head="3", case="short", heads=str(HEADS)
    )
    local_page.evaluate(
        "history.replaceState({}, '', `${location.pathname}${location.search}&other=two`)"
    )
    explorer.head(1, 0)
    expect_parameters(local_page, kind="encoder", layer="1", head="0", other="two")
    local_page.get_by_role("button", name="Run again").click()
    expect(local_page.get_by_text("run again: True")).to_be_visible()
    expect_parameters(local_page, kind="encoder", layer="1", head="0", other="two")
    assert local_page.evaluate("history.length") == entries, "a view is no page to go back from"
    local_page.reload()
    expect(explorer.root).to_have_attribute("data-painted", PAINTED, timeout=30_000)
    said = explorer.says()
    assert (said["kind"], said["layer"], said["head"]) == ("encoder", "1", "0")
    assert parameters(local_page)["other"] == "two"


def test_a_link_to_what_is_not_there_shows_the_nearest(local_page: Page, url: str) -> None:
    said = Explorer(local_page, url, layer=9, head=99).says()
    assert (said["layer"], said["head"]) == (str(DECODER_LAYERS - 1), str(HEADS - 1))


def test_hostile_words_stay_words(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url, case="hostile")
    for kind in ("encoder", "decoder", "cross"):
        explorer.kind(kind)
        explorer.hover(0, 0)
        explorer.click(1, 1)
    record = synthetic_record("hostile")
    assert explorer.root.locator("img, script, a:not(.inside), s, iframe, .token b").count() == 0
    assert explorer.token("source", 0).inner_text() == "<img src=x onerror=alert(1)>"
    assert explorer.token("target", 1).inner_text() == "<script>alert(2)</script>"
    assert explorer.token("source", 2).inner_text() == "$x$"
    assert explorer.root.locator(".source .token").count() == len(record.source)
    marks = explorer.root.locator(".source .hidden-mark").all_inner_texts()
    assert marks == [f"\u2039U+{code}\u203a" for code in ("200B", "00AD", "202E", "00A0")]
    astronaut = next(i for i, token in enumerate(record.source) if "\u200d" in token.text)
    assert explorer.token("source", astronaut).inner_text() == record.source[astronaut].text
    width = local_page.evaluate(
        "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert width == 0


def test_unknown_words_show_their_own_form(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url, case="unknown")
    assert explorer.root.locator(".form.unknown").all_inner_texts() == ["Ł", "ó", "ź"]
    assert explorer.root.locator(".form.blank").all_inner_texts() == ["\u2423"]
    explorer.hover(4, 6)
    expect(explorer.root.locator(".readout .second")).to_contain_text(
        "not in the vocabulary: the model sees <unk>"
    )


def test_the_badge_opens_the_checks_with_their_numbers(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    badge, checks = explorer.badge, explorer.checks
    assert explorer.says()["checks"] == "8/8"
    expect(badge).to_have_text("Checks: 8 of 8 passed")
    expect(badge).to_have_attribute("aria-expanded", "false")
    expect(explorer.root.locator(".checks")).to_be_hidden()
    badge.click()
    expect(badge).to_have_attribute("aria-expanded", "true")
    assert explorer.root.locator(f"#{badge.get_attribute('aria-controls')}").is_visible()
    lines = checks.get_by_role("listitem")
    shown = ["4.4 · 10⁻⁷", "2.3 · 10⁻⁷", *"000", "2.5 · 10⁻⁶", "3.0 · 10⁻⁸", "3.8 · 10⁻⁶"]
    limits = ["10⁻⁵", "10⁻⁵", *"000", "10⁻⁴", "10⁻⁵", "10⁻⁴"]
    figures = [text.replace("\u202f", " ") for text in lines.locator(".figure").all_inner_texts()]
    assert figures == shown
    assert lines.locator(".limit").all_inner_texts() == [f"limit {limit}" for limit in limits]
    assert lines.locator(".name").all_inner_texts() == [check.name for check in CHECKS]
    assert lines.locator(".words").all_inner_texts() == [check.words for check in CHECKS]
    assert lines.get_by_role("img", name="Passed:", exact=True).count() == 8
    badge.click()
    expect(checks).to_be_hidden()
    expect(badge).to_have_attribute("aria-expanded", "false")


def test_the_badge_by_keyboard(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    explorer.click(4, 5)
    explorer.badge.focus()
    local_page.keyboard.press("Enter")
    expect(explorer.checks).to_be_visible()
    explorer.head(1, 2)
    expect(explorer.checks).to_be_visible()
    local_page.keyboard.press("Escape")
    expect(explorer.root.locator(".checks")).to_be_hidden()
    expect(explorer.badge).to_have_attribute("aria-expanded", "false")
    explorer.leave()
    assert explorer.says()["query"] == "4", "Escape closed what lay on top, and only that"
    local_page.keyboard.press("Escape")
    assert explorer.says()["query"] == ""
    explorer.badge.focus()
    local_page.keyboard.press("Space")
    expect(explorer.checks).to_be_visible()


@pytest.mark.parametrize("failing", [0, 3, 7])
def test_a_failed_check_turns_the_badge_orange(local_page: Page, url: str, failing: int) -> None:
    explorer = Explorer(local_page, url, failing=failing)
    assert explorer.says()["checks"] == "7/8"
    expect(explorer.badge).to_have_text("Checks: 7 of 8 passed")
    orange = "rgb(179, 90, 0)"
    expect(explorer.badge).to_have_css("color", orange)
    explorer.badge.click()
    expect(explorer.map).to_be_visible()
    lines = explorer.checks.get_by_role("listitem")
    for index in range(len(CHECKS)):
        line = lines.nth(index)
        colour = orange if index == failing else "rgb(31, 35, 40)"
        for part in (".name", ".figure", "svg"):
            expect(line.locator(part)).to_have_css("color", colour)
        mark = "Failed:" if index == failing else "Passed:"
        expect(line.get_by_role("img", name=mark, exact=True)).to_have_count(1)
    expect(lines.nth(failing).locator(".figure")).to_have_text("0.31")


def test_the_verdict_stands_only_beside_the_weights_as_they_are(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    beside = explorer.root.locator("[data-part=not-checked]")
    quantity = explorer.root.get_by_role("combobox", name="Shown quantity")

    def verdict() -> tuple[bool, str]:
        return explorer.badge.is_visible(), beside.inner_text()

    passed, derived = (True, ""), (False, "derived, not checked")
    assert verdict() == passed
    explorer.badge.click()
    explorer.head(1, HEADS)
    assert verdict() == derived
    expect(explorer.root.locator(".checks")).to_be_hidden()
    explorer.head(DECODER_LAYERS, 1)
    assert verdict() == derived
    explorer.head(1, 1)
    assert verdict() == passed
    local_page.keyboard.press("w")
    assert verdict() == derived
    local_page.keyboard.press("w")
    for name, said in (
        ("scores", "not checked"),
        ("norms", "not checked"),
        ("rollout", derived[1]),
    ):
        quantity.select_option(name)
        expect(explorer.root).to_have_attribute("data-quantity", name)
        assert verdict() == (False, said)
    quantity.select_option("weights")
    assert explorer.says()["quantity"] == "weights"


@pytest.mark.parametrize(
    ("verdict", "said"),
    [("saved", "as saved, not checked here"), ("edited", "what-if, not checked")],
)
def test_a_foreign_verdict_is_not_repeated(
    local_page: Page, url: str, verdict: str, said: str
) -> None:
    explorer = Explorer(local_page, url, verdict=verdict)
    expect(explorer.badge).to_be_hidden()
    expect(explorer.root.locator("[data-part=not-checked]")).to_have_text(said)
    assert explorer.says()["checks"] == ""


def test_what_is_derived_from_failed_weights_says_so(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url, failing=2, head="mean")
    expect(explorer.badge).to_be_hidden()
    expect(explorer.root.locator("[data-part=not-checked]")).to_have_text(
        "the weights failed a check"
    )


def test_one_token_is_reached_by_tab(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    explorer.token("source", 4).click()
    local_page.keyboard.press("ArrowRight")
    stops = explorer.root.locator(".source .token[tabindex='0']")
    assert stops.evaluate_all("all => all.map(({dataset}) => dataset.index)") == ["5"]


@pytest.mark.parametrize("width", [1280, 390])
def test_opening_the_checks_moves_nothing(local_page: Page, url: str, width: int) -> None:
    local_page.set_viewport_size({"width": width, "height": 900})
    explorer = Explorer(local_page, url)
    boxes = """root => [root, ...root.querySelectorAll("button, canvas, p, h2")].map(part => {
        const box = part.getBoundingClientRect();
        return [box.x, box.y, box.width, box.height].join();
    })"""
    explorer.badge.scroll_into_view_if_needed()
    before = explorer.root.evaluate(boxes)
    explorer.badge.click()
    explorer.leave()
    expect(explorer.checks).to_be_visible()
    assert explorer.root.evaluate(boxes) == before
    panel, whole = explorer.checks.bounding_box(), explorer.root.bounding_box()
    assert panel["x"] >= whole["x"]
    assert panel["x"] + panel["width"] <= whole["x"] + whole["width"] + 1
    main = local_page.get_by_test_id("stMain")
    assert main.evaluate("main => main.scrollWidth - main.clientWidth") == 0


def test_switching_heads_does_not_move_the_map(local_page: Page, url: str) -> None:
    for width in (1280, 390):
        local_page.set_viewport_size({"width": width, "height": 900})
        explorer = Explorer(local_page, url)
        tops = set()
        for kind, head in (("cross", 0), ("cross", HEADS), ("decoder", HEADS)):
            explorer.kind(kind)
            explorer.head(0, head)
            tops.add(explorer.map.bounding_box()["y"] - explorer.root.bounding_box()["y"])
        assert len({round(top) for top in tops}) == 1


def test_a_phone_needs_no_sideways_scrolling(local_page: Page, url: str) -> None:
    local_page.set_viewport_size({"width": 390, "height": 844})
    explorer = Explorer(local_page, url, case="long")
    assert explorer.says()["width"] == "narrow"
    main = local_page.get_by_test_id("stMain")
    assert main.evaluate("main => main.scrollWidth - main.clientWidth") == 0


def test_a_dark_page_turns_the_scale_over(local_page: Page, url: str) -> None:
    local_page.emulate_media(color_scheme="dark")
    explorer = Explorer(local_page, url)
    assert explorer.says()["theme"] == "dark"
    ends = explorer.root.locator("[data-part=scale]").evaluate(
        """canvas => [0, 255].map(x => canvas.getContext("2d").getImageData(x, 0, 1, 1).data[0])"""
    )
    assert ends[0] < 60 < 200 < ends[1]
    local_page.emulate_media(color_scheme="light")
    expect(explorer.root).to_have_attribute("data-theme", "light")
