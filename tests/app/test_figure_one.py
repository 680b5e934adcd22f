"""Figure 1 of the paper, redrawn: it follows the network, and its links keep the choices made."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections import Counter
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from app.components.figure_one.drawing import draw
from app.views.shared.glance import _PAGE_OF
from core.config import ModelConfig
from core.kinds import KINDS
from tests.app.axes import colours as colours_of
from tests.app.drawn import colour, drawn_component
from tests.app.page_checks import ROOT
from tests.app.rendered import render
from tests.app.test_navigation import settled

MAIN = ROOT / "app/main.py"
TINY = ModelConfig(
    source_vocab_size=50,
    target_vocab_size=1_070,
    d_model=16,
    num_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=3,
    dim_feedforward=1_024,
    norm_first=False,
    final_norm=False,
)
OTHER = dataclasses.replace(
    TINY, num_encoder_layers=6, num_decoder_layers=2, norm_first=True, final_norm=True
)


def figure(config: ModelConfig, *current: str):
    return draw(config, lambda block: f"page?{block}", current)


def column(data, left: bool) -> list[str]:
    """Return one stack's texts from bottom to top, without its positional encoding."""
    inside = [b for b in data["blocks"] if (b["box"][0] + b["box"][2] / 2 < 178) == left]
    inside = [b for b in inside if not b["id"].endswith("_positions")]
    inside.sort(key=lambda b: -b["box"][1])
    return [" ".join(filter(None, b["lines"])) for b in inside]


LOW = ["Inputs", "Input embedding"]
LOW_RIGHT = ["Outputs (shifted right)", "Output embedding"]
TOP = ["Linear", "Softmax", "Output probabilities"]
NAMES = ["Masked multi-head attention", "Multi-head attention", "Feed forward"]


def test_norms_are_drawn_where_the_network_has_them():
    """Post-norm as in the paper; pre-norm: norms below each layer, and one above each stack."""
    for config, around, end in (
        (TINY, lambda name: [name, "Add & norm"], []),
        (OTHER, lambda name: ["Norm", name, "Add"], ["Norm"]),
    ):
        data = figure(config)
        left, right = ([x for name in of for x in around(name)] for of in (NAMES[1:], NAMES))
        assert column(data, True) == [*LOW, *left, *end]
        assert column(data, False) == [*LOW_RIGHT, *right, *end, *TOP]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {},
            {
                "encoder": "2 heads in its one layer", "decoder": "2 heads in each of 3 layers",
                "cross": "2 heads in each of 3 layers", "feed": "1,024 hidden",
                "linear": "each of 1,070 tokens", "source_embedding": "16 numbers",
                "norm": "norms after each attention", "source_positions": "sines and cosines",
            },
        ),
        (
            {"num_heads": 1, "learned_positions": True, "norm_first": True, "final_norm": True},
            {
                "encoder": "1 head in its one layer", "target_positions": "a learned table",
                "norm": "norms before each attention",
            },
        ),
    ],
)  # fmt: skip
def test_blocks_say_the_numbers_of_the_network(changes, said):
    config = dataclasses.replace(TINY, **changes)
    about = {b["id"]: b["about"] for b in figure(config)["blocks"]}
    for block, words in said.items():
        assert words in about[block]
    assert ("each stack" in about["norm"]) == config.final_norm


def test_keys_and_values_of_cross_attention_come_from_the_encoder():
    data = figure(TINY)
    box = {b["id"]: b["box"] for b in data["blocks"]}

    def below(id: str) -> list:
        x, y, w, h = box[id]
        return [a for a in data["arrows"] if x < a[-1][0] < x + w and y + h <= a[-1][1] < y + h + 3]

    starts = sorted(arrow[0][0] for arrow in below("cross"))
    between = (box["encoder"][0] + box["encoder"][2] + box["cross"][0]) / 2
    middle = box["cross"][0] + box["cross"][2] / 2
    assert starts == [between, between, middle]
    assert [a[0][0] for a in below("decoder")] == [middle] * 3
    (memory,) = [line for line in data["lines"] if line[-1][0] == between]
    assert memory[0][0] == box["encoder"][0] + box["encoder"][2] / 2
    assert memory[0][1] < box["encoder"][1], "the line starts above the encoder"


