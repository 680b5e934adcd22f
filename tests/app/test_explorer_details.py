"""The explorer's details: copying, tooltips, panels, valid XML, forced colours, number formats."""

# ruff: noqa: E501 (lines of script)

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from app.components.assets import joined
from app.components.explorer.payload import payload
from app.look.glossary import TERMS
from app.look.numbers import number, percent
from tests.app.drawn import marks_of, record
from tests.app.explorer_harness import Token, synthetic_record
from tests.app.mounted import Mounted, plain

SHARED = Path(__file__).parents[2] / "app/components/shared"
VIEW = {"kind": "cross", "layer": 0, "head": 0}
RECORD = replace(
    synthetic_record("short", 2, 3), translation="A man in a red shirt talks to a dog."
)


@pytest.fixture(scope="module")
def at(browser: Browser) -> Iterator[Mounted]:
    context = browser.new_context(viewport={"width": 1000, "height": 1000})
    page = context.new_page()
    record(page)
    yield Mounted(page)
    context.close()


@pytest.fixture
def shown(at: Mounted) -> Mounted:
    at.show(payload(RECORD, VIEW))
    return at


def middle(page: Page, selector: str) -> tuple[float, float]:
    box = page.locator(selector).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def pasted(page: Page) -> str:
    """Paste the clipboard into a text box and return the text."""
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<textarea id=box></textarea>')")
    page.locator("#box").focus()
    page.keyboard.press("Control+v")
    text = page.locator("#box").input_value()
    page.evaluate("document.querySelector('#box').remove()")
    return text


def test_the_translation_is_copied_without_the_clipboard_api(shown: Mounted) -> None:
    assert shown.page.evaluate("navigator.clipboard === undefined"), "no TLS here"
    shown.page.locator("[data-part=save-button]").click()
    shown.page.locator("[data-part=copy]").click()
    expect(shown.page.locator("[data-part=copy]")).to_have_text("Copied")
    assert pasted(shown.page) == RECORD.translation


@pytest.mark.parametrize(
    ("side", "first", "last", "text"),
    [
        ("target", 0, 11, RECORD.translation),
        ("target", 1, 11, RECORD.translation),
        ("target", 9, 5, "red shirt talks to a"),
        ("target", 9, 11, "a dog."),
        ("source", 5, 8, "Hemd spricht mit"),
        ("source", 6, 6, "sprich"),
    ],
)
def test_selected_tokens_are_plain_text(
    shown: Mounted, side: str, first: int, last: int, text: str
) -> None:
    page = shown.page
    places = [middle(page, f".{side} .token[data-index='{index}']") for index in (first, last)]
    page.mouse.move(places[0][0] - 6, places[0][1])
    page.mouse.down()
    page.mouse.move(*places[0])
    page.mouse.move(places[1][0] + 6, places[1][1], steps=6)
    page.mouse.up()
    page.keyboard.press("Control+c")
    assert pasted(page) == text


def test_opening_a_panel_closes_the_others(shown: Mounted) -> None:
    for part, button in (("checks", "badge"), ("keys", "keys-button"), ("help", "help-button")) * 2:
        said = shown.does(("press", f"[data-part={button}]"))
        open_panels = [name for name in ("checks", "keys", "help") if name not in said["hidden"]]
        assert open_panels == [part]
    shown.page.keyboard.press("Escape")
    said = shown.does()
    assert {"checks", "keys", "help"} <= set(said["hidden"])


def test_explanations_below_the_map_are_scrolled_into_view(at: Mounted) -> None:
    at.show(payload(RECORD, VIEW))
    size = at.page.viewport_size
    at.page.set_viewport_size({"width": 1200, "height": 500})
    at.does(("press", "[data-part=help-button]"))
    top = at.page.locator("[data-part=help]").bounding_box()["y"]
    at.page.set_viewport_size(size)
    assert top < 450


