"""The row of small maps sends its arrays as they are, and reads out of them in the browser."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from app.components.assets import joined, palette
from app.components.explorer.payload import pack
from app.components.map_row.payload import Difference, Map, MapRow, payload
from app.figures.style import diverging, sequential
from app.look.labels import labels
from app.look.numbers import scientific
from app.look.palette import PALETTES, diverging_table, sequential_table
from tests.app.map_row_harness import HEADS, LAYERS, WORDS, scores_row, weights_row

HARNESS = Path(__file__).with_name("map_row_harness.py")
SCRIPT = joined(Path("app/components/map_row/main.js").resolve())


def sent(data: dict, place: int, row: MapRow) -> np.ndarray:
    cells = len(row.queries.tokens), len(row.keys.tokens)
    found = np.frombuffer(data[f"values_{place}"], "<f4")
    return found.reshape(len(row.layers), data["heads"], *cells)


def maps_of(row: MapRow) -> list[Map]:
    return [drawn for drawn in row.maps if isinstance(drawn, Map)]


def test_values_are_the_arrays():
    row = weights_row()
    data = payload(row)
    for place, drawn in enumerate(maps_of(row)):
        assert np.array_equal(sent(data, place, row), drawn.values)
    assert (data["layers"], data["heads"]) == ([0, 1], HEADS)
    assert data["maps"][2]["minus"] == [1, 0] and "values_2" not in data
    assert [map["limits"] for map in data["maps"]] == [None, None, [[1.0] * HEADS] * LAYERS]
    assert [map["limits"] for map in payload(scores_row())["maps"]] == [[[6.0, 7.0, 8.0]]] * 2
    assert np.unpackbits(np.frombuffer(data["mask"], np.uint8), count=64).all()
    token = data["queries"]["tokens"][6]
    assert (token["label"], token["number"]) == ("a‹U+200B›b", 7)


def test_a_masked_cell_is_not_sent():
    row = scores_row()
    data = payload(row)
    mask = np.unpackbits(np.frombuffer(data["mask"], np.uint8), count=64).reshape(8, 8)
    assert np.array_equal(mask, np.tri(8))
    for place, drawn in enumerate(maps_of(row)):
        found = sent(data, place, row)
        assert np.array_equal(found[..., row.mask], drawn.values[..., row.mask].astype(np.float32))
        assert not found[..., ~row.mask].any()


def test_what_cannot_be_drawn_is_refused():
    row = scores_row()
    first, second = maps_of(row)
    broken = first.values.copy()
    broken[0, 1, 2, 5] = np.nan  # masked: nobody sees it
    payload(replace(row, maps=[replace(first, values=broken)]))
    broken[0, 1, 5, 2] = np.nan
    for maps, words in (
        ([replace(first, values=broken)], "Part contains a value outside its scale"),
        ([replace(first, values=first.values * 9)], "Part contains"),
        ([first, replace(second, values=second.values[:, :2])], "The score is"),
        (
            [first, Difference("D", "d", 0, 1)],
            "D is a difference of maps that the row does not have",
        ),
        ([], "a row needs at least one map"),
    ):
        with pytest.raises(ValueError, match=words):
            payload(replace(row, maps=maps))
    with pytest.raises(ValueError, match="the mask is"):
        payload(replace(row, mask=np.ones((8, 7), bool)))
    with pytest.raises(ValueError, match="8 tokens have 7 numbers"):
        payload(replace(row, keys=replace(row.keys, numbers=range(7))))


def test_inks_are_the_figures():
    light, dark = palette(".row").split("\n")
    assert light.startswith('.row, .row[data-theme="light"] {')
    assert dark.startswith('.row[data-theme="dark"] {')
    for rule, colours in ((light, PALETTES["light"]), (dark, PALETTES["dark"])):
        assert f"--ink2: {colours.second};" in rule and f"--hatch: {colours.hatch};" in rule


def test_a_difference_is_taken_in_64_bits(page: Page):
    row = weights_row()
    work = f"""bytes => {{
      {SCRIPT}
      const data = decodeRow(unpack(Uint8Array.from(bytes)));
      const every = (count) => [...Array(count).keys()];
      return every(data.layers.length).map((layer) => every(data.heads).map((head) => {{
        const map = mapAt(data, 2, layer, head);
        return [[...map.values], noteOf(data, map)];
      }}));
    }}"""
    found = page.evaluate(work, list(pack(payload(row))))
    first, second = (drawn.values.astype(np.float64) for drawn in maps_of(row))
    for layer in range(LAYERS):
        for head in range(HEADS):
            values, note = found[layer][head]
            difference = (second - first)[layer, head]
            assert np.array_equal(np.reshape(values, (8, 8)), difference)
            assert note == f"largest in this map: {scientific(np.abs(difference).max())}"


def test_numbers_are_written_as_elsewhere(page: Page):
    values = [0, 0.25, -0.0312, 1, 123.4, -98765.4, 4.83e-7, -1.5e-12, 0.00099, 1e5]
    assert page.evaluate(f"values => {{ {SCRIPT} return values.map(scientific); }}", values) == [
        scientific(value) for value in values
    ]
    shown = page.evaluate(
        f"values => {{ {SCRIPT} return values.map(exactly); }}", [0, 0.12345, -0.5, 0.00004, 12.0]
    )
    assert shown == ["0.0000", "0.1235", "−0.5000", "4.0\u00a0·\u00a010⁻⁵", "12.0000"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_are_the_figures(page: Page, theme: str):
    """Each step is the table's; between plotly's stops its own mixing may differ by a little."""
    ground = PALETTES[theme].page
    page.set_content(
        f"<style>{palette('.map-row')}</style>"
        f'<section class="map-row" style="--st-background-color: {ground}"></section>'
    )
    work = f"""() => {{
      {SCRIPT}
      const both = readTheme(document.querySelector(".map-row"));
      const at = (map, value) => rampOf(both, map).css[colourStep(map, value)];
      const shares = [...Array(33).keys()].map((step) => step / 32);
      return {{
        signed: shares.map((share) => at({{limit: 3}}, 3 * (2 * share - 1))),
        shares: shares.map((share) => at({{limit: null}}, share)),
        tables: [both.ramp.css, both.signed.css],
      }};
    }}"""
    found = page.evaluate(work)
    rgb = lambda text: np.array([int(n) for n in re.findall(r"\d+", text)])  # noqa: E731
    for name, scale in (("signed", diverging(theme)), ("shares", sequential(theme))):
        for (_, expected), colour in zip(scale, found[name], strict=True):
            assert np.abs(rgb(expected) - rgb(colour)).max() <= 2
    assert found["signed"][16] == diverging(theme)[16][1]
    for table, drawn in zip((sequential_table, diverging_table), found["tables"], strict=True):
        assert [list(rgb(colour)) for colour in drawn] == table(theme).tolist()


class Row:
    """One mounted row, spoken to by what a person sees and by its data attributes."""

    def __init__(self, page: Page, key: str) -> None:
        self.page = page
        self.root = page.locator(f".st-key-{key} section.map-row")
        expect(self.root).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=30_000)

    def says(self) -> dict[str, str]:
        return self.root.evaluate("root => ({...root.dataset})")

    def values(self) -> list[float]:
        return [float(number) for number in self.says()["values"].split()]

    def canvas(self, place: int) -> Locator:
        return self.root.locator("canvas").nth(place)

    def point(self, place: int, query: int, key: int) -> dict[str, float]:
        self.canvas(place).scroll_into_view_if_needed()
        at = self.canvas(place).evaluate(
            "({dataset: d}) => ({x: +d.left, y: +d.top, cell: +d.cell})"
        )
        return {name: at[name] + (n + 0.5) * at["cell"] for name, n in (("x", key), ("y", query))}

    def hover(self, place: int, query: int, key: int) -> None:
        self.canvas(place).hover(position=self.point(place, query, key))

    def readout(self) -> str:
        return re.sub("[\u2068\u2069]", "", self.root.locator(".readout").inner_text())


@pytest.fixture
def url(serve: Callable[[Path], str]) -> str:
    return serve(HARNESS)


def test_layer_and_head_switch_without_the_server(url: str, local_page: Page):
    frames: list[object] = []
    local_page.on(
        "websocket", lambda socket: socket.on("framesent", lambda sent: frames.append(sent))
    )
    local_page.goto(url)
    row = Row(local_page, "weights")
    Row(local_page, "scores")
    first, second = (drawn.values.astype(np.float64) for drawn in maps_of(weights_row()))
    local_page.wait_for_timeout(500)
    asked = len(frames)
    assert asked  # the page itself was asked for: frames are seen
    row.root.get_by_role("radio", name="layer 2").click()
    row.root.get_by_role("radio", name="head 1").click()
    row.page.keyboard.press("ArrowRight")
    assert (row.says()["layer"], row.says()["head"]) == ("1", "1")
    expect(row.root.locator(".title")).to_have_text("Encoder, layer 2, head 2")
    row.hover(1, 3, 5)  # in the second map: all of them answer
    a, b = first[1, 1, 3, 5], second[1, 1, 3, 5]
    assert row.values() == [a, b, b - a]
    shown = f"as trained {a:.4f} · edited {b:.4f} · difference {b - a:.4f}".replace("-", "−")
    assert row.readout() == f"query: <b>in</b> · key: $x$ & so · {shown}"
    largest = scientific(np.abs(second - first)[1, 1].max())
    expect(row.root.locator(".note").nth(2)).to_have_text(f"largest in this map: {largest}")
    assert len(frames) == asked
    assert Row(local_page, "scores").says()["head"] == "0"  # a row of its own


def test_keys_walk_and_a_kept_cell_stays(url: str, local_page: Page):
    local_page.goto(url)
    row = Row(local_page, "weights")
    first = maps_of(weights_row())[0].values
    row.root.get_by_role("radio", name="head 1").focus()
    local_page.keyboard.press("Tab")  # the two buttons that save, then the first map
    local_page.keyboard.press("Tab")
    local_page.keyboard.press("Tab")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        local_page.keyboard.press(key)
    said = row.says()
    assert (said["query"], said["key"]) == ("1", "2") and row.values()[0] == first[0, 0, 1, 2]
    row.hover(0, 4, 4)
    assert (row.says()["query"], row.values()[0]) == ("4", first[0, 0, 4, 4])
    assert row.readout().startswith("query: in₅ · key: in₅")
    local_page.mouse.move(2, 2)
    row.root.get_by_role("radio", name="head 2").click()
    assert (row.says()["query"], row.values()[0]) == ("1", first[0, 1, 1, 2])
    row.canvas(0).click(position=row.point(0, 1, 2))
    local_page.mouse.move(2, 2)
    assert row.says()["query"] == "" and "Point at a cell" in row.readout()


def test_a_masked_cell_says_so_and_is_hatched(url: str, local_page: Page):
    local_page.goto(url)
    row = Row(local_page, "scores")
    one, whole = maps_of(scores_row())
    row.hover(0, 2, 1)
    assert row.values() == pytest.approx([one.values[0, 0, 2, 1], whole.values[0, 0, 2, 1]], 1e-6)
    row.hover(0, 2, 5)
    assert row.values() == [] and row.readout().endswith("masked: its numbers are not used")
    assert row.root.get_by_role("radiogroup", name="Layer").count() == 0  # there is one
    expect(row.root.locator(".title")).to_have_text("Decoder, layer 1, head 1")
    open_values = whole.values[0, 0][np.tri(8, dtype=bool)]
    span = f"from {open_values.min():.2f} to {open_values.max():.2f}".replace("-", "−")
    expect(row.root.locator(".note").nth(1)).to_have_text(f"a sum, {span}")
    local_page.mouse.move(2, 2)
    greys = row.canvas(0).evaluate(
        """(canvas, [masked, unmasked]) => [masked, unmasked].map(({x, y}) => {
          const scale = canvas.width / canvas.clientWidth;
          const side = canvas.dataset.cell * scale - 4;
          const at = (value) => Math.round(value * scale - side / 2);
          const {data} = canvas.getContext("2d").getImageData(at(x), at(y), side, side);
          const colours = new Set(Array.from({length: data.length / 4}, (_, i) => data.slice(4 * i, 4 * i + 3).join()));
          return colours.size;
        })""",  # noqa: E501
        [row.point(0, 2, 5), row.point(0, 5, 2)],
    )
    assert greys[0] > 1 and greys[1] == 1


def test_the_numbers_can_be_taken_away(url: str, local_page: Page):
    local_page.goto(url)
    row = Row(local_page, "weights")
    row.root.get_by_role("radio", name="layer 2").click()
    with local_page.expect_download() as found:
        row.root.get_by_role("button", name="CSV").click()
    assert found.value.suggested_filename == "headlight_encoder_layer2_head1_maps.csv"
    lines = list(csv.reader(found.value.path().read_text("utf-8-sig").splitlines()))
    assert lines[0] == ["query", "key", "As trained", "Edited", "Edited − as trained"]
    assert lines[1][:2] == ["1 in", "1 in"]
    numbers = np.array([line[2:4] for line in lines[1:]], float).reshape(8, 8, 2)
    for place, drawn in enumerate(maps_of(weights_row())):
        assert np.array_equal(numbers[..., place], drawn.values[1, 0])
    with local_page.expect_download() as found:
        row.root.get_by_role("button", name="SVG").click()
    picture = found.value.path().read_text("utf-8")
    assert "Encoder, layer 2, head 1" in picture and "&lt;b&gt;in&lt;/b&gt;" in picture
    assert picture.count("<image") == 6  # three maps and their bars
    row = Row(local_page, "scores")
    row.root.get_by_role("radio", name="head 3").click()
    with local_page.expect_download() as found:
        row.root.get_by_role("button", name="SVG").click()
    ends = re.findall(r">(−?8)</text>", found.value.path().read_text("utf-8"))
    assert ends == ["−8", "8"] * 2  # the third head's own scale, at both bars


def test_a_screen_with_finer_pixels_gets_a_finer_picture(url: str, local_page: Page):
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
    size = (
        "root => { const c = root.querySelector('.map canvas'); return c.width / c.clientWidth; }"
    )
    for ratio in (2, 1):  # there and back: each query answers only once
        local_page.evaluate(
            "ratio => { Object.defineProperty(window, 'devicePixelRatio', "
            "{ value: ratio, configurable: true }); "
            "for (const query of [...pixels]) query.dispatchEvent(new Event('change')); }",
            ratio,
        )
        assert row.root.evaluate(size) == ratio


@pytest.mark.parametrize(("width", "count"), [(1440, 60), (390, 60), (390, 2)])
def test_any_length_stays_inside_its_box(url: str, local_page: Page, width: int, count: int):
    local_page.set_viewport_size({"width": width, "height": 900})
    local_page.goto(f"{url}/?tokens={count}")
    row = Row(local_page, "weights")
    assert local_page.evaluate("document.documentElement.scrollWidth") <= width
    inside = row.root.evaluate(
        "root => [...root.querySelectorAll('.map')].every((map) => map.clientWidth <= root.clientWidth)"  # noqa: E501
    )
    assert inside
    row.hover(2, 1, 0)
    first, second = (drawn.values.astype(np.float64) for drawn in maps_of(weights_row(count)))
    assert row.values()[2] == (second - first)[0, 0, 1, 0]
    names = labels(weights_row(count).queries.tokens, 1)
    assert row.readout().startswith(f"query: {names[1]} · key: {names[0]} · ")
    assert WORDS[0] in names[0]
