"""The map row sends its arrays unchanged, and the browser shows, reads out and saves them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import Locator, Page

from app.components.assets import joined
from app.components.explorer.payload import pack
from app.components.map_row.payload import Difference, Map, MapRow, payload
from app.look.labels import label
from app.look.numbers import scientific
from tests.app.drawn import COMPONENTS, drawn_component
from tests.app.map_rows import scores_row, weights_row
from tests.app.mounted import plain

SCRIPT = joined(COMPONENTS / "map_row/main.js")


def maps_of(row: MapRow) -> list[Map]:
    return [drawn for drawn in row.maps if isinstance(drawn, Map)]


def fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


# What is sent.


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

ACT = """async (acts) => {
  const root = document.querySelector(".map-row");
  for (const [name, ...more] of acts) {
    if (name === "choose") root.querySelector(`[name$="${more[0]}"][value="${more[1]}"]`).click();
    if (name === "over") {
      const canvas = root.querySelector("canvas");
      const { left, top, cell } = canvas.dataset;
      const box = canvas.getBoundingClientRect();
      canvas.dispatchEvent(new PointerEvent("pointermove", {
        clientX: box.left + Number(left) + (more[1] + 0.5) * cell,
        clientY: box.top + Number(top) + (more[0] + 0.5) * cell, bubbles: true,
      }));
    }
  }
  const save = (ending) => root.querySelector(`[data-save=${ending}]`).click();
  for (const ending of ["csv", "svg", "pdf"]) save(ending);
  root.querySelector(".saves input").click();
  save("svg");
  const texts = (selector) => [...root.querySelectorAll(selector)].map((part) => part.textContent);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const files = await Promise.all(saved.map((blob) => blob.arrayBuffer()));
  const [csv, svg, pdf, captioned] = files.map((file) => decoder.decode(file));
  return {
    title: texts("[data-part=title]")[0], readout: texts("[data-part=readout]")[0],
    names: texts(".name"), notes: texts(".note"), data: { ...root.dataset },
    csv, svg, pdf, captioned,
  };
}"""


def act_on(page: Page, row: MapRow, *acts: tuple, theme: str = "light") -> dict[str, Any]:
    """Mount a row; return its texts after the acts, and its saved files."""
    drawn_component(page, "map_row", ".map-row", pack(payload(row)), theme)
    return page.evaluate(ACT, [list(act) for act in acts])


@pytest.fixture
def shown(page: Page) -> Callable[..., dict[str, Any]]:
    return partial(act_on, page)


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
    said = shown(row, ("choose", "layer", 1), ("choose", "head", 2), ("over", 0, 0))["readout"]
    printed = [float(one.replace("−", "-")) for one in re.findall(r"−?0\.\d{4}", said)]
    assert printed[1] - printed[0] == pytest.approx(printed[2], abs=1e-9), "as it is printed"


def test_a_map_with_words_of_its_own_is_labelled_by_them(shown: Callable[..., dict[str, Any]]):
    """Its own words label it; the readout and the difference name both."""
    row = weights_row()
    other = replace(row.keys, tokens=[replace(one, text="other") for one in row.keys.tokens])
    first, second = maps_of(row)
    own = replace(row, maps=[first, replace(second, sides=(row.queries, other)), *row.maps[2:]])
    said = shown(own, ("over", 6, 3))
    assert " · key: <b>in</b>/other · " in plain(said["readout"])
    texts = [text.text for text in ElementTree.fromstring(said["svg"]).iter() if text.text]
    labels = [text.strip("\u2068\u2069₁₂₃₄₅₆₇₈₉₀") for text in texts]
    keys = len(row.keys.tokens)
    assert labels.count("other") == keys
    assert any(text.endswith("/other") for text in labels)


def test_masked_scores_are_called_masked(shown: Callable[..., dict[str, Any]], page: Page) -> None:
    row = scores_row()
    said = shown(row, ("choose", "head", 1), ("over", 2, 5))
    assert said["readout"].endswith("masked: its numbers are not used")
    assert said["data"]["values"] == ""
    for note, drawn, before in zip(said["notes"], maps_of(row), ("", "a sum, "), strict=True):
        unmasked = drawn.values[0, 1][row.mask]
        assert note == f"{before}from {fixed(unmasked.min(), 2)} to {fixed(unmasked.max(), 2)}"
    assert page.get_by_role("radiogroup", name="Layer").count() == 0, "there is only one layer"
    part, whole = maps_of(row)
    hidden = replace(row, maps=[part, replace(whole, mask=np.zeros((8, 8), bool))])
    said = shown(hidden, ("over", 5, 2))["readout"]
    assert " · part " in said and "the score" not in said, "it is not shown yet"


@pytest.mark.parametrize(("count", "where"), [(1, "the map"), (2, "both maps"), (3, "all 3 maps")])
def test_the_hint_counts_the_maps(shown: Callable[..., dict[str, Any]], count: int, where: str):
    row = weights_row()
    said = shown(replace(row, maps=row.maps[:count]))["readout"]
    assert f"to read its numbers in {where}; click to pin it." in said


def test_saved_files_hold_the_numbers_and_names(shown: Callable[..., dict[str, Any]]) -> None:
    """Queries and keys differ, as in cross-attention; queries hold a character illegal in XML."""
    row = scores_row()
    tokens = [replace(token, text=f"q{i}\x01") for i, token in enumerate(row.queries.tokens)]
    about = "a network, weights 12345678, greedy. “one” → “two”"
    row = replace(row, queries=replace(row.queries, tokens=tokens), about=about)
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
    words, captioned = (
        [part.text or "" for part in ElementTree.fromstring(said[name]).findall(".//{*}text")]
        for name in ("svg", "captioned")
    )
    caption = " ".join(captioned[len(words) :])
    assert captioned[: len(words)] == words and caption.endswith(about)
    assert f"Rows: {row.queries.words}. Columns: {row.keys.words}." in caption
    assert said["pdf"].startswith("%PDF")
    assert [word for word in words if re.fullmatch("−?8", word)] == ["−8", "8"] * 2, "its own scale"


def test_numbers_are_written_as_in_the_figures(page: Page) -> None:
    values = [0, 0.25, -0.0312, 1, 123.4, -98765.4, 4.83e-7, -1.5e-12, 0.00099, 1e5]
    written = page.evaluate(f"values => {{ {SCRIPT} return values.map(scientific); }}", values)
    assert written == [scientific(value) for value in values]
    exactly = f"values => {{ {SCRIPT} return values.map(exactly); }}"
    assert page.evaluate(exactly, [0, 0.12345, -0.5, 0.00004, 12.0]) == [
        *("0.0000", "0.1235", "−0.5000", "4.0\u00a0·\u00a010⁻⁵", "12.0000")
    ]


# Pointer and keyboard.


class Row:
    """A mounted row of weights, driven by its visible controls."""

    def __init__(self, page: Page, row: MapRow) -> None:
        drawn_component(page, "map_row", ".map-row", pack(payload(row)))
        self.root = page.locator(".map-row")

    def says(self) -> dict[str, str]:
        return self.root.evaluate("root => ({...root.dataset})")

    def values(self) -> list[float]:
        return [float(number) for number in self.says()["values"].split()]

    def canvas(self, index: int) -> Locator:
        return self.root.locator("canvas").nth(index)

    def point(self, index: int, query: int, key: int) -> Any:
        self.canvas(index).scroll_into_view_if_needed()
        at = self.canvas(index).evaluate("map => ({ ...map.dataset })")
        left, top, cell = (float(at[name]) for name in ("left", "top", "cell"))
        return {"x": left + (key + 0.5) * cell, "y": top + (query + 0.5) * cell}

    def hover(self, index: int, query: int, key: int) -> None:
        self.canvas(index).hover(position=self.point(index, query, key))


def test_keys_and_pointer_choose_heads_and_cells_and_a_pinned_cell_stays(page: Page) -> None:
    row = Row(page, weights_row())
    first = maps_of(weights_row())[0].values
    row.root.get_by_role("radio", name="layer 2").click()
    row.root.get_by_role("radio", name="head 1").click()
    for key in ("ArrowRight", "Tab", "Tab", "Tab"):  # head 2; two save buttons, the first map
        page.keyboard.press(key)
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    said = row.says()
    assert [said[name] for name in ("layer", "head", "query", "key")] == ["1", "1", "1", "2"]
    assert row.values()[0] == first[1, 1, 1, 2]
    row.hover(1, 4, 4)  # in the second map: all maps follow
    assert (row.says()["query"], row.values()[0]) == ("4", first[1, 1, 4, 4])
    page.mouse.move(2, 2)
    row.root.get_by_role("radio", name="head 3").click()
    assert (row.says()["query"], row.values()[0]) == ("1", first[1, 2, 1, 2])
    row.canvas(0).click(position=row.point(0, 1, 2))
    page.mouse.move(2, 2)
    assert row.says()["query"] == ""
    groups = row.root.locator("[type=radio]").evaluate_all("all => all.map((at) => at.name)")
    assert set(groups) == {"it layer", "it head"}, "apart from another row's, which has its own key"


def test_a_higher_pixel_ratio_gets_a_finer_picture(page: Page) -> None:
    page.evaluate("""() => {
        const real = window.matchMedia.bind(window);
        window.pixels = [];
        window.matchMedia = (query) => {
            const found = real(query);
            if (query.startsWith("(resolution")) window.pixels.push(found);
            return found;
        };
    }""")
    row = Row(page, weights_row())
    for ratio in (2, 1):  # each resolution query fires only once
        page.evaluate(
            "ratio => { Object.defineProperty(window, 'devicePixelRatio', "
            "{ value: ratio, configurable: true }); "
            "for (const query of [...pixels]) query.dispatchEvent(new Event('change')); }",
            ratio,
        )
        assert row.canvas(0).evaluate("canvas => canvas.width / canvas.clientWidth") == ratio


@pytest.mark.parametrize(("width", "count"), [(1440, 60), (390, 60), (390, 2)])
def test_any_length_stays_inside_its_box(page: Page, width: int, count: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    row = Row(page, weights_row(count))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    fits = "[...root.querySelectorAll('.map')].every((m) => m.clientWidth <= root.clientWidth)"
    assert row.root.evaluate(f"root => {fits}")
    row.hover(2, 1, 0)
    first, second = (drawn.values.astype(np.float64) for drawn in maps_of(weights_row(count)))
    assert row.values()[2] == (second - first)[0, 0, 1, 0]