def test_terms_are_explained_in_place(at: Mounted) -> None:
    """Tooltips explain the terms, many in the glossary's words, and reach screen readers too."""
    numbers = {
        "norms": {kind: np.abs(getattr(RECORD, kind)) for kind in ("encoder", "decoder", "cross")}
    }
    at.show(payload(RECORD, VIEW, quantities=numbers))
    said = at.does()
    assert said["titles"]["quantity"] == TERMS["weight"]
    assert (
        at.does(("set", "[data-part=quantity]", "norms"))["titles"]["quantity"]
        == (TERMS["value norms"])
    )
    assert said["titles"]["score"] == f"{TERMS['log-probability']} {TERMS['nats']}"
    assert said["titles"]["unpin"].startswith("A click on a word or a cell pins it")
    assert said["target"][0]["title"] == TERMS["<bos>"]
    assert said["target"][-1]["title"] == said["source"][-1]["title"] == TERMS["<eos>"]
    for attribute, begins in (
        ("data-kind-option=encoder", "Encoder: "),
        ("data-kind-option=decoder", "Decoder: "),
        ("data-kind-option=cross", "Cross: "),
        ("data-combine-option=mean", "Mean: "),
        ("data-combine-option=max", "Maximum: "),
        ("data-part=sort", "Heads are in layer order"),
    ):
        part = at.page.locator(f"[{attribute}]")
        assert part.get_attribute("title").startswith(begins)
        assert part.get_attribute("aria-description") == part.get_attribute("title")
    rows = at.page.locator(".statistic:not(.missing)")
    said = dict(
        zip(
            rows.locator("dt").all_inner_texts(),
            rows.evaluate_all("all => all.map(at => at.title)"),
            strict=True,
        )
    )
    assert said["entropy"] == TERMS["entropy"]
    assert said["off the diagonal"].startswith(
        "Off the diagonal: how many positions the attended keys are away"
    )
    at.does(("set", "[data-part=quantity]", "weights"))
    place = at.page.evaluate(
        """() => {
            const map = root().querySelector("[data-part=map]");
            const box = map.getBoundingClientRect();
            const { left, top, cell } = map.dataset;
            const rows = 12, columns = 13;
            const over = (x, y) => {
                map.dispatchEvent(new PointerEvent("pointermove",
                    { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
                return map.title;
            };
            const ends = [Number(left) + columns * cell, Number(top) + rows * cell];
            return [over(left - 20, ends[1] + 20), over(ends[0] + 20, ends[1] - 10), over(ends[0] - 10, ends[1] - 10)];
        }"""
    )
    assert place[0].startswith("Share received: the share of this map")
    assert place[1:] == [TERMS["entropy"], ""]


HOSTILE = 'a\x01 \x1b \ufffe\uffff <b> & " ]]> \u202e \x7f\x00'


def test_a_saved_picture_of_any_text_is_xml(at: Mounted) -> None:
    words = [Token(text) for text in ("\x01", "\ufffe", "<b>", "a\x1bb", "]]>", "&", '"')]
    source = (*words, *RECORD.source[len(words) :])
    record = replace(RECORD, source=source, source_text=HOSTILE, translation=HOSTILE)
    at.show(payload(record, VIEW))
    for name in ("map-svg", "overview-svg"):
        root = ElementTree.fromstring(at.saves(name))
        about = root.find("{http://www.w3.org/2000/svg}desc").text
        assert "a‹U+0001› ‹U+001B› ‹U+FFFE›‹U+FFFF›" in about and "‹U+0000›" in about
    at.does(("press", "[data-view-option=lines]"))
    ElementTree.fromstring(at.saves("map-svg"))
    assert at.page.evaluate("legalInXml('a\\ud800b\\u{1F600}')") == "a‹U+D800›b\U0001f600"


PLACES = """(all) => all.map((at) =>
    [at.offsetLeft, at.offsetTop, at.offsetWidth, at.offsetTop + at.offsetHeight])"""


