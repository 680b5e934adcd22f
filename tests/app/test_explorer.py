"""The explorer in a browser: pointer, keyboard, layout, links, requests to Python, files.

Its texts and pictures in each state are tested without a server: see test_explorer_text.py and
test_explorer_canvases.py and its neighbours.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from app.components.explorer.payload import payload
from core.kinds import KINDS
from tests.app.explorer_harness import (
    CHECKS,
    QUANTITIES,
    Record,
    synthetic_quantity,
    synthetic_record,
)
from tests.app.mounted import Mounted
from tests.app.test_navigation import expect_query, query

ROOT = Path(__file__).resolve().parents[2]
HARNESS = Path(__file__).with_name("explorer_harness.py")
LAYERS, HEADS, DECODER_LAYERS = 3, 4, 2
PAINTED = re.compile(r"\d+")
SVG = "{http://www.w3.org/2000/svg}"


class Explorer:
    """The mounted component, accessed by its visible controls and data attributes."""

    def __init__(self, page: Page, url: str, case: str = "short", **query: object) -> None:
        sizes = {"layers": LAYERS, "heads": HEADS, "decoder_layers": DECODER_LAYERS}
        page.goto(f"{url}/?{urlencode({'case': case, **sizes, **query})}")
        self.use(page)

    def use(self, page: Page) -> None:
        """Use the explorer of a page, once it is painted."""
        self.page = page
        self.press = page.keyboard.press
        self.root = page.locator("section[aria-label='Attention explorer']")
        self.map = self.root.locator("canvas[data-role=map]")
        self.badge = self.root.get_by_role("button", name="Pictures checked")
        self.checks = self.root.locator(".checks")
        self.quantity = self.part("quantity")
        expect(self.root).to_have_attribute("data-painted", PAINTED, timeout=30_000)

    def says(self, *names: str) -> dict[str, str]:
        data = self.root.evaluate("root => ({...root.dataset})")
        return {name: data[name] for name in names} if names else data

    def shows(self, **data: object) -> None:
        for name, value in data.items():
            expect(self.root).to_have_attribute(f"data-{name}", str(value))

    def part(self, name: str) -> Locator:
        return self.root.locator(f"[data-part={name}]")

    def text(self, part: str) -> str:
        return re.sub("[\u2068\u2069]", "", self.part(part).inner_text()).replace("\u00a0", " ")

    def button(self, name: str) -> Locator:
        return self.root.get_by_role("button", name=name, exact=True)

    @contextmanager
    def panel(self, button: str) -> Iterator[None]:
        """Open the panel of a button meanwhile."""
        self.part(button).click()
        expect(self.part(button)).to_have_attribute("aria-expanded", "true")
        yield
        self.part(button).click()

    def options(self) -> Any:
        return self.panel("options-button")

    def ask(self, quantity: str) -> None:
        with self.options():
            self.quantity.select_option(quantity)

    def choose(self, quantity: str) -> None:
        self.ask(quantity)
        self.shows(quantity=quantity)

    def order(self, sort: str) -> None:
        with self.options():
            self.root.get_by_role("combobox", name="Order of the heads").select_option(sort)

    def check(self, part: str) -> None:
        """Switch on an option."""
        with self.options():
            self.part(part).check()

    def kind(self, name: str) -> None:
        self.root.locator(f"[data-kind-option={name}]").click()
        self.shows(kind=name)

    def head(self, layer: int, head: int) -> None:
        self.root.locator(f".thumbnail[data-l='{layer}'][data-h='{head}']").click()

    def point(self, query: int, key: int) -> dict[str, float]:
        self.map.scroll_into_view_if_needed()
        left, top, cell = self.map.evaluate("({dataset: d}) => [d.left, d.top, d.cell].map(Number)")
        return {"x": left + (key + 0.5) * cell, "y": top + (query + 0.5) * cell}

    def hover(self, query: int, key: int) -> dict[str, str]:
        self.map.hover(position=self.point(query, key))
        return self.says()

    def click(self, query: int, key: int) -> None:
        self.map.click(position=self.point(query, key))

    def leave(self) -> None:
        self.page.mouse.move(5, 5)

    def token(self, side: str, index: int) -> Locator:
        return self.root.locator(f".{side} .token[data-index='{index}']")

    def saved(self, name: str) -> tuple[str, bytes]:
        """Return the name and content of the file that a button saves."""
        with self.panel("save-button"), self.page.expect_download() as download:
            self.button(name).click()
        return download.value.suggested_filename, Path(download.value.path()).read_bytes()

    def table(self) -> list[list[str]]:
        _, content = self.saved("Save this map as CSV")
        return list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))


@pytest.fixture(scope="module")
def empty(visits: BrowserContext) -> Iterator[Mounted]:
    """An empty page to mount explorers in, with room around them."""
    page = visits.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    mounted = Mounted(page)
    page.add_style_tag(content="#host { margin: 40px; }")
    yield mounted
    page.close()
    assert errors == []


@pytest.fixture
def alone(empty: Mounted) -> Callable[..., Explorer]:
    """Return a function that mounts an explorer of a record without a server."""

    def alone(record: Record | None = None, **more: Any) -> Explorer:
        record = record or synthetic_record("short", LAYERS, HEADS, DECODER_LAYERS)
        empty.page.mouse.move(5, 5)
        empty.show(payload(record, {"kind": "cross", "layer": 0, "head": 0}, **more))
        explorer = Explorer.__new__(Explorer)
        explorer.use(empty.page)
        return explorer

    return alone


@pytest.fixture
def url(serve: Callable[[Path], str]) -> str:
    return serve(HARNESS)


@pytest.fixture
def record() -> Record:
    return synthetic_record("short", LAYERS, HEADS, DECODER_LAYERS)


def assert_cell(said: dict[str, str], query: int, key: int, weight: float) -> None:
    assert (said["query"], said["key"]) == (str(query), str(key))
    # The page shows four decimals. Weights of longer records are sent as 16-bit integers.
    assert float(said["weight"]) == pytest.approx(weight, abs=0.00005 + 1 / 65535)


# Pointer and keyboard.


def test_hover_previews_and_click_pins(alone) -> None:
    explorer = alone()
    unpin = explorer.root.get_by_role("button", name="Unpin")

    def pinned() -> tuple[str, str]:
        explorer.leave()
        expect(explorer.root.locator(".token.looked-at")).to_have_count(0)
        said = explorer.says()
        return said["query"], said["key"]

    explorer.token("target", 5).hover()
    assert explorer.says("query", "key", "step") == {"query": "4", "key": "", "step": "4"}
    assert pinned() == ("", "")
    explorer.token("target", 0).hover()
    assert "no step produces it" in explorer.text("readout-first")
    explorer.click(4, 5)
    assert pinned() == ("4", "5")
    assert explorer.hover(2, 2)["query"] == "2", "hover previews while a cell is pinned"
    expect(explorer.token("target", 5)).to_have_class(re.compile("pinned-behind"))
    assert pinned() == ("4", "5")
    explorer.click(4, 5)
    assert pinned() == ("", "")
    explorer.click(4, 5)
    explorer.press("Escape")
    assert pinned() == ("", "")
    explorer.token("target", 5).click()
    assert pinned() == ("4", "")
    unpin.click()
    assert pinned() == ("", "")
    expect(unpin).to_be_hidden()


def tab_to_the_map(explorer: Explorer) -> list[dict]:
    """Press Tab until the map has focus; return the positions of all focused elements."""
    positions = []
    for _ in range(20):
        explorer.press("Tab")
        positions.append(
            explorer.root.evaluate(
                """root => {
                    const box = root.getRootNode().activeElement.getBoundingClientRect();
                    return {x: box.x, y: box.y - root.getBoundingClientRect().y};
                }"""
            )
        )
        if explorer.map.evaluate("map => map.matches(':focus')"):
            return positions
    raise AssertionError("Tab does not lead to the map")


def test_the_keyboard_reaches_heads_tokens_and_map(alone, record: Record) -> None:
    explorer = alone()
    press = explorer.press
    explorer.token("source", 0).focus()
    press("1")
    explorer.shows(kind="encoder")
    press("ArrowRight")
    press("ArrowRight")
    assert explorer.says()["query"] == "2"
    stops = explorer.root.locator(".source .token[tabindex='0']")
    assert stops.evaluate_all("all => all.map(({dataset}) => dataset.index)") == ["2"]
    press("Enter")
    expect(explorer.token("source", 2)).to_have_class(re.compile(r"\bpinned\b"))
    press("3")
    explorer.shows(kind="cross")

    explorer.root.locator(".thumbnail[aria-pressed=true]").focus()
    press("ArrowDown")
    press("ArrowRight")
    assert explorer.says("layer", "head") == {"layer": "1", "head": "1"}
    press("ArrowDown")
    assert explorer.says()["layer"] == "mean", "the row after the last layer combines all"
    press("ArrowDown")
    assert explorer.says()["layer"] == "0", "and then it wraps around"

    stops = tab_to_the_map(explorer)
    assert len(stops) > 4
    for one, other in pairwise(stops):  # in reading order
        beside = abs(one["y"] - other["y"]) < 12
        assert other["x"] > one["x"] if beside else other["y"] > one["y"], (one, other)
    assert_cell(explorer.says(), 0, 0, float(record.cross[0, 1, 0, 0]))
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        press(key)
    assert_cell(explorer.says(), 2, 1, float(record.cross[0, 1, 2, 1]))
    press("Space")
    press("ArrowRight")
    assert explorer.says()["key"] == "2"
    explorer.map.evaluate("canvas => canvas.blur()")
    assert explorer.says("query", "key") == {"query": "2", "key": "1"}
    press("Escape")
    assert explorer.says()["query"] == ""


def test_only_keys_and_pins_are_announced(alone) -> None:
    explorer = alone()
    spoken = explorer.root.locator("[aria-live=polite]")
    expect(spoken).to_have_count(1)
    explorer.hover(2, 2)
    explorer.token("source", 1).hover()
    explorer.root.locator(".thumbnail").nth(1).hover()
    explorer.root.get_by_role("button", name="Next step").hover()
    expect(spoken).to_be_empty()
    explorer.click(4, 5)
    expect(spoken).to_contain_text(re.compile("While writing .red., head 1 of layer 1 gives"))
    explorer.press("Escape")
    expect(spoken).to_contain_text("On average")
    explorer.map.focus()
    explorer.press("ArrowDown")
    explorer.press("ArrowDown")
    first = spoken.text_content()
    explorer.press("ArrowRight")
    assert spoken.text_content() not in ("", first)
    explorer.press("2")
    expect(spoken).to_contain_text("English looks back at English")
    explorer.root.get_by_role("button", name="Play the steps").click()
    before, step = spoken.text_content(), explorer.says()["step"]
    expect(explorer.root).not_to_have_attribute("data-step", step, timeout=5_000)
    assert spoken.text_content() == before


def test_every_key_is_listed_and_every_control_named(alone) -> None:
    explorer = alone()
    explorer.button("Lines").click()
    nameless = explorer.root.evaluate(
        """root => [...root.querySelectorAll("button, select, input, canvas[tabindex]")].filter(
            part => part.checkVisibility({visibilityProperty: true}) && !(part.ariaLabel
                || part.textContent.trim() || part.labels?.length)).map(part => part.outerHTML)"""
    )
    assert nameless == []
    script = (ROOT / "app/components/explorer/keyboard.js").read_text(encoding="utf-8")
    table = script[script.index("ROOT_KEYS = {") : script.index("};", script.index("ROOT_KEYS"))]
    keys = {a or b for a, b in re.findall(r'^  (?:"(.)"|(\w)):', table, re.MULTILINE)}
    assert len(keys) > 10
    listed = explorer.part("keys")
    expect(listed).to_be_hidden()
    explorer.token("source", 0).focus()
    explorer.press("?")
    expect(listed).to_be_visible()
    named = set("".join(listed.locator("dt").all_text_contents()).replace("−", "-"))
    assert keys <= named, keys - named
    explorer.press("Escape")
    expect(listed).to_be_hidden()


def test_lines_follow_pointer_and_arrows(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    explorer.button("Lines").click()
    explorer.root.get_by_role("slider", name="Share of each row").fill("95")
    assert explorer.text("mass-value") == "95 %"
    expect_query(local_page, view="lines", mass="95")
    explorer.map.hover(position={"x": explorer.map.bounding_box()["width"] - 100, "y": 100})
    said = explorer.says()
    assert said["query"] != "" and said["key"] == ""
    expect(explorer.token("target", int(said["query"]) + 1)).to_have_class(re.compile("looked-at"))
    explorer.leave()
    explorer.press("m")
    explorer.map.focus()
    explorer.press("l")
    explorer.press("ArrowDown")
    explorer.press("ArrowDown")
    assert explorer.says()["query"] == "1"


def test_steps_can_be_played(alone, record: Record) -> None:
    explorer = alone()
    last = len(record.target_out) - 1
    steps = explorer.root.get_by_role("slider", name="Decoding step")
    explorer.shows(step=last)
    steps.fill("4")
    explorer.shows(step=3, query=3)
    assert steps.get_attribute("aria-valuetext").startswith("step 4 of 12")
    greyed = explorer.root.locator(".target .token.masked")
    expect(greyed).to_have_count(last - 3)
    explorer.root.get_by_role("button", name="Next step").click()
    explorer.shows(step=4)
    explorer.press(",")
    explorer.shows(step=3)
    explorer.kind("encoder")
    explorer.press(".")
    explorer.shows(step=4, query="")
    steps.fill(str(last))
    explorer.root.get_by_role("button", name="Play the steps").click()
    expect(explorer.root.get_by_role("button", name="Pause")).to_be_visible()
    explorer.shows(step=last)
    expect(explorer.root.get_by_role("button", name="Play the steps")).to_be_visible()
    explorer.press("Escape")
    expect(greyed).to_have_count(0)


def test_a_key_undoes_every_choice(alone) -> None:
    explorer = alone()
    names = ("kind", "view", "unit", "query", "key", "layer", "head")
    seen = [explorer.says(*names)]
    explorer.root.focus()
    for change in (
        *(lambda key=key: explorer.press(key) for key in "2lwm"),
        lambda: explorer.click(3, 1),
        lambda: explorer.head(1, 2),
    ):
        change()
        seen.append(explorer.says(*names))
    explorer.page.mouse.move(0, 0)
    for before in [*seen[-2::-1], seen[0]]:
        explorer.press("u")
        assert explorer.says(*names) == before


def test_a_large_map_can_be_enlarged(alone) -> None:
    record = synthetic_record("long", 1, 2)
    explorer = alone(record)
    mouse = explorer.page.mouse

    def first() -> tuple[int, int]:
        return tuple(int(explorer.map.get_attribute(f"data-first-{a}")) for a in ("query", "key"))

    def cell() -> float:
        return float(explorer.map.get_attribute("data-cell"))

    small, height = cell(), explorer.map.bounding_box()["height"]
    for _ in range(2):
        explorer.root.get_by_role("button", name="Zoom in").click()
    assert cell() > 1.8 * small
    assert explorer.map.bounding_box()["height"] <= height + 20
    query, key = first()
    assert query > 0 and key > 0
    weight = record.cross[0, 0, query + 2, key + 3]
    assert_cell(explorer.hover(2, 3), query + 2, key + 3, float(weight))
    # Dragging pans and does not pin.
    at, box = explorer.point(6, 6), explorer.map.bounding_box()
    x, y = box["x"] + at["x"], box["y"] + at["y"]
    mouse.move(x, y)
    mouse.down()
    mouse.move(x + 3 * cell(), y + 2 * cell(), steps=4)
    mouse.up()
    assert first() == (query - 2, key - 3)
    pinned = explorer.root.get_by_role("button", name="Unpin")
    expect(pinned).to_be_hidden()
    # A cancelled drag no longer pans, and the next click pins.
    mouse.down()
    explorer.map.dispatch_event("pointercancel")
    mouse.move(x, y, steps=4)
    mouse.up()
    assert first() == (query - 2, key - 3)
    explorer.press("Escape")
    explorer.click(1, 1)
    expect(pinned).to_be_visible()
    explorer.press("Escape")
    explorer.leave()
    explorer.map.focus()
    for _ in range(3):
        explorer.press("ArrowUp")  # scrolls the map, too
    assert first()[0] == 0
    for _ in range(4):
        explorer.press("-")
    assert cell() == small


# Layout.

BOXES = """root => [
    root, ...root.querySelectorAll(":is(button, canvas, p, h2):not(details *)")
].map(part => {
    const box = part.getBoundingClientRect();
    return [box.x, box.y, box.width, box.height].map(Math.round).join();
})"""


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_moves_what_is_beside_or_below(local_page: Page, url: str, width: int) -> None:
    local_page.set_viewport_size({"width": width, "height": 900})
    explorer = Explorer(local_page, url)
    explorer.badge.scroll_into_view_if_needed()
    explorer.leave()
    before = explorer.root.evaluate(BOXES)
    explorer.badge.click()
    explorer.leave()
    expect(explorer.checks).to_be_visible()
    assert explorer.root.evaluate(BOXES) == before, "the checks are an overlay"
    panel, whole = explorer.checks.bounding_box(), explorer.root.bounding_box()
    assert whole["x"] <= panel["x"]
    assert panel["x"] + panel["width"] <= whole["x"] + whole["width"] + 1
    explorer.press("Escape")
    explorer.check("means")
    tops, heights = set(), []
    for kind, head in (("encoder", 1), ("cross", 0), ("cross", HEADS), ("decoder", HEADS)):
        explorer.kind(kind)
        explorer.head(0, head)
        explorer.hover(1, 1)
        tops.add(round(explorer.map.bounding_box()["y"] - explorer.root.bounding_box()["y"]))
        heights.append(round(explorer.root.bounding_box()["height"]))
    for key in "ww.":
        explorer.root.press(key)
        heights.append(round(explorer.root.bounding_box()["height"]))
    assert len(tops) == len(set(heights)) == 1, (tops, heights)
    main = local_page.get_by_test_id("stMain")
    assert main.evaluate("main => main.scrollWidth - main.clientWidth") == 0


def test_a_long_sentence_fits_a_phone(local_page: Page, url: str) -> None:
    local_page.set_viewport_size({"width": 390, "height": 844})
    explorer = Explorer(local_page, url, case="long", layers=1, heads=2, decoder_layers=1)
    explorer.shows(width="narrow")
    main = local_page.get_by_test_id("stMain")
    assert main.evaluate("main => main.scrollWidth - main.clientWidth") == 0
    before = explorer.part("map-place").bounding_box()["height"]
    explorer.button("Lines").click()
    explorer.shows(view="lines")
    assert explorer.part("map-place").bounding_box()["height"] == before
    explorer.map.hover(position={"x": explorer.map.bounding_box()["width"] - 60, "y": 200})
    assert explorer.says()["query"] != "", "tokens without a label can be hovered as well"


def test_the_cached_overview_is_never_stale(alone) -> None:
    """Switching the kind and back restores the overview; a fresh page draws the same one."""
    explorer = alone()

    def pixels() -> str:
        explorer.leave()
        return explorer.root.locator("canvas.overview-maps").evaluate("at => at.toDataURL()")

    def maximum() -> None:
        with explorer.options():
            explorer.button("Maximum").click()

    changes = (
        lambda: explorer.check("hide-eos"),
        lambda: explorer.order("spread"),
        maximum,
        lambda: explorer.button("Words").click(),
        lambda: explorer.token("target", 3).click(),
    )
    for change in changes:
        earlier = pixels()
        change()
        changed = pixels()
        assert changed != earlier
        explorer.kind("decoder")
        assert pixels() != changed
        explorer.kind("cross")
        assert pixels() == changed
    explorer = alone()
    for change in changes:
        change()
    assert pixels() == changed


# Sentences and links.


def test_a_new_sentence_keeps_the_head_and_drops_the_cell(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    explorer.kind("decoder")
    explorer.head(1, 2)
    explorer.click(4, 2)
    before = explorer.says()
    local_page.get_by_text("Another sentence").click()
    other = synthetic_record("other", LAYERS, HEADS, DECODER_LAYERS)
    explorer.shows(sentence=other.id)
    explorer.leave()
    explorer.shows(kind="decoder", layer=1, head=2, query="", key="", weight="")
    assert int(explorer.says()["painted"]) > int(before["painted"])
    assert_cell(explorer.hover(5, 3), 5, 3, float(other.decoder[1, 2, 5, 3]))
    local_page.wait_for_function("() => !new URLSearchParams(location.search).has('q')")


def test_the_address_holds_the_view_beside_other_parameters(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    entries = local_page.evaluate("history.length")
    explorer.kind("encoder")
    explorer.head(2, 3)
    expect_query(local_page, kind="encoder", layer="2", head="3", case="short")
    local_page.evaluate(
        "history.replaceState({}, '', `${location.pathname}${location.search}&other=two`)"
    )
    explorer.head(1, 0)
    expect_query(local_page, kind="encoder", layer="1", head="0", other="two")
    local_page.get_by_role("button", name="Run again").click()
    expect(local_page.get_by_text("run again: True")).to_be_visible()
    expect_query(local_page, kind="encoder", layer="1", head="0", other="two")
    assert local_page.evaluate("history.length") == entries, "a view adds no history entry"
    explorer.check("hide-eos")
    explorer.order("spread")
    explorer.button("Words").click()
    explorer.token("source", 8).click()
    explorer.button("Lines").click()
    explorer.leave()
    wanted = {"view": "lines", "words": "1", "hide": "eos", "sort": "spread", "layer": "1"}
    expect_query(local_page, kind="encoder", q=explorer.says()["query"], **wanted)
    names = ("kind", "layer", "head", "view", "unit", "hide", "sort", "query", "key", "step")
    before = explorer.says(*names)
    local_page.reload()
    explorer.use(local_page)
    assert explorer.says(*names) == before
    assert query(local_page)["other"] == "two"


def test_hostile_and_unknown_words_are_shown_as_text(alone, empty: Mounted) -> None:
    record = synthetic_record("hostile")
    explorer = alone(record)
    for kind in ("encoder", "decoder", "cross"):
        explorer.kind(kind)
        explorer.hover(0, 0)
        explorer.click(1, 1)
    assert explorer.root.locator("img, script, a:not(.inside), s, iframe, .token b").count() == 0
    assert explorer.token("source", 0).inner_text() == "<img src=x onerror=alert(1)>"
    assert explorer.token("target", 1).inner_text() == "<script>alert(2)</script>"
    assert explorer.token("source", 2).inner_text() == "$x$"
    assert explorer.root.locator(".source .token").count() == len(record.source)
    marks = explorer.root.locator(".source .hidden-mark").all_inner_texts()
    assert marks == [f"\u2039U+{code}\u203a" for code in ("200B", "00AD", "202E", "00A0")]
    astronaut = next(i for i, token in enumerate(record.source) if "\u200d" in token.text)
    assert explorer.token("source", astronaut).inner_text() == record.source[astronaut].text
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert empty.page.evaluate(overflow) == 0
    cells = [cell for row in csv.reader(io.StringIO(empty.saves("map-csv"))) for cell in row]
    assert any("onerror" in cell for cell in cells)
    assert not any(cell[:1] in "=+-@" for cell in cells if cell), "no spreadsheet formula"
    tags = {element.tag for element in ElementTree.fromstring(empty.saves("map-svg")).iter()}
    assert not {f"{SVG}script", f"{SVG}img"} & tags
    explorer = alone(synthetic_record("unknown"))
    assert explorer.root.locator(".form.unknown").all_inner_texts() == ["Ł", "ó", "ź"]
    assert explorer.root.locator(".form.blank").all_inner_texts() == ["\u2423"]


# The checks.


def test_the_badge_opens_the_checks_with_their_numbers(alone) -> None:
    explorer = alone()
    badge, checks = explorer.badge, explorer.checks
    explorer.shows(checks="8/8")
    expect(badge).to_have_text("Pictures checked: 8 of 8")
    expect(badge).to_have_attribute("aria-expanded", "false")
    expect(checks).to_be_hidden()
    explorer.click(4, 5)
    badge.focus()
    explorer.press("Enter")
    expect(badge).to_have_attribute("aria-expanded", "true")
    expect(explorer.root.locator(f"#{badge.get_attribute('aria-controls')}")).to_be_visible()
    lines = checks.get_by_role("listitem")
    shown = ["4.4 · 10⁻⁷", "2.3 · 10⁻⁷", *"000", "2.5 · 10⁻⁶", "3.0 · 10⁻⁸", "3.8 · 10⁻⁶"]
    limits = ["10⁻⁵", "10⁻⁵", *"000", "10⁻⁴", "10⁻⁵", "10⁻⁴"]
    figures = [text.replace("\u202f", " ") for text in lines.locator(".figure").all_inner_texts()]
    assert figures == shown
    assert lines.locator(".limit").all_inner_texts() == [f"limit {limit}" for limit in limits]
    assert lines.locator(".name").all_inner_texts() == [check.name for check in CHECKS]
    assert lines.locator(".words").all_inner_texts() == [check.words for check in CHECKS]
    assert lines.get_by_role("img", name="Passed:", exact=True).count() == 8
    explorer.head(1, 2)
    expect(checks).to_be_visible()
    explorer.press("Escape")
    expect(checks).to_be_hidden()
    expect(badge).to_have_attribute("aria-expanded", "false")
    explorer.leave()
    assert explorer.says()["query"] == "4", "Escape closes only the panel"
    explorer.press("Escape")
    assert explorer.says()["query"] == ""


def test_a_failed_check_turns_the_badge_orange(alone) -> None:
    failing, orange = 3, "rgb(179, 90, 0)"
    checks = [
        replace(check, figure=0.31) if i == failing else check for i, check in enumerate(CHECKS)
    ]
    record = synthetic_record("short", LAYERS, HEADS, DECODER_LAYERS)
    explorer = alone(replace(record, checks=tuple(checks)))
    explorer.shows(checks="7/8")
    expect(explorer.badge).to_have_text("Pictures checked: 7 of 8")
    expect(explorer.badge).to_have_css("color", orange)
    explorer.badge.click()
    lines = explorer.checks.get_by_role("listitem")
    for index in range(len(CHECKS)):
        line, failed = lines.nth(index), index == failing
        for part in (".name", ".figure", "svg"):
            expect(line.locator(part)).to_have_css("color", orange if failed else "rgb(31, 35, 40)")
        mark = line.get_by_role("img", name="Failed:" if failed else "Passed:", exact=True)
        expect(mark).to_have_count(1)
    expect(lines.nth(failing).locator(".figure")).to_have_text("0.31")
    explorer.head(1, HEADS)
    expect(explorer.part("not-checked")).to_have_text("the weights failed a check")


def test_only_the_records_own_weights_have_a_verdict(alone, record: Record) -> None:
    explorer = alone(quantities={name: synthetic_quantity(record, name) for name in QUANTITIES})

    def verdict() -> tuple[bool, str]:
        return explorer.badge.is_visible(), explorer.text("not-checked")

    passed, derived = (True, ""), (False, "derived, not checked")
    assert verdict() == passed
    explorer.badge.click()
    explorer.root.locator(f".thumbnail[data-l='1'][data-h='{HEADS}']").dispatch_event("click")
    assert verdict() == derived
    expect(explorer.checks).to_be_hidden()
    explorer.head(DECODER_LAYERS, 1)
    assert verdict() == derived
    explorer.head(1, 1)
    assert verdict() == passed
    explorer.press("w")
    assert verdict() == derived
    explorer.press("w")
    for name, said in (
        ("scores", "not checked"),
        ("norms", "not checked"),
        ("rollout", derived[1]),
    ):
        explorer.choose(name)
        assert verdict() == (False, said)
    for checked_, said in (
        ("elsewhere", "saved maps: not checked here"),
        ("never", "what-if, not checked"),
    ):
        explorer = alone(checked=checked_)
        assert verdict() == (False, said) and explorer.says()["checks"] == ""


# Requests to Python, and files.


def test_a_quantity_is_requested_once_and_keeps_the_head(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url, layer=1, head=2)
    server = local_page.get_by_text("asked for")
    explorer.choose("rollout")
    expect(server).to_have_text("asked for rollout")
    explorer.shows(head="mean")
    expect_query(local_page, quantity="rollout", head="2")
    explorer.kind("encoder")
    explorer.ask("weights")
    assert explorer.says("quantity", "layer", "head") == {
        "quantity": "weights",
        "layer": "1",
        "head": "2",
    }
    local_page.wait_for_timeout(300)
    expect(server).to_have_text("asked for rollout")
    explorer.ask("rollout")
    assert explorer.says()["quantity"] == "rollout", "the browser has it already"
    explorer.ask("weights")
    # The next sentence tells Python that rollout is no longer wanted.
    local_page.get_by_text("Another sentence").click()
    expect(server).to_have_text("asked for weights")


def test_a_quantity_that_is_not_offered_or_fails_leaves_the_weights(
    local_page: Page, url: str
) -> None:
    explorer = Explorer(local_page, url, offered="rollout", quantity="scores")
    assert explorer.quantity.locator("option").all_text_contents() == ["weights", "rollout"]
    explorer.shows(quantity="weights")
    expect(explorer.root.locator(".waiting")).to_have_count(0)
    explorer = Explorer(local_page, url, broken="norms", head=1)
    for _ in range(2):  # choosing it again fails in the same way
        explorer.ask("norms")
        expect(explorer.part("request-note")).to_have_text(
            "The norms could not be computed: out of memory"
        )
        expect(explorer.root.locator(".waiting")).to_have_count(0)
        expect(explorer.quantity).to_have_value("weights")
        explorer.shows(quantity="weights", head=1)
    explorer.choose("scores")
    expect(explorer.part("request-note")).to_have_text("")


def test_a_pinned_cell_and_the_csv_have_exact_numbers(local_page: Page, url: str) -> None:
    record = synthetic_record("long", 6, 8)
    explorer = Explorer(local_page, url, case="long", layers=6, heads=8, decoder_layers=6, head=3)
    key = int(record.cross[0, 3, 7].argmax())
    explorer.hover(7, key)
    assert re.match(r"0\.\d\d ± 0\.01\s", explorer.text("readout-second"))
    explorer.click(7, key)
    exact = f"{record.cross[0, 3, 7, key]:.4f}"
    explorer.shows(weight=exact)
    assert explorer.text("readout-second").startswith(f"{exact}\u2002")
    # Another head of the pinned cell, and all heads combined.
    explorer.head(2, 5)
    explorer.shows(weight=f"{record.cross[2, 5, 7, key]:.4f}")
    explorer.check("means")
    explorer.head(2, 8)
    explorer.shows(weight=f"{record.cross[2, :, 7, key].mean(dtype=np.float64):.4f}")
    explorer.kind("encoder")
    explorer.head(4, 1)
    numbers = [row[1:] for row in explorer.table()[1:]]
    assert np.array_equal(np.array(numbers, np.float32), record.encoder[4, 1])


def test_an_answer_does_not_carry_the_maps_again(local_page: Page, url: str) -> None:
    """The server sends the requested numbers, and little else."""
    frames: list[int] = []
    local_page.on(
        "websocket",
        lambda socket: socket.on("framereceived", lambda data: frames.append(len(data))),
    )
    record = synthetic_record("long", 6, 8)
    explorer = Explorer(local_page, url, case="long", layers=6, heads=8, decoder_layers=6, head=3)
    assert max(frames) > 400_000, "the maps, once"
    one_map = 4 * record.cross[0, 0].size
    all_scores = 2 * sum(
        getattr(record, kind)[..., getattr(record, f"{kind}_mask")].size for kind in KINDS
    )
    for act, size in (
        (lambda: explorer.click(7, 3), one_map),
        (lambda: explorer.head(2, 5), one_map),
        (lambda: explorer.choose("scores"), all_scores + one_map),
        (lambda: explorer.head(3, 1), one_map),
        (lambda: local_page.get_by_text("Run again").first.click(), 0),
        (lambda: explorer.saved("Save this view as an offline page"), None),
    ):
        frames.clear()
        act()
        for _ in range(100):  # the answer may take a while; then nothing more may come
            if sum(frames) >= (size or 0):
                break
            local_page.wait_for_timeout(200)
        local_page.wait_for_timeout(700)
        if size is None:
            assert sum(frame > 1_000_000 for frame in frames) == 1, "a page is sent once"
        else:
            assert size <= sum(frames) < size + 8_000
    expect(explorer.part("request-note")).to_have_text("")
    place = local_page.locator("[data-testid=stLayoutWrapper]:has(> .st-key-answers_explorer)")
    expect(place).to_have_count(1)
    expect(place).to_be_hidden()


def test_the_saved_page_opens_with_the_current_view(
    local_page: Page, url: str, record: Record, tmp_path: Path
) -> None:
    explorer = Explorer(local_page, url, kind="decoder", layer=1, head=2)
    explorer.click(5, 3)
    explorer.press("l")
    explorer.check("hide-eos")
    names = ("kind", "layer", "head", "view", "unit", "hide", "query", "key", "weight", "quantity")
    explorer.choose("scores")
    explorer.leave()
    before = explorer.says(*names)
    name, content = explorer.saved("Save this view as an offline page")
    assert name == f"headlight-{record.id}.html"
    file = tmp_path / name
    file.write_bytes(content)
    page = local_page.context.browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(file.as_uri())  # `local_page` may open only the server
    explorer.use(page)
    assert explorer.says(*names) == before
    for other in ("norms", "rollout", "weights"):
        explorer.ask(other)
        assert explorer.says()["quantity"] == other, "the file holds all quantities"
    explorer.shows(head=2)
    expect(explorer.part("not-checked")).to_have_text("saved maps: not checked here")
    for button in ("Copy link", "Page"):
        expect(explorer.button(button)).to_have_count(0)
    page.close()


def test_pictures_and_numbers_can_be_saved(local_page: Page, url: str, record: Record) -> None:
    explorer = Explorer(local_page, url, layer=1, head=2, kind="decoder")
    explorer.click(4, 2)
    about = ("Layer 2, head 3", record.model, record.weights_sha256[:8], record.id, record.search)
    about += ("German to English", record.source_text, record.translation)
    about += ("32-bit numbers as recorded",)
    header = explorer.table()[0][0]
    name, content = explorer.saved("Save this picture as SVG")
    assert name == "headlight_decoder_layer2_head3.svg"
    picture = ElementTree.fromstring(content)
    description = picture.find(f"{SVG}title").text + picture.find(f"{SVG}desc").text
    for words in about:
        assert words in header and words in description, words
    for what in ("this picture", "the overview"):
        name, content = explorer.saved(f"Save {what} as PNG")
        assert content.startswith(b"\x89PNG") and name.endswith(".png") and len(content) > 5_000
    explorer.order("spread")
    name, content = explorer.saved("Save the overview as SVG")
    assert name == "headlight_decoder_overview.svg"
    captions = [element.text for element in ElementTree.fromstring(content).iter(f"{SVG}text")]
    assert {"0", "1"} <= set(captions)  # the colour scale's ends
    heads = [f"{layer + 1}.{head + 1}" for layer, head in np.ndindex(DECODER_LAYERS, HEADS)]
    assert sorted(c for c in captions if re.fullmatch(r"[1-9]\.\d\b(?! b).*", c)) == heads
    explorer.order("layer")
    explorer.check("means")
    explorer.head(1, HEADS)
    assert "derived, the mean of 4 heads, from 32-bit numbers" in explorer.table()[0][0]
    explorer.button("Lines").click()
    name, content = explorer.saved("Save this picture as SVG")
    assert name == "headlight_decoder_layer2_mean-of-heads_lines.svg" and b"<path" in content