@pytest.mark.parametrize("config", [TINY, OTHER], ids=["post-norm", "pre-norm"])
def test_every_arrow_leads_up_or_inwards_to_a_block(config):
    """The network is computed from the bottom up: an arrow that points down would be wrong."""
    data = figure(config)
    boxes = [block["box"] for block in data["blocks"]]
    for x, y, w, h in boxes:
        assert x >= 0 and y >= 0 and x + w <= data["width"] and y + h <= data["height"]
    for (x, y, w, h), (x2, y2, w2, h2) in itertools.combinations(boxes, 2):
        assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 + 1e-9 or y2 + h2 <= y + 1e-9, "overlap"
    targets = {i: block["box"] for i, block in enumerate(data["blocks"])}
    targets |= {f"sum {x}": (x - 7, y - 7, 14, 14) for x, y in data["sums"]}
    count = Counter()
    for arrow in data["arrows"]:
        assert all(y2 <= y1 for (_, y1), (_, y2) in itertools.pairwise(arrow)), arrow
        (from_x, from_y), (x, y) = arrow[-2:]
        reached = [
            (name, left, top, wide, tall)
            for name, (left, top, wide, tall) in targets.items()
            if left - 3 <= x <= left + wide + 3 and top - 3 <= y <= top + tall + 3
        ]
        assert len(reached) == 1, arrow
        name, left, top, wide, tall = reached[0]
        count[name] += 1
        if x == from_x:
            assert from_y > y >= top + tall - 0.01, f"{arrow} does not reach from below"
        else:
            edge = left if x > from_x else left + wide
            assert y == from_y and x == pytest.approx(edge), f"{arrow} does not reach from a side"
    # Nothing leads to the inputs and the positions. A sum and an “Add” have two summands.
    expected = {
        i: 0 if block["id"].endswith(("puts", "positions")) else 3 if block["id"] in KINDS
        else 2 if "Add" in block["lines"][0] else 1
        for i, block in enumerate(data["blocks"])
    }  # fmt: skip
    assert {i: count[i] for i in targets} == expected | {f"sum {x}": 2 for x, _ in data["sums"]}


@pytest.mark.parametrize(("config", "theme"), [(TINY, "light"), (OTHER, "dark")])
def test_the_picture_has_the_lines_tips_and_texts_of_the_layout(page: Page, config, theme):
    data = {**figure(config, "cross", "norm"), "follow": ""}
    colours = colours_of(theme)
    drawn = drawn_component(page, "figure_one", ".figure-one", data, theme)
    lines = drawn(
        "polyline", "[at.getAttribute('points'), getComputedStyle(at).stroke, "
        "at.parentElement.querySelector('.tip')?.getAttribute('points') ?? '']"
    )  # fmt: skip
    points = lambda text: [tuple(map(float, pair.split(","))) for pair in text.split()]  # noqa: E731
    expected = [(line, False) for line in data["lines"]] + [(one, True) for one in data["arrows"]]
    assert len(lines) == len(expected)
    for (line, stroke, tip), (path, is_arrow) in zip(lines, expected, strict=True):
        assert points(line) == [tuple(point) for point in path]
        assert colour(stroke) == colours["third"] and bool(tip) == is_arrow
        if not is_arrow:
            continue
        end, *back = points(tip)
        assert end == points(line)[-1], "the tip is at the end"
        along = np.sign(np.subtract(path[-1], path[-2]))
        behind = [float(np.dot(np.subtract(point, end), along)) for point in back]
        aside = [float(np.dot(np.subtract(point, end), along[::-1])) for point in back]
        assert max(behind) < -2 and aside[0] == pytest.approx(-aside[1]) and abs(aside[0]) > 2
    crosses = drawn("circle", "[+at.getAttribute('cx'), +at.getAttribute('cy')]")
    assert crosses == [list(place) for place in data["sums"]]
    frames = drawn("rect.frame", "['x', 'y', 'width', 'height'].map((n) => +at.getAttribute(n))")
    assert frames == [list(frame["box"]) for frame in data["frames"]]
    counts = drawn(".count", "[at.textContent, +at.getAttribute('x'), +at.getAttribute('y')]")
    for (words, x, y), (left, top, wide, _) in zip(counts, frames, strict=True):
        assert left < x < left + wide and y < top, "above its own stack"
        layers = (config.num_encoder_layers, config.num_decoder_layers)[left > data["width"] / 2]
        assert words == f"{layers}×"
    blocks = drawn(
        ".block", "[at.dataset.block, [...at.querySelectorAll('text')].map((t) => t.textContent), "
        "['x', 'y', 'width', 'height'].map((n) => +at.querySelector('rect').getAttribute(n)), "
        "[...at.querySelectorAll('text')].map((t) => ['x', 'y'].map((n) => +t.getAttribute(n))), "
        "getComputedStyle(at.querySelector('rect')).fill, "
        "getComputedStyle(at.querySelector('text')).fill]"
    )  # fmt: skip
    for (id, words, box, places, fill, ink), block in zip(blocks, data["blocks"], strict=True):
        left, top, wide, tall = block["box"]
        assert (id, words, box) == (block["id"], list(block["lines"]), [left, top, wide, tall])
        middle = np.mean(places, axis=0)
        assert middle == pytest.approx([left + wide / 2, top + tall / 2])
        assert [y for _, y in places] == sorted(y for _, y in places)
        inverted = id in ("cross", "norm") and block["boxed"]
        if block["boxed"]:
            assert colour(fill) == colours["ink" if inverted else "page"], id
        assert colour(ink) == colours["page" if inverted else "ink"], id
    said = next(block["about"] for block in data["blocks"] if block["id"] == "cross")
    assert drawn("figcaption", "at.textContent") == [f"In view: {said}."]