@pytest.mark.parametrize(
    ("width", "heads", "sort"),
    [
        *((1440, 4, "layer"), (1440, 8, "spread"), (1440, 12, "layer"), (1000, 16, "spread")),
        *((390, 4, "spread"), (390, 8, "layer")),
    ],
)
def test_captions_neither_overlap_nor_lose_digits(at: Mounted, width: int, heads: int, sort: str):
    at.page.set_viewport_size({"width": width, "height": 900})
    at.show(payload(synthetic_record("short", 4, heads), {**VIEW, "sort": sort}))
    places = at.page.locator("#host .thumbnail:not(.missing)").evaluate_all(PLACES)
    texts = marks_of(at.page.locator("#host .overview-maps"), "text")
    numbers = 0
    for left, top, size, below in places:
        under = [m for m in texts if m.x == left and top + size < m.y < below + 2]
        nexts = [p[0] for p in places if p[1] == top and p[0] > left]
        for mark in under:
            words, end = plain(mark.words), mark.x + mark.width
            assert end <= min(nexts, default=1e9) + 0.5, f"{words} runs into the next head"
            assert end <= left + size + 1.5, f"{words} leaves its thumbnail's column"
            assert float(re.findall(r"([\d.]+)px", mark.font)[0]) >= 9.5
            if re.search(r"\d", words) and not words.endswith("back"):
                whole = r"[<>]?[−+]?\d[\d,]*(\.\d+)?( ?%| b)?"
                assert re.fullmatch(whole, words), f"{words} is not a whole number"
            numbers += bool(re.search(r"\d", words))
    if heads == 4:
        assert len(texts) >= numbers >= len(places), "with few heads every number is drawn"
    if heads == 16:
        room = places[0][3] - places[0][1] - places[0][2]
        assert not texts and room < 3, "no caption, and no room for one"
    assert len({top for _, top, *_ in places}) > 4
    line = at.page.evaluate("root().querySelector('.overview-caption').hidden")
    assert line == (heads <= 5)


def test_the_caption_of_the_chosen_or_pointed_head_is_written_in_full(at: Mounted) -> None:
    record = synthetic_record("short", 12, 16)
    at.show(payload(record, {**VIEW, "kind": "cross", "layer": 9, "head": 12, "sort": "spread"}))
    line = "root().querySelector('.overview-caption').textContent"

    def entropy(layer: int, head: int) -> float:
        weights = record.cross[layer, head].astype(float)
        bits = -(weights * np.log2(np.where(weights > 0, weights, 1))).sum(-1)
        return float(bits.mean())

    def shown(layer: int, head: int) -> str:
        said = re.fullmatch(
            rf"Head {head + 1} of layer {layer + 1}: ([\d.]+) bits",
            plain(at.page.evaluate(line)),
        )
        assert said, at.page.evaluate(line)
        assert float(said[1]) == pytest.approx(entropy(layer, head), abs=0.06)
        return said[1]

    chosen = shown(9, 12)
    point = """([type, layer, head]) => root()
        .querySelector(`.thumbnail[data-l="${layer}"][data-h="${head}"]`)
        .dispatchEvent(new PointerEvent(type, { bubbles: true, pointerType: "mouse" }))"""
    at.page.evaluate(point, ["pointerover", 3, 15])
    assert shown(3, 15) != chosen
    at.page.evaluate(
        "root().querySelector('.overview').dispatchEvent(new PointerEvent('pointerleave'))"
    )
    assert shown(9, 12) == chosen
    at.does(("press", '.thumbnail[data-l="2"][data-h="3"]'))
    shown(2, 3)


def test_forced_colours_show_pins_and_shades(browser: Browser) -> None:
    context = browser.new_context(forced_colors="active", viewport={"width": 1000, "height": 1000})
    at = Mounted(context.new_page())
    at.show(payload(RECORD, VIEW))
    at.does(("press", ".target .token[data-index='4']"))
    look = """(selector) => {
        const { outlineStyle, outlineWidth, backgroundColor, color } =
            getComputedStyle(root().querySelector(selector));
        return { outlineStyle, outlineWidth, backgroundColor, color };
    }"""
    pinned = at.page.evaluate(look, ".token.pinned")
    assert (pinned["outlineStyle"], pinned["outlineWidth"]) == ("solid", "3px")
    best = int(RECORD.cross[0, 0, 3].argmax())
    shaded = f".source .token[data-index='{best}']"
    own = at.page.evaluate(f'root().querySelector("{shaded}").style.background')
    assert own and at.page.evaluate(look, shaded)["backgroundColor"] == own
    chip = at.page.evaluate("root().querySelector('.readout .weight').style.background")
    assert at.page.evaluate(look, ".readout .weight")["backgroundColor"] == chip
    bar = at.page.evaluate(look, ".target .token[data-index='4'] .probability i")
    ground = at.page.evaluate(look, ".target .token[data-index='4'] .probability")
    assert bar["backgroundColor"] != ground["backgroundColor"]
    at.does(("press", ".source .token[data-index='1']"))
    assert at.page.evaluate(look, ".map-box")["backgroundColor"] == "rgb(255, 255, 255)"
    context.close()


