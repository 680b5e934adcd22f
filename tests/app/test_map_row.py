"""The map row sends its arrays unchanged, and the browser shows, reads out and saves them."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from app.components.assets import joined, palette, read
from app.components.explorer.payload import pack
from app.components.map_row.payload import Difference, Map, MapRow, payload
from app.look.labels import label, labels
from app.look.numbers import scientific
from tests.app.map_row_harness import HEADS, LAYERS, scores_row, weights_row
from tests.app.mounted import plain

HARNESS = Path(__file__).with_name("map_row_harness.py")
FOLDER = Path(__file__).parents[2] / "app/components/map_row"
SCRIPT = joined(FOLDER / "main.js")


def maps_of(row: MapRow) -> list[Map]:
    return [drawn for drawn in row.maps if isinstance(drawn, Map)]


def fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


# What is sent.


@pytest.mark.parametrize("row", [weights_row(), scores_row()], ids=["weights", "scores"])
def test_a_payload_has_the_arrays_without_masked_cells(row: MapRow) -> None:
    data, mask = payload(row), np.ones((8, 8), bool) if row.mask is None else row.mask
    bits = np.unpackbits(np.frombuffer(data["mask"], np.uint8), count=64).reshape(8, 8)
    assert np.array_equal(bits, mask)
    for index, drawn in enumerate(maps_of(row)):
        sent = np.frombuffer(data[f"values_{index}"], "<f4").reshape(drawn.values.shape)
        assert np.array_equal(sent, np.where(mask, drawn.values, 0).astype(np.float32))


def test_a_payload_describes_maps_and_tokens() -> None:
    data = payload(weights_row())
    assert (data["layers"], data["heads"]) == ([0, 1], HEADS)
    assert data["maps"][2]["minus"] == [1, 0] and "values_2" not in data
    assert [map["limits"] for map in data["maps"]] == [None, None, [[1.0] * HEADS] * LAYERS]
    assert [map["limits"] for map in payload(scores_row())["maps"]] == [[[6.0, 7.0, 8.0]]] * 2
    token = data["queries"]["tokens"][6]
    assert (token["text"], token["number"]) == ("a\u200bb", 7)


def test_invalid_rows_are_rejected() -> None:
    row = scores_row()
    first, second = maps_of(row)
    broken = first.values.copy()
    broken[0, 1, 2, 5] = np.nan  # masked, so not shown
    payload(replace(row, maps=[replace(first, values=broken)]))
    broken[0, 1, 5, 2] = np.nan
    for changes, words in (
        ({"maps": [replace(first, values=broken)]}, "Part contains a value outside its scale"),
        ({"maps": [replace(first, values=first.values * 9)]}, "Part contains"),
        ({"maps": [first, replace(second, values=second.values[:, :2])]}, "The score is"),
        ({"maps": [first, Difference("D", "d", 0, 1)]}, "D is a difference of maps that the row"),
        ({"maps": []}, "a row needs at least one map"),
        ({"mask": np.ones((8, 7), bool)}, "the mask is"),
        ({"maps": [replace(first, mask=np.ones((8, 7), bool))]}, "the mask of Part is"),
        ({"keys": replace(row.keys, numbers=range(7))}, "8 tokens have 7 numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            payload(replace(row, **changes))


# What it says and saves, without a server.

MOUNT = f"""([text, acts]) => {{
{SCRIPT}
  const saved = [];
  URL.createObjectURL = (blob) => {{ saved.push(blob); return "#saved"; }};
  render({{
    data: Uint8Array.from(atob(text), (character) => character.charCodeAt(0)),
    parentElement: document.body, key: "row",
  }});
  const root = document.querySelector(".map-row");
  for (const [name, ...more] of acts) {{
    const radio = `[name$="${{more[0]}}"][value="${{more[1]}}"]`;
    if (name === "choose") root.querySelector(radio).click();
    if (name === "over") {{
      const canvas = root.querySelector("canvas");
      const {{ left, top, cell }} = canvas.dataset;
      const box = canvas.getBoundingClientRect();
      canvas.dispatchEvent(new PointerEvent("pointermove", {{
        clientX: box.left + Number(left) + (more[1] + 0.5) * cell,
        clientY: box.top + Number(top) + (more[0] + 0.5) * cell, bubbles: true,
      }}));
    }}
  }}
  for (const ending of ["csv", "svg"]) root.querySelector(`[data-part=${{ending}}]`).click();
  const texts = (selector) => [...root.querySelectorAll(selector)].map((part) => part.textContent);
  const decoder = new TextDecoder("utf-8", {{ ignoreBOM: true }});
  return Promise.all(saved.map((blob) => blob.arrayBuffer())).then((files) => ({{
    title: texts("[data-part=title]")[0], readout: texts("[data-part=readout]")[0],
    names: texts(".name"), notes: texts(".note"), data: {{ ...root.dataset }},
    csv: decoder.decode(files[0]), svg: decoder.decode(files[1]),
  }}));
}}"""


@pytest.fixture
def shown(page: Page) -> Callable[..., dict[str, Any]]:
    """Return `shown(row, *acts)`, which gives a row's texts after the acts and its saved files."""
    page.set_content(
        f"<style>{palette('.map-row')}{read(FOLDER / 'map_row.css')}</style>"
        f"{read(FOLDER / 'map_row.html')}"
    )

    def show(row: MapRow, *acts: tuple) -> dict[str, Any]:
        text = base64.b64encode(pack(payload(row))).decode()
        return page.evaluate(MOUNT, [text, [list(act) for act in acts]])

    return show


