"""Uses every view of the explorer in a browser, and opens the files that it saves."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.app.explorer_harness import Record, synthetic_quantity, synthetic_record
from tests.app.test_explorer import (
    DECODER_LAYERS,
    HARNESS,
    HEADS,
    LAYERS,
    Explorer,
    expect_parameters,
    parameters,
)

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def url(serve: Callable[[Path], str]) -> str:
    return serve(HARNESS)


@pytest.fixture
def record() -> Record:
    return synthetic_record("short", LAYERS, HEADS, DECODER_LAYERS)


def text(explorer: Explorer, part: str) -> str:
    found = explorer.root.locator(f"[data-part={part}]").inner_text()
    return found.replace("\u2068", "").replace("\u2069", "").replace("\u00a0", " ")


def fewest(weights: np.ndarray, share: float) -> int:
    """How many weights it takes to hold a share of each row, largest first."""
    held = np.sort(weights, -1)[:, ::-1].cumsum(-1)
    return int((held < share * weights.sum(-1, keepdims=True) - 1e-9).sum() + len(weights))


def test_lines_hold_their_share_and_say_how_many(
    local_page: Page, url: str, record: Record
) -> None:
    explorer = Explorer(local_page, url)
    explorer.root.get_by_role("button", name="Lines").click()
    assert explorer.says()["view"] == "lines"
    weights = record.cross[0, 0].astype(np.float64)
    count = fewest(weights, 0.7)
    assert text(explorer, "lines-count").endswith(
        f": {count} lines for {weights.size} unmasked cells"
    )
    slider = explorer.root.get_by_role("slider", name="Share of each row")
    slider.fill("95")
    assert text(explorer, "mass-value") == "95 %"
    assert f": {fewest(weights, 0.95)} lines" in text(explorer, "lines-count")
    expect_parameters(local_page, view="lines", mass="95")

    width = explorer.map.bounding_box()["width"]
    explorer.map.hover(position={"x": width - 100, "y": 100})
    query = explorer.says()["query"]
    assert query != "" and explorer.says()["key"] == ""
    expect(explorer.token("target", int(query) + 1)).to_have_class(re.compile("looked-at"))
    explorer.token("source", 4).hover()
    assert explorer.says()["key"] == "4"
    explorer.leave()
    local_page.keyboard.press("m")
    explorer.map.focus()
    local_page.keyboard.press("l")
    local_page.keyboard.press("ArrowDown")
    local_page.keyboard.press("ArrowDown")
    assert explorer.says()["query"] == "1", "arrows walk the lines as they walk the map"
    explorer.root.locator("[data-part=hide-eos]").check()
    assert "visible weight" in text(explorer, "lines-count")


def test_lines_of_a_long_sentence_move_nothing_below_them(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url, case="long", layers=1, heads=2, decoder_layers=1)
    foot = explorer.root.locator("[data-part=map-place]")
    before = foot.bounding_box()["height"]
    explorer.root.get_by_role("button", name="Lines").click()
    assert explorer.says()["view"] == "lines"
    assert foot.bounding_box()["height"] == before
    explorer.map.hover(position={"x": explorer.map.bounding_box()["width"] - 60, "y": 200})
    assert explorer.says()["query"] != "", (
        "words that have no room for a name are pointed at as well"
    )


def test_words_add_what_is_looked_at(local_page: Page, url: str, record: Record) -> None:
    explorer = Explorer(local_page, url)
    explorer.click(4, 7)
    local_page.keyboard.press("w")
    said = explorer.says()
    assert (said["unit"], said["query"], said["key"]) == ("words", "4", "6")
    both = record.cross[0, 0, 4, 6:8].sum()
    assert float(said["weight"]) == pytest.approx(both, abs=1e-4)
    assert "spricht" in explorer.readout()
    for piece in (6, 7):
        expect(explorer.token("source", piece)).to_have_class(re.compile(r"\bpinned\b"))
    expect_parameters(local_page, words="1", q="4", k="6")
    explorer.kind("encoder")
    mean = record.encoder[0, 0, 6:8].mean(0)
    assert float(explorer.hover(6, 2)["weight"]) == pytest.approx(mean[2], abs=1e-4)
    assert "averaged" in text(explorer, "axis-note")


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_what_is_hidden_is_counted(local_page: Page, url: str, record: Record, kind: str) -> None:
    explorer = Explorer(local_page, url, kind=kind)
    name = "<bos>" if kind == "decoder" else "<eos>"
    explorer.root.get_by_role("checkbox", name=name).check()
    weights = getattr(record, kind)[0, 0].astype(np.float64)
    column = 0 if kind == "decoder" else weights.shape[1] - 1
    share = round(100 * weights[:, column].mean())
    note = text(explorer, "axis-note")
    assert f"Hidden: {name} holds {share} % of all weight" in note
    assert f"at most {weights[:, column].max():.2f}" in note
    explorer.click(5, 3)
    explorer.click(5, 3)
    side, index = ("source", 5) if kind == "encoder" else ("target", 6)
    explorer.token(side, index).click()
    explorer.leave()
    shown = np.delete(weights[5], column)
    labels = [t.text for t in (record.target_in if kind == "decoder" else record.source)]
    best = np.delete(np.array(labels), column)[shown.argmax()]
    assert f"looks most at {best}" in explorer.readout()
    assert f"hidden: {name} {weights[5, column]:.2f}" in text(explorer, "readout-second")
    expect_parameters(local_page, hide="eos")
    explorer.root.get_by_role("checkbox", name=".,!?").check()
    expect_parameters(local_page, hide="eos,punctuation")
    assert "Hidden: 2 columns" in text(explorer, "axis-note")


def test_steps_show_what_else_was_likely(local_page: Page, url: str, record: Record) -> None:
    explorer = Explorer(local_page, url)
    last = len(record.target_out) - 1
    assert explorer.says()["step"] == str(last)
    steps = explorer.root.get_by_role("slider", name="Decoding step")
    steps.fill("4")
    said = explorer.says()
    assert (said["step"], said["query"]) == ("3", "3")
    assert steps.get_attribute("aria-valuetext").startswith("step 4 of 12")
    greyed = explorer.root.locator(".target .token.masked")
    expect(greyed).to_have_count(last - 3)
    items = explorer.root.get_by_role("list", name="The most likely tokens").get_by_role("listitem")
    expect(items).to_have_count(5)
    written = explorer.root.locator(".alternative.written")
    expect(written).to_have_count(1)
    expect(written.locator(".form")).to_have_text(record.target_out[3].text)
    expect(written.locator(".chance")).to_have_text(f"{np.exp(record.log_probs[3]):.2f}")
    # What each head looked at in that step stands under its thumbnail.
    for layer, head in [(0, 1), (1, 3)]:
        row = record.cross[layer, head, 3]
        thumbnail = explorer.root.locator(f".thumbnail[data-l='{layer}'][data-h='{head}']")
        said = thumbnail.get_attribute("aria-label")
        assert record.source[row.argmax()].text in said
        assert f"{row.max():.2f}"[1:] in said
    explorer.root.get_by_role("button", name="Next step").click()
    assert explorer.says()["step"] == "4"
    local_page.keyboard.press(",")
    assert explorer.says()["step"] == "3"
    explorer.token("target", 8).hover()
    assert explorer.says()["step"] == "7", "the strip follows the pointer"
    explorer.leave()
    explorer.kind("encoder")
    local_page.keyboard.press(".")
    assert (explorer.says()["step"], explorer.says()["query"]) == ("4", "")
    steps.fill(str(last))
    explorer.root.get_by_role("button", name="Play the steps").click()
    expect(explorer.root.get_by_role("button", name="Pause")).to_be_visible()
    expect(explorer.root).to_have_attribute("data-step", str(last))
    expect(explorer.root.get_by_role("button", name="Play the steps")).to_be_visible()
    local_page.keyboard.press("Escape")
    expect(greyed).to_have_count(0)


def shown_order(explorer: Explorer) -> list[tuple[int, int]]:
    """Layer and head of the thumbnails as they stand on the page, without the aggregates."""
    places = explorer.root.locator(".thumbnail:not(.missing)").evaluate_all(
        """all => all.map(({dataset, offsetTop, offsetLeft}) =>
            [offsetTop, offsetLeft, +dataset.l, +dataset.h])"""
    )
    heads = [(layer, head) for _, _, layer, head in sorted(places)]
    return [(layer, head) for layer, head in heads if layer < DECODER_LAYERS and head < HEADS]


def test_heads_in_the_order_of_a_measure(local_page: Page, url: str, record: Record) -> None:
    explorer = Explorer(local_page, url)
    weights = record.cross.astype(np.float64)
    entropy = -(weights * np.log2(np.where(weights > 0, weights, 1))).sum(-1).mean(-1)
    T, S = weights.shape[2:]
    away = np.abs(np.arange(S) - (np.arange(T) * (S - 1) / (T - 1))[:, None])
    measures = {
        "confidence": weights.max(-1).mean(-1),
        "spread": entropy,
        "distance": (weights * away).sum(-1).mean(-1),
    }
    assert shown_order(explorer) == sorted(shown_order(explorer))
    order = explorer.root.get_by_role("combobox", name="Order of the heads")
    for name, values in measures.items():
        order.select_option(name)
        ranked = sorted(np.ndindex(values.shape), key=lambda place: -values[place])
        assert shown_order(explorer) == [tuple(map(int, place)) for place in ranked]
        first = explorer.root.locator(
            f".thumbnail[data-l='{ranked[0][0]}'][data-h='{ranked[0][1]}']"
        )
        expect(first).to_have_accessible_name(
            re.compile(rf"\b{ranked[0][0] + 1}\.{ranked[0][1] + 1}\b")
        )
    expect_parameters(local_page, sort="distance")
    explorer.head(*map(int, ranked[0]))
    local_page.keyboard.press("ArrowRight")
    said = explorer.says()
    assert (int(said["layer"]), int(said["head"])) == ranked[1], "arrows follow what is seen"


def test_heads_and_layers_together(local_page: Page, url: str, record: Record) -> None:
    explorer = Explorer(local_page, url, kind="encoder", layer="max", head="mean")
    # A link that names both keeps the first: one choice holds for layers and heads.
    assert (explorer.says()["layer"], explorer.says()["head"]) == ("max", "max")
    largest = record.encoder.max((0, 1))
    assert float(explorer.hover(3, 6)["weight"]) == pytest.approx(largest[3, 6], abs=1e-4)
    assert "sum to more than 1" in text(explorer, "axis-note")
    explorer.root.get_by_role("button", name="Mean", exact=True).click()
    mean = record.encoder.mean((0, 1))
    assert float(explorer.hover(3, 6)["weight"]) == pytest.approx(mean[3, 6], abs=1e-4)
    assert f"the mean of all {LAYERS * HEADS} heads" in explorer.readout()
    explorer.kind("cross")
    assert explorer.says()["layer"] == "mean", "all layers stay all layers, however many"
    explorer.head(DECODER_LAYERS, 2)
    mean = record.cross[:, 2].mean(0)
    assert float(explorer.hover(1, 2)["weight"]) == pytest.approx(mean[1, 2], abs=1e-4)
    expect_parameters(local_page, layer="mean", head="2")


@pytest.mark.parametrize("name", ["scores", "norms", "rollout"])
def test_another_quantity_is_fetched_once(
    local_page: Page, url: str, record: Record, name: str
) -> None:
    explorer = Explorer(local_page, url, layer=1, head=2)
    numbers = synthetic_quantity(record, name)
    choice = explorer.root.get_by_role("combobox", name="Shown quantity")
    choice.select_option(name)
    expect(explorer.root).to_have_attribute("data-quantity", name)
    expect_parameters(local_page, quantity=name)
    head = 0 if name == "rollout" else 2
    cross = numbers["cross"]
    step = float(cross.max() - min(0, cross.min())) / 65535
    said = explorer.hover(3, 4)
    assert said["head"] == ("mean" if name == "rollout" else "2")
    assert float(said["weight"]) == pytest.approx(cross[1, head, 3, 4], abs=step + 1e-4)
    high = {"rollout": 1.0, "scores": np.abs(cross).max()}.get(name, cross.max())
    assert float(text(explorer, "scale-high")) == pytest.approx(high, abs=0.06)
    explorer.kind("decoder")
    said = explorer.hover(6, 2)
    assert float(said["weight"]) == pytest.approx(
        numbers["decoder"][1, head, 6, 2], abs=2 * step + 1e-4
    )
    if name != "rollout":
        for head, combine in ((HEADS, "mean"), (2, "mean")):
            explorer.head(1, head)
            note = text(explorer, "axis-note")
            assert (f"the {combine} of {HEADS} heads of" in note) == (head == HEADS)
            linear = {"scores": "the softmax of a row gives", "norms": "that a key adds"}[name]
            assert (linear in note) == (head != HEADS), "neither softmax nor norm is linear"
    choice.select_option("weights")
    assert explorer.says()["quantity"] == "weights", "the weights are there already"
    assert "quantity" not in parameters(local_page) or parameters(local_page)["quantity"] == name
    choice.select_option(name)
    assert explorer.says()["quantity"] == name, "and so is what was fetched"


def test_back_to_the_weights_keeps_the_head_and_asks_nobody(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url, layer=1, head=2)
    choice = explorer.root.get_by_role("combobox", name="Shown quantity")
    server = local_page.get_by_text("asked for")
    choice.select_option("rollout")
    expect(explorer.root).to_have_attribute("data-quantity", "rollout")
    expect(server).to_have_text("asked for rollout")
    assert explorer.says()["head"] == "mean"
    expect_parameters(local_page, quantity="rollout", head="2")
    explorer.kind("encoder")
    choice.select_option("weights")
    said = explorer.says()
    assert (said["quantity"], said["layer"], said["head"]) == ("weights", "1", "2")
    local_page.wait_for_timeout(300)
    expect(server).to_have_text("asked for rollout")
    # With the next sentence Python hears that nobody looks at it any more.
    local_page.get_by_text("Another sentence").click()
    expect(server).to_have_text("asked for weights")


def test_what_cannot_be_shown_cannot_be_chosen(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url, offered="rollout", quantity="scores")
    choice = explorer.root.get_by_role("combobox", name="Shown quantity")
    assert choice.locator("option").all_inner_texts() == ["weights", "rollout"]
    assert explorer.says()["quantity"] == "weights"
    expect(explorer.root.locator(".waiting")).to_have_count(0)


def test_a_quantity_that_fails_says_so_and_leaves_the_weights(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url, broken="norms", head=1)
    choice = explorer.root.get_by_role("combobox", name="Shown quantity")
    for _ in range(2):  # also when it is chosen once more
        choice.select_option("norms")
        expect(explorer.root.locator("[data-part=request-note]")).to_have_text(
            "The norms could not be computed: out of memory"
        )
        expect(explorer.root.locator(".waiting")).to_have_count(0)
        expect(choice).to_have_value("weights")
        said = explorer.says()
        assert (said["quantity"], said["head"]) == ("weights", "1")
    choice.select_option("scores")
    expect(explorer.root).to_have_attribute("data-quantity", "scores")
    expect(explorer.root.locator("[data-part=request-note]")).to_have_text("")


def test_a_pinned_cell_and_the_file_hold_the_records_own_numbers(
    local_page: Page, url: str
) -> None:
    record = synthetic_record("long", 6, 8)
    explorer = Explorer(local_page, url, case="long", layers=6, heads=8, decoder_layers=6, head=3)
    key = int(record.cross[0, 3, 7].argmax())
    explorer.hover(7, key)
    assert re.match(r"0\.\d\d ± 0\.01\s", text(explorer, "readout-second"))
    explorer.click(7, key)
    exact = f"{record.cross[0, 3, 7, key]:.4f}"
    expect(explorer.root).to_have_attribute("data-weight", exact)
    assert text(explorer, "readout-second").startswith(f"{exact}\u2002")
    # Another head of the pinned cell, and all heads together.
    explorer.head(2, 5)
    expect(explorer.root).to_have_attribute("data-weight", f"{record.cross[2, 5, 7, key]:.4f}")
    explorer.head(2, 8)
    mean = record.cross[2, :, 7, key].mean(dtype=np.float64)
    expect(explorer.root).to_have_attribute("data-weight", f"{mean:.4f}")
    assert "derived: the mean of 8 heads" in text(explorer, "readout-second")
    explorer.kind("encoder")
    explorer.head(4, 1)
    _, content = saved(explorer, "Save this map as CSV")
    rows = [row[1:] for row in csv.reader(io.StringIO(content.decode("utf-8-sig")))][1:]
    assert np.array_equal(np.array(rows, np.float32), record.encoder[4, 1])


def test_the_saved_page_opens_with_what_is_on_screen(
    local_page: Page, url: str, record: Record, tmp_path: Path
) -> None:
    explorer = Explorer(local_page, url, kind="decoder", layer=1, head=2)
    explorer.click(5, 3)
    local_page.keyboard.press("l")
    explorer.root.locator("[data-part=hide-eos]").check()
    names = ("kind", "layer", "head", "view", "unit", "hide", "query", "key", "weight", "quantity")
    explorer.root.get_by_role("combobox", name="Shown quantity").select_option("scores")
    expect(explorer.root).to_have_attribute("data-quantity", "scores")
    explorer.leave()
    before = {name: explorer.says()[name] for name in names}
    name, content = saved(explorer, "Save this view as an offline page")
    assert name == f"headlight-{record.id}.html"
    file = tmp_path / name
    file.write_bytes(content)
    # A file of its own: `local_page` lets only the server be asked.
    page = local_page.context.browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(file.as_uri())
    explorer.page = page
    explorer.root = page.locator("section[aria-label='Attention explorer']")
    expect(explorer.root).to_have_attribute("data-painted", re.compile(r"\d+"))
    assert {name: explorer.says()[name] for name in names} == before
    choice = explorer.root.get_by_role("combobox", name="Shown quantity")
    for other in ("norms", "rollout", "weights"):
        choice.select_option(other)
        assert explorer.says()["quantity"] == other, "all of them are in the file"
    assert explorer.says()["head"] == "2"
    expect(explorer.root.locator("[data-part=not-checked]")).to_have_text(
        "as saved, not checked here"
    )
    for button in ("Copy link", "Page"):
        expect(explorer.root.get_by_role("button", name=button, exact=True)).to_have_count(0)
    page.close()


def test_a_large_map_can_be_enlarged(local_page: Page, url: str) -> None:
    record = synthetic_record("long", 1, 2)
    explorer = Explorer(local_page, url, case="long", layers=1, heads=2, decoder_layers=1)
    zoom_in = explorer.root.get_by_role("button", name="Zoom in")
    small = float(explorer.map.get_attribute("data-cell"))
    height = explorer.map.bounding_box()["height"]
    zoom_in.click()
    zoom_in.click()
    cell = float(explorer.map.get_attribute("data-cell"))
    assert cell > 1.8 * small
    assert explorer.map.bounding_box()["height"] <= height + 20
    first = [int(explorer.map.get_attribute(f"data-first-{axis}")) for axis in ("query", "key")]
    assert first[0] > 0 and first[1] > 0
    said = explorer.hover(2, 3)
    query, key = first[0] + 2, first[1] + 3
    assert (said["query"], said["key"]) == (str(query), str(key))
    assert float(said["weight"]) == pytest.approx(record.cross[0, 0, query, key], abs=1e-4)
    # Dragging moves the part that is seen, and keeps nothing.
    at = explorer.point(6, 6)
    box = explorer.map.bounding_box()
    local_page.mouse.move(box["x"] + at["x"], box["y"] + at["y"])
    local_page.mouse.down()
    local_page.mouse.move(box["x"] + at["x"] + 3 * cell, box["y"] + at["y"] + 2 * cell, steps=4)
    local_page.mouse.up()
    assert int(explorer.map.get_attribute("data-first-query")) == first[0] - 2
    assert int(explorer.map.get_attribute("data-first-key")) == first[1] - 3
    pinned = explorer.root.get_by_role("button", name="Unpin")
    expect(pinned).to_be_hidden()
    # A drag that is taken away moves nothing any more; the next click is a click.
    local_page.mouse.down()
    explorer.map.dispatch_event("pointercancel")
    local_page.mouse.move(box["x"] + at["x"], box["y"] + at["y"], steps=4)
    local_page.mouse.up()
    assert int(explorer.map.get_attribute("data-first-query")) == first[0] - 2
    local_page.keyboard.press("Escape")
    explorer.click(1, 1)
    expect(pinned).to_be_visible()
    local_page.keyboard.press("Escape")
    # The arrow keys take it along.
    explorer.leave()
    explorer.map.focus()
    for _ in range(3):
        local_page.keyboard.press("ArrowUp")
    assert explorer.map.get_attribute("data-first-query") == "0"
    for _ in range(4):
        local_page.keyboard.press("-")
    assert float(explorer.map.get_attribute("data-cell")) == small


def test_the_focus_lies_over_every_thumbnail(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    drawn = """canvas => canvas.getContext("2d")
        .getImageData(0, 0, canvas.width, canvas.height).data.filter(Boolean).length"""
    focus = explorer.root.locator("canvas.overview-focus")
    assert focus.evaluate(drawn) == 0
    explorer.hover(3, 4)
    both = focus.evaluate(drawn)
    explorer.token("target", 4).hover()
    assert 0 < focus.evaluate(drawn) < both


OVERVIEW = "canvas.overview-maps"
PIXELS = "canvas => canvas.toDataURL()"


def test_a_caption_is_drawn_beneath_every_thumbnail(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url)
    drawn = """root => {
        const canvas = root.querySelector(".overview-maps");
        const ratio = canvas.width / canvas.clientWidth;
        return [...root.querySelectorAll(".thumbnail:not(.missing)")].map((at) => {
            const [size, top] = [at.offsetWidth, at.offsetTop + at.offsetWidth + 1];
            const box = [at.offsetLeft, top, size, at.offsetHeight - size - 1];
            const {data} = canvas.getContext("2d").getImageData(...box.map((v) => v * ratio));
            let ink = 0;
            for (let index = 3; index < data.length; index += 4) ink += data[index] / 255;
            return ink;
        });
    }"""
    before = explorer.root.evaluate(drawn)
    assert len(before) == (DECODER_LAYERS + 1) * (HEADS + 1)
    assert min(before) > 10, "ink, in pixels"
    explorer.head(1, 3)
    after = explorer.root.evaluate(drawn)
    place = (HEADS + 1) + 3
    assert after[place] > before[place], "the chosen one's is bold"
    assert after[0] < before[0]
    assert np.delete(after, [0, place]) == pytest.approx(np.delete(before, [0, place]))


def test_a_kept_overview_is_never_an_old_one(local_page: Page, url: str) -> None:
    """What stands there after switching to and fro is what a fresh page draws of the same state."""
    explorer = Explorer(local_page, url)

    def press(name: str) -> None:
        explorer.root.get_by_role("button", name=name, exact=True).click()

    for change in (
        lambda: explorer.root.get_by_role("checkbox", name="<eos>").check(),
        lambda: explorer.root.get_by_role("combobox", name="Order").select_option("spread"),
        lambda: press("Maximum"),
        lambda: press("Words"),
        lambda: explorer.token("target", 3).click(),
    ):
        earlier = explorer.root.locator(OVERVIEW).evaluate(PIXELS)
        change()
        changed = explorer.root.locator(OVERVIEW).evaluate(PIXELS)
        assert changed != earlier
        explorer.kind("decoder")
        assert explorer.root.locator(OVERVIEW).evaluate(PIXELS) != changed
        explorer.kind("cross")
        assert explorer.root.locator(OVERVIEW).evaluate(PIXELS) == changed
    explorer.leave()
    expect_parameters(local_page, q="2", words="1", kind="cross")
    address = local_page.url
    local_page.goto("about:blank")
    local_page.goto(address)
    expect(explorer.root).to_have_attribute("data-query", "2")
    assert explorer.root.locator(OVERVIEW).evaluate(PIXELS) == changed


def saved(explorer: Explorer, name: str) -> tuple[str, bytes]:
    with explorer.page.expect_download() as download:
        explorer.root.get_by_role("button", name=name, exact=True).click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def test_pictures_and_numbers_can_be_saved(local_page: Page, url: str, record: Record) -> None:
    explorer = Explorer(local_page, url, layer=1, head=2, kind="decoder")
    explorer.click(4, 2)
    name, content = saved(explorer, "Save this map as CSV")
    assert name == "headlight_decoder_layer2_head3.csv"
    header, *rows = csv.reader(io.StringIO(content.decode("utf-8-sig")))
    assert header[1:] == [f"{i} {t.text}" for i, t in enumerate(record.target_in)]
    both = list(zip(record.target_in, record.target_out, strict=True))
    assert [row[0] for row in rows] == [
        f"{i + 1} {fed.text} → {out.text}" for i, (fed, out) in enumerate(both)
    ]
    about = ("weight", "Layer 2, head 3", record.model, record.weights_sha256[:8], record.id)
    about += ("German to English", record.search, record.source_text, record.translation)
    for words in (*about, "fed in → token produced", "32-bit numbers as recorded"):
        assert words in header[0], words
    for query, row in enumerate(rows):
        for key, cell in enumerate(row[1:]):
            assert (cell == "") == (key > query)
            if cell:
                expected = record.decoder[1, 2, query, key]
                assert np.float32(cell) == expected, "the record's own number"

    name, content = saved(explorer, "Save this picture as SVG")
    assert name == "headlight_decoder_layer2_head3.svg"
    picture = ElementTree.fromstring(content)
    words = [element.text.strip("\u2068\u2069") for element in picture.iter(f"{SVG}text")]
    for token in (*record.target_in, *record.target_out):
        assert token.text in words
    assert words[0].startswith("Layer 2, head 3")
    for said in (*about[2:], "32-bit numbers as recorded"):
        assert said in picture.find(f"{SVG}desc").text, said
    open_cells = int(record.decoder_mask.sum())
    explorer.head(1, HEADS)
    _, mean = saved(explorer, "Save this map as CSV")
    assert "derived, the mean of 4 heads, from 32-bit numbers" in mean.decode("utf-8-sig")
    explorer.head(1, 2)
    cell = f"{float(explorer.map.get_attribute('data-cell')) - 1:g}"
    squares = [r for r in picture.iter(f"{SVG}rect") if r.get("width") == r.get("height") == cell]
    assert len(squares) == open_cells

    for what in ("picture", "overview"):
        name, content = saved(
            explorer, f"Save {'this' if what == 'picture' else 'the'} {what} as PNG"
        )
        assert content.startswith(b"\x89PNG") and name.endswith(".png")
        assert len(content) > 5_000
    name, content = saved(explorer, "Save the overview as SVG")
    assert name == "headlight_decoder_overview.svg"
    overview = ElementTree.fromstring(content)
    pictures = list(overview.iter(f"{SVG}image"))
    assert len(pictures) == (DECODER_LAYERS + 1) * (HEADS + 1)
    explorer.root.get_by_role("combobox", name="Order of the heads").select_option("spread")
    _, content = saved(explorer, "Save the overview as SVG")
    captions = [element.text for element in ElementTree.fromstring(content).iter(f"{SVG}text")]
    heads = sorted(f"{place[0] + 1}.{place[1] + 1}" for place in np.ndindex(DECODER_LAYERS, HEADS))
    assert sorted(c for c in captions if re.fullmatch(r"\d\.\d\b(?! b).*", c)) == heads, (
        "each head once"
    )
    explorer.root.get_by_role("combobox", name="Order of the heads").select_option("layer")
    explorer.root.get_by_role("button", name="Lines").click()
    name, content = saved(explorer, "Save this picture as SVG")
    assert name == "headlight_decoder_layer2_head3_lines.svg"
    assert b"<path" in content


def test_a_formula_stays_a_word_in_a_table(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url, case="hostile")
    _, content = saved(explorer, "Save this map as CSV")
    cells = [cell for row in csv.reader(io.StringIO(content.decode("utf-8-sig"))) for cell in row]
    assert any("onerror" in cell for cell in cells)
    assert not any(cell[:1] in "=+-@" for cell in cells if cell)
    _, content = saved(explorer, "Save this picture as SVG")
    picture = ElementTree.fromstring(content)
    assert not {f"{SVG}script", f"{SVG}img"} & {element.tag for element in picture.iter()}


def test_a_key_undoes_the_last_choice(local_page: Page, url: str) -> None:
    """Step by step back through what was chosen, to where it began and no further."""
    explorer = Explorer(local_page, url)
    press = local_page.keyboard.press
    names = ("kind", "view", "unit", "query", "key", "layer", "head")
    shown = lambda: {name: explorer.says()[name] for name in names}  # noqa: E731
    seen = [shown()]
    explorer.root.focus()
    for change in (
        lambda: press("2"),
        lambda: press("l"),
        lambda: press("w"),
        lambda: press("m"),
        lambda: explorer.click(3, 1),
        lambda: explorer.head(1, 2),
    ):
        change()
        seen.append(shown())
    local_page.mouse.move(0, 0)
    for before in [*seen[-2::-1], seen[0]]:
        press("u")
        assert shown() == before


def test_a_link_brings_everything_back(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url, case="long")
    explorer.kind("decoder")
    explorer.head(1, 3)
    explorer.root.locator("[data-part=hide-eos]").check()
    explorer.root.get_by_role("combobox", name="Order of the heads").select_option("spread")
    explorer.root.get_by_role("button", name="Words").click()
    explorer.token("target", 8).click()
    explorer.root.get_by_role("button", name="Lines").click()
    explorer.leave()
    wanted = {"view": "lines", "words": "1", "hide": "eos", "sort": "spread", "layer": "1"}
    expect_parameters(local_page, kind="decoder", head="3", q=explorer.says()["query"], **wanted)
    names = ("kind", "layer", "head", "view", "unit", "hide", "sort", "query", "key", "step")
    before = {name: explorer.says()[name] for name in names}
    local_page.reload()
    expect(explorer.root).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=30_000)
    assert {name: explorer.says()[name] for name in names} == before
    local_page.get_by_text("Another sentence").click()
    expect(explorer.root).to_have_attribute("data-query", "")
    local_page.wait_for_function("() => !new URLSearchParams(location.search).has('q')")


def test_a_wrong_link_shows_what_is_usual(local_page: Page, url: str) -> None:
    wrong = {"view": "cube", "hide": "me", "sort": "x", "quantity": "<b>", "mass": "7e9", "q": "99"}
    said = Explorer(local_page, url, **wrong, k="-1", words="2", combine="sum").says()
    usual = {"view": "map", "unit": "pieces", "hide": "", "sort": "layer", "quantity": "weights"}
    assert usual.items() <= said.items()
    assert (said["combine"], said["query"], said["key"]) == ("mean", "", "")


def test_every_control_has_a_name(local_page: Page, url: str) -> None:
    explorer = Explorer(local_page, url, view="lines")
    nameless = explorer.root.evaluate(
        """root => [...root.querySelectorAll("button, select, input, canvas[tabindex]")].filter(
            part => part.checkVisibility({visibilityProperty: true}) && !(part.ariaLabel
                || part.textContent.trim() || part.labels?.length)).map(part => part.outerHTML)"""
    )
    assert nameless == []


@pytest.mark.parametrize("width", [1920, 1280, 390])
def test_no_choice_moves_what_lies_below(local_page: Page, url: str, width: int) -> None:
    local_page.set_viewport_size({"width": width, "height": 900})
    explorer = Explorer(local_page, url)
    heights = {}
    for key in ("1", "w", "w", "2", "3", "."):
        local_page.locator("section[aria-label='Attention explorer']").press(key)
        heights[key] = round(explorer.root.bounding_box()["height"])
    assert len(set(heights.values())) == 1, heights
    main = local_page.get_by_test_id("stMain")
    assert main.evaluate("main => main.scrollWidth - main.clientWidth") == 0
    numbers = explorer.root.locator(".numbers-of-head").bounding_box()
    picture = explorer.root.locator(".right").bounding_box()
    if width == 1920:
        assert numbers["x"] > picture["x"] + picture["width"], "the numbers are a third column"