@pytest.mark.parametrize("digits", [0, 1, 2, 3, 4])
def test_numbers_are_formatted_as_in_python(blank: Page, digits: int) -> None:
    random = np.random.default_rng(digits)
    values = [0.0, -0.0, 1.0, 0.125, 0.375, -0.125, 2.5, 3.5, -0.0004, 1234.5678, -1234567.0]
    values += [*random.normal(0, 1, 60), *(10 ** random.uniform(-5, 4, 60)), *(np.arange(17) / 16)]
    values = [float(value) for value in values]
    found = blank.evaluate(
        f"""([values, digits]) => {{
            {joined(SHARED / "numbers.js")}
            return values.map((value) => [fixed(value, digits), signed(value, digits), percent(value)]);
        }}""",
        [values, digits],
    )
    for value, (text, sign, share) in zip(values, found, strict=True):
        assert text == number(value, digits)
        assert sign == number(value, digits, "+")
        if value <= 1 and not np.signbit(value):
            assert share == percent(value)
    shares = [0.0, 1e-5, 0.0004, 0.004, 0.005, 0.006, 0.5, 0.994, 0.995, 0.996, 0.9996, 1.0]
    assert blank.evaluate(
        f"(shares) => {{ {joined(SHARED / 'numbers.js')} return shares.map((share) => percent(share)); }}",
        shares,
    ) == [percent(share) for share in shares]


def test_a_rounded_share_has_no_decimal_and_no_exact_end(blank: Page) -> None:
    script = joined(SHARED / "numbers.js")
    found = blank.evaluate(
        f"""() => {{ {script}
            return [0, 0.004, 0.3, 0.994, 0.996, 1].map((share) => percent(share, 1 / 255)); }}"""
    )
    assert [re.sub("\u00a0", " ", text) for text in found] == [
        "<1 %",
        "<1 %",
        "30 %",
        "99 %",
        ">99 %",
        ">99 %",
    ]
    chances = [0, 0.003, 0.005, 0.25, 0.994, 0.996, 1]
    assert blank.evaluate(f"(all) => {{ {script} return all.map(chance); }}", chances) == [
        "0.00",
        "<0.01",
        f"{0.005:.2f}",
        "0.25",
        "0.99",
        ">0.99",
        "1.00",
    ]


def test_adjacent_tokens_are_joined_as_text(blank: Page) -> None:
    tokens = [
        {"label": label, "special": label.startswith("<"), "startsWord": starts, "close": close}
        for label, starts, close in (
            ("<bos>", True, False),
            ("Ha", True, False),
            ("us", False, False),
            (".", True, True),
            ("<eos>", True, False),
        )
    ]
    script = joined(SHARED.parent / "explorer/copy.js")
    expected = {(1, 2): "Haus", (2, 3): "us.", (1, 3): "Ha.", (1, 2, 3): "all of it"}
    for chosen in itertools.chain(expected, [(3,)]):
        text = blank.evaluate(
            f"([tokens, chosen]) => {{ {script} return plainText(tokens, 'all of it', new Set(chosen)); }}",
            [tokens, list(chosen)],
        )
        assert text == expected.get(chosen, ".")


def failing(count: int) -> tuple:
    return tuple(
        replace(check, figure=1.0) if place < count else check
        for place, check in enumerate(RECORD.checks)
    )


EDITS = {
    "text": "causal~hide.2", "edits": [{"text": "causal", "label": "no causal mask"},
    {"text": "hide.2", "label": "word hidden"}], "problems": [], "before": -3.64, "change": None,
}  # fmt: skip
LOOKS = "English words look at German words: choose one."
BY_DISTANCE = replace(RECORD.checks[0], words="softmax(QKᵀ + bias by distance + mask). Shown: 0.")
NO_RECOMPUTATION = tuple(check for check in RECORD.checks if "Recomputed" not in check.name)