def test_weights_and_their_difference_are_read_out(shown: Callable[..., dict[str, Any]]) -> None:
    row = weights_row()
    first, second = (drawn.values[1, 2].astype(float) for drawn in maps_of(row))
    difference = second - first
    said = shown(row, ("choose", "layer", 1), ("choose", "head", 2), ("over", 6, 3))
    assert said["title"] == "Encoder, layer 2, head 3"
    assert said["names"] == ["As trained", "Edited", "Edited − as trained"]
    largest = f"largest difference in this map: {scientific(np.abs(difference).max())}"
    assert said["notes"] == ["untouched", "the same words", largest]
    numbers = [fixed(values[6, 3], 4) for values in (first, second, difference)]
    assert plain(said["readout"]) == (
        f"query: a‹U+200B›b · key: <b>in</b> · as trained {numbers[0]} · edited {numbers[1]} · "
        f"difference {numbers[2]}"
    )
    data = said["data"]
    assert [data[name] for name in ("layer", "head", "query", "key")] == ["1", "2", "6", "3"]
    values = [float(value) for value in data["values"].split(" ")]
    assert values == [first[6, 3], second[6, 3], difference[6, 3]], "subtracted in 64 bits"
    assert plain(shown(row, ("over", 4, 0))["readout"]).startswith("query: in₅ · key: in₁ · ")


def test_masked_scores_are_called_masked(shown: Callable[..., dict[str, Any]]) -> None:
    row = scores_row()
    said = shown(row, ("choose", "head", 1), ("over", 2, 5))
    assert "masked: its numbers are not used" in said["readout"]
    for note, drawn, before in zip(said["notes"], maps_of(row), ("", "a sum, "), strict=True):
        unmasked = drawn.values[0, 1][row.mask]
        assert note == f"{before}from {fixed(unmasked.min(), 2)} to {fixed(unmasked.max(), 2)}"


@pytest.mark.parametrize(("count", "where"), [(1, "the map"), (2, "both maps"), (3, "all 3 maps")])
def test_the_hint_counts_the_maps(shown: Callable[..., dict[str, Any]], count: int, where: str):
    row = weights_row()
    said = shown(replace(row, maps=row.maps[:count]))["readout"]
    assert f"to read its numbers in {where}; click to pin it." in said


def test_saved_files_hold_the_numbers_and_names(shown: Callable[..., dict[str, Any]]) -> None:
    """Queries and keys differ, as in cross-attention; queries hold a character illegal in XML."""
    row = scores_row()
    tokens = [replace(token, text=f"q{i}\x01") for i, token in enumerate(row.queries.tokens)]
    row = replace(row, queries=replace(row.queries, tokens=tokens))
    said = shown(row, ("choose", "head", 2))
    assert said["csv"].startswith("\ufeff")
    head, *lines = csv.reader(io.StringIO(said["csv"].removeprefix("\ufeff")))
    assert head == ["query", "key", "Part", "The score"]
    keys = [label(token) for token in row.keys.tokens]
    for index, (query, key, *numbers) in enumerate(lines):
        q, k = divmod(index, len(keys))
        assert (query, key) == (f"{q} q{q}‹U+0001›", f"{k} {keys[k]}")
        assert (numbers == ["", ""]) == (k > q)
        values = [np.float32(drawn.values[0, 2, q, k]) for drawn in maps_of(row)]
        assert numbers == ["", ""] or [np.float32(number) for number in numbers] == values
    words = [part.text for part in ElementTree.fromstring(said["svg"]).iter() if part.text]
    assert [word for word in words if re.fullmatch("−?8", word)] == ["−8", "8"] * 2, "its own scale"


def test_numbers_are_written_as_in_the_figures(page: Page) -> None:
    values = [0, 0.25, -0.0312, 1, 123.4, -98765.4, 4.83e-7, -1.5e-12, 0.00099, 1e5]
    written = page.evaluate(f"values => {{ {SCRIPT} return values.map(scientific); }}", values)
    assert written == [scientific(value) for value in values]
    exactly = f"values => {{ {SCRIPT} return values.map(exactly); }}"
    assert page.evaluate(exactly, [0, 0.12345, -0.5, 0.00004, 12.0]) == [
        *("0.0000", "0.1235", "−0.5000", "4.0\u00a0·\u00a010⁻⁵", "12.0000")
    ]


# With a server.