@pytest.mark.parametrize(
    ("page", "current"),
    [
        ("masks", {"encoder", "decoder", "cross"}),
        ("positions", {"source_positions", "target_positions"}),
        ("head", {"cross"}),
        ("steps", {"softmax", "outputs"}),
        ("why", {"encoder", "decoder", "cross", "feed", "linear", "softmax"}),
    ],
)
def test_a_lesson_highlights_its_blocks_and_does_not_link_to_itself(page, current):
    sentence = "A dog & a cat."
    query = {"direction": "en-de", "model": "captions", "search": "greedy", "source": sentence}
    data = render(page, **query).payload("figure_one")
    assert set(data["current"]) == current
    if page != "head":
        assert data["inView"].startswith("In view: the ")
    config = json.loads((ROOT / "checkpoints/captions-en-de/config.json").read_text())["model"]
    layers = [f"{config[f'num_{side}_layers']}×" for side in ("encoder", "decoder")]
    assert [frame["label"] for frame in data["frames"]] == layers
    for block in data["blocks"]:
        leads_to, kind = _PAGE_OF[block["id"]], {}
        if leads_to == page != "head":
            assert block["href"] is None
            continue
        if leads_to == "head":
            kind = {"kind": block["id"]}
        link = urlsplit(block["href"])
        assert (link.path, dict(parse_qsl(link.query))) == (leads_to, query | kind)


def test_the_head_page_highlights_its_kind():
    for kind in KINDS:
        assert render("head", kind=kind).payload("figure_one")["current"] == [kind]


def test_the_figure_follows_the_explorer_and_leads_to_a_block(local_page: Page, serve):
    query = "direction=en-de&model=captions&source=A+dog+runs.&kind=decoder"
    local_page.goto(f"{serve(MAIN)}/?{query}")
    explorer = local_page.locator("section[aria-label='Attention explorer']")
    expect(explorer).to_have_attribute("data-kind", "decoder", timeout=60_000)
    expect(explorer).to_have_attribute("data-painted", re.compile(r"\d+"))
    painted = local_page.locator(".st-key-model_note")
    expect(painted).to_contain_text("layers")
    local_page.get_by_role("button", name="Where in the model?").click()
    figure = local_page.locator(".figure-one")
    current = figure.locator("[aria-current]")
    expect(current).to_have_attribute("data-block", "decoder")
    expect(figure.locator("figcaption")).to_contain_text("In view: Masked decoder self-attention")
    local_page.keyboard.press("Escape")
    expect(figure).to_be_hidden()
    explorer.get_by_role("button", name="Encoder").click()
    settled(local_page)  # a run of the page closes the figure
    local_page.get_by_role("button", name="Where in the model?").click()
    expect(current).to_have_attribute("data-block", "encoder")
    expect(figure.locator("figcaption")).to_contain_text("In view: Encoder self-attention")
    figure.get_by_role("link", name="Positional encoding of the source").click()
    heading = local_page.get_by_role("heading", level=1)
    expect(heading).to_have_text("Positions", timeout=60_000)
    expect(local_page.locator(".st-key-source textarea")).to_have_value("A dog runs.")
    for parameter in (r"source=A\+dog\+runs\.", "direction=en-de", "model=captions"):
        expect(local_page).to_have_url(re.compile(rf"/positions\?.*{parameter}"))
    idle = local_page.locator("[data-testid=stApp][data-test-script-state=notRunning]")
    expect(idle).to_be_visible(timeout=60_000)
    local_page.go_back()
    expect(heading).to_have_text("See where each attention head looks", timeout=60_000)


def test_the_figure_is_beside_a_lesson_where_there_is_room(local_page: Page, serve):
    local_page.set_viewport_size({"width": 1280, "height": 720})
    local_page.goto(f"{serve(MAIN)}/masks")
    beside = local_page.locator(".st-key-figure_beside figure")
    popover = local_page.locator(".st-key-glance button")
    question = local_page.locator(".st-key-question_masks")
    expect(beside).to_be_visible(timeout=60_000)
    expect(beside.locator("[data-block=decoder]")).to_have_attribute("aria-current", "true")
    expect(popover).not_to_be_visible()
    translate, source = (
        local_page.locator(f".st-key-{name}").bounding_box() for name in ("translate", "source")
    )
    assert translate["x"] > source["x"] + source["width"] - 1, "the button is beside its box"
    figure = beside.bounding_box()
    assert figure["x"] + figure["width"] <= 1280 and figure["y"] < 120
    assert question.bounding_box()["x"] + question.bounding_box()["width"] <= figure["x"]
    for width in (1024, 390):
        local_page.set_viewport_size({"width": width, "height": 768})
        expect(beside).not_to_be_visible()
        expect(popover).to_be_visible()
        box = question.bounding_box()
        assert box["width"] > 0.85 * (width - (248 if width > 700 else 0)) - 100, "not squeezed"