@pytest.mark.parametrize(
    ("record", "more", "claim", "badge"),
    [
        (RECORD, {}, f"{LOOKS} Real weights, recomputed from Q, K and mask.", "8 of 8"),
        (replace(RECORD, decode=None), {}, f"{LOOKS} Real weights, recomputed from Q, K and mask.", "8 of 8"),
        (replace(RECORD, checks=(BY_DISTANCE, *RECORD.checks[1:])), {},
         f"{LOOKS} Real weights, recomputed from Q, K, bias by distance and mask.", "8 of 8"),
        (replace(RECORD, checks=NO_RECOMPUTATION), {}, f"{LOOKS} Real weights.", "7 of 7"),
        (replace(RECORD, checks=()), {"checked": "pending"}, f"{LOOKS} Real weights.", None),
        (replace(RECORD, checks=failing(2)), {}, "Do not trust these pictures. 2 of 8 checks failed.", "6 of 8"),
        (RECORD, {"checked": "elsewhere"}, "Saved maps. They were not recomputed here.", None),
        (RECORD, {"checked": "never"}, "Maps of an edited pass. They were not recomputed here.", None),
        (RECORD, {"what_if": EDITS}, "2 edits: no causal mask; word hidden.", "8 of 8"),
        (RECORD, {"what_if": {**EDITS, "edits": EDITS["edits"][:1], "change": [-1.0, *[0.0] * (len(RECORD.target_out) - 1)]}},
         "One edit: no causal mask. Log-probability of the first translation: −3.6 → −4.6.", "8 of 8"),
        (RECORD, {"what_if": {**EDITS, "edits": EDITS["edits"][:1], "change": [-1.0, -0.04, *[0.0] * (len(RECORD.target_out) - 3), -0.3]}},
         "One edit: no causal mask. Log-probability of the first translation: −3.6 → −5.0 (of the change, −0.3 is too small to show).", "8 of 8"),
    ],
)  # fmt: skip
def test_the_first_line_claims_what_the_checks_show(at: Mounted, record, more, claim, badge):
    at.show(payload(record, VIEW, **more))
    said = at.does()
    assert said["parts"]["claim"] == claim
    assert ("badge" in said["hidden"]) == (badge is None)
    if badge:
        assert said["parts"]["badge"] == f"Pictures checked: {badge}"


@pytest.mark.parametrize("alone", [2, 3])
def test_a_row_names_what_most_heads_look_at_if_this_one_does_not(at: Mounted, alone: int) -> None:
    """Of six heads, the first `alone` look at the sixth key, the others at the third."""
    cross = np.full_like(RECORD.cross, 0.5 / RECORD.cross.shape[-1])
    cross.reshape(6, *cross.shape[2:])[:alone, 8, 5] += 0.5
    cross.reshape(6, *cross.shape[2:])[alone:, 8, 2] += 0.5
    at.show(payload(replace(RECORD, cross=cross), VIEW | {"q": 8}))
    words = f"; {6 - alone} of 6 heads look most at {RECORD.source[2].text}"
    assert at.does()["first"].endswith(words) == (alone == 2)


def test_a_side_without_a_language_is_named_by_its_role(at: Mounted) -> None:
    at.show(payload(replace(RECORD, target_language="digits"), VIEW))
    assert at.does()["parts"]["claim"].startswith("Target words look at German words: choose one.")


def test_derived_weights_are_not_called_real(at: Mounted) -> None:
    at.show(payload(RECORD, VIEW | {"words": 1}))
    claim = at.does()["parts"]["claim"]
    assert claim == f"{LOOKS} Derived from the real weights of this pass."


def test_other_quantities_are_named_in_the_first_line(at: Mounted) -> None:
    numbers = {kind: np.abs(getattr(RECORD, kind)) for kind in ("encoder", "decoder", "cross")}
    at.show(payload(RECORD, VIEW, quantities={"norms": numbers}))
    said = at.does(("set", "[data-part=quantity]", "norms"))
    claim = "Value-weighted norms. Computed from the tensors of this translation."
    assert said["parts"]["claim"] == claim and "badge" in said["hidden"]


def test_means_and_shares_of_columns_are_options(shown: Mounted) -> None:
    heads = ".thumbnail:not(.missing)"
    share = "share received"

    def seen() -> tuple[int, bool]:
        marks = marks_of(shown.page.locator("#host [data-part=map]"))
        return shown.page.locator(heads).count(), any(mark.words == share for mark in marks)

    assert seen() == (3 * 4, True), "tests open all options"
    shown.does(("press", "[data-part=means]"), ("press", "[data-part=bars]"))
    assert seen() == (2 * 3, False)
    said = shown.does(("press", "[data-combine-option=max]"))
    assert seen() == (3 * 4, False), "how maps are combined is about these maps"
    assert said["data"]["combine"] == "max"