class Row:
    """A mounted row, accessed by its visible controls and data attributes."""

    def __init__(self, page: Page, key: str) -> None:
        self.page = page
        self.root = page.locator(f".st-key-{key} section.map-row")
        expect(self.root).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=30_000)

    def says(self) -> dict[str, str]:
        return self.root.evaluate("root => ({...root.dataset})")

    def values(self) -> list[float]:
        return [float(number) for number in self.says()["values"].split()]

    def canvas(self, index: int) -> Locator:
        return self.root.locator("canvas").nth(index)

    def point(self, index: int, query: int, key: int) -> dict[str, float]:
        self.canvas(index).scroll_into_view_if_needed()
        at = self.canvas(index).evaluate(
            "({dataset: d}) => ({x: +d.left, y: +d.top, cell: +d.cell})"
        )
        return {name: at[name] + (n + 0.5) * at["cell"] for name, n in (("x", key), ("y", query))}

    def hover(self, index: int, query: int, key: int) -> None:
        self.canvas(index).hover(position=self.point(index, query, key))

    def readout(self) -> str:
        return re.sub("[\u2068\u2069]", "", self.root.locator(".readout").inner_text())


@pytest.fixture
def url(serve: Callable[[Path], str]) -> str:
    return serve(HARNESS)


def test_switching_needs_no_server_and_a_pinned_cell_stays(url: str, local_page: Page) -> None:
    frames: list[object] = []
    local_page.on(
        "websocket", lambda socket: socket.on("framesent", lambda sent: frames.append(sent))
    )
    local_page.goto(url)
    row = Row(local_page, "weights")
    first = maps_of(weights_row())[0].values
    local_page.wait_for_timeout(500)
    requests = len(frames)
    assert requests
    row.root.get_by_role("radio", name="layer 2").click()
    row.root.get_by_role("radio", name="head 1").click()
    for key in ("ArrowRight", "Tab", "Tab", "Tab"):  # head 2; two save buttons, the first map
        local_page.keyboard.press(key)
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        local_page.keyboard.press(key)
    said = row.says()
    assert [said[name] for name in ("layer", "head", "query", "key")] == ["1", "1", "1", "2"]
    assert row.values()[0] == first[1, 1, 1, 2]
    row.hover(1, 4, 4)  # in the second map: all maps follow
    assert (row.says()["query"], row.values()[0]) == ("4", first[1, 1, 4, 4])
    local_page.mouse.move(2, 2)
    row.root.get_by_role("radio", name="head 3").click()
    assert (row.says()["query"], row.values()[0]) == ("1", first[1, 2, 1, 2])
    row.canvas(0).click(position=row.point(0, 1, 2))
    local_page.mouse.move(2, 2)
    assert row.says()["query"] == "" and "Point at a cell" in row.readout()
    assert len(frames) == requests
    assert Row(local_page, "scores").says()["head"] == "0", "the rows are independent"


def test_a_masked_cell_has_no_value(url: str, local_page: Page) -> None:
    local_page.goto(url)
    row = Row(local_page, "scores")
    row.hover(0, 2, 5)
    assert row.values() == [] and row.readout().endswith("masked: its numbers are not used")
    assert row.root.get_by_role("radiogroup", name="Layer").count() == 0, "there is only one layer"


def test_a_higher_pixel_ratio_gets_a_finer_picture(url: str, local_page: Page) -> None:
    local_page.add_init_script("""
        const real = window.matchMedia.bind(window);
        window.pixels = [];
        window.matchMedia = (query) => {
            const found = real(query);
            if (query.startsWith("(resolution")) window.pixels.push(found);
            return found;
        };
    """)
    local_page.goto(url)
    row = Row(local_page, "weights")
    for ratio in (2, 1):  # each resolution query fires only once
        local_page.evaluate(
            "ratio => { Object.defineProperty(window, 'devicePixelRatio', "
            "{ value: ratio, configurable: true }); "
            "for (const query of [...pixels]) query.dispatchEvent(new Event('change')); }",
            ratio,
        )
        assert row.canvas(0).evaluate("canvas => canvas.width / canvas.clientWidth") == ratio


@pytest.mark.parametrize(("width", "count"), [(1440, 60), (390, 60), (390, 2)])
def test_any_length_stays_inside_its_box(
    url: str, local_page: Page, width: int, count: int
) -> None:
    local_page.set_viewport_size({"width": width, "height": 900})
    local_page.goto(f"{url}/?tokens={count}")
    row = Row(local_page, "weights")
    assert local_page.evaluate("document.documentElement.scrollWidth") <= width
    fits = (
        "root => [...root.querySelectorAll('.map')].every((m) => m.clientWidth <= root.clientWidth)"
    )
    assert row.root.evaluate(fits)
    row.hover(2, 1, 0)
    first, second = (drawn.values.astype(np.float64) for drawn in maps_of(weights_row(count)))
    assert row.values()[2] == (second - first)[0, 0, 1, 0]
    names = labels(weights_row(count).queries.tokens, 1)
    assert row.readout().startswith(f"query: {names[1]} · key: {names[0]} · ")
