"""The page without a server, opened from a disk with the network off."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from hashlib import sha256
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect
from safetensors.numpy import load_file

import core
from app.benchmark.offline import actions, sentences
from app.components.assets import joined
from app.examples import EXAMPLES
from app.export import offline, rounding
from app.export.weights import as_text, pack
from app.look.certainty import certainty_of, lines
from app.look.labels import label, segments
from app.look.numbers import percent
from app.state import models
from app.state.small_runs import as_zip
from app.views.shared import export
from core.analysis.quality_warnings import (
    least_certain,
    quality_warnings,
)
from core.checkpoint.certainty import mean_probability
from core.checkpoint.folder import read_card
from core.config import DecodeConfig
from core.record.edits import Donor, EditError, Edits
from core.record.record import TranslationRecord
from core.small.checkpoint import save
from core.small.examples import Examples
from core.small.history import History
from core.small.run import SmallConfig, SmallRun
from core.text.tokenizer import typography
from core.translator import InputError, Translator
from tests.app.conftest import opened_offline
from tests.app.explorer_parts import choose
from tests.app.rendered import render

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {d: ROOT / f"checkpoints/captions-{d}" for d in ("de-en", "en-de")}  # small: fast to open
EXAMPLE = EXAMPLES[0].text("de-en")
SHORT = "Ein Hund läuft durch den Schnee."
Visit = Callable[..., Page]
TEMPTING = "http://127.0.0.1:9/"  # requested by a test, blocked by the policy


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """On a busy machine a translation takes longer than the usual five seconds."""
    expect.set_options(timeout=15_000)
    yield
    expect.set_options(timeout=5_000)


@pytest.fixture(scope="module")
def translators() -> dict[str, Translator]:
    return {d: Translator.load(folder, "cpu") for d, folder in FOLDERS.items()}


@pytest.fixture(scope="module")
def inspect(translators) -> Callable[..., TranslationRecord]:
    def inspect(text: str, direction: str = "de-en", beam: int = 5, **options) -> TranslationRecord:
        return translators[direction].inspect(text, decode=DecodeConfig(beam=beam), **options)

    return inspect


def opened(context: BrowserContext, file: Path, **link: object) -> AbstractContextManager[Page]:
    """Open the file at a link; fail if the page makes a request or raises an error."""
    return opened_offline(context, f"{file.as_uri()}#{urlencode(link)}", file.as_uri(), TEMPTING)


@pytest.fixture
def fresh(offline_context, offline_file) -> Iterator[Visit]:
    """Return `fresh(**link) -> page`, which loads a page and waits for its first result."""
    with ExitStack() as stack:

        def fresh(**link: object) -> Page:
            page = stack.enter_context(opened(offline_context, offline_file, **link))
            shown(page)
            return page

        yield fresh


@pytest.fixture(scope="module")
def loaded(offline_context, offline_file) -> Iterator[Page]:
    with opened(offline_context, offline_file, source="Hallo.") as page:
        shown(page)
        yield page


@pytest.fixture
def visit(loaded) -> Visit:
    """Return `visit(**link) -> page`, which opens a link in the module's already loaded page."""

    def visit(**link: object) -> Page:
        loaded.evaluate(
            """async (hash) => {
              if (location.hash === hash) return;
              await new Promise((resolve) => {
                addEventListener("popstate", resolve, { once: true });
                location.hash = hash;
              });
            }""",
            f"#{urlencode({'direction': 'de-en'} | link)}",
        )
        shown(loaded)
        return loaded

    return visit


def explorer(page: Page) -> Locator:
    return page.locator(".explorer[data-painted]")


def part(page: Page, name: str) -> Locator:
    return page.locator(f"[data-page='{name}']")


def shown(page: Page) -> None:
    """Wait until the page shows the result, or why there is none."""
    settled = part(page, "result").and_(page.locator("[aria-busy=false]"))
    expect(settled).to_have_count(1)


def translate(page: Page, text: str) -> None:
    source = page.get_by_label(re.compile("sentence$"))
    source.fill(text)
    source.press("Enter")
    shown(page)


def link(page: Page) -> dict[str, str]:
    return dict(parse_qsl(page.url.partition("#")[2]))


def tokens(page: Page, side: str) -> list[str]:
    """Return the tokens of a sentence as the explorer shows them, without numbers."""
    return explorer(page).locator(f"[data-part={side}] .token .form").all_inner_texts()


def view_of(page: Page, *names: str) -> list[str | None]:
    """Return data attributes of the explorer."""
    root = explorer(page)
    return [root.get_attribute(f"data-{name}") for name in names or ("kind", "layer", "head")]


def test_the_page_opens_from_a_disk_translates_and_keeps_its_view(fresh, inspect):
    page, record = fresh(), inspect(EXAMPLE)
    expect(part(page, "translation")).to_have_text(record.translation)
    assert tokens(page, "source") == [token.text for token in record.source]
    assert tokens(page, "target") == ["<bos>", *(token.text for token in record.target_out)]
    assert page.get_by_label("German sentence").input_value() == EXAMPLE
    (held,) = view_of(page, "checks")
    assert re.fullmatch(r"(\d+)/\1", held) and held != "0/0"
    badge = explorer(page).locator("[data-part=badge]")
    expect(badge).to_have_text(f"Pictures checked: {held.replace('/', ' of ')}")
    expect(explorer(page).locator("[data-part=not-checked]")).to_be_empty()
    expect(part(page, "problem")).to_be_empty()
    status = part(page, "status").inner_text()
    assert re.fullmatch(r"Beam 5, computed in this page in \d+ ms\.", status)
    explorer(page).locator("[data-kind-option=encoder]").click()
    explorer(page).locator(".thumbnail[data-l='1'][data-h='2']").click()
    explorer(page).locator("[data-view-option=lines]").click()
    expect(page).to_have_url(re.compile("view=lines"))
    wanted = link(page)
    assert wanted["view"] == "lines" and wanted["source"] == EXAMPLE
    assert [wanted[name] for name in ("kind", "layer", "head")] == ["encoder", "1", "2"]
    page.reload()
    shown(page)
    assert view_of(page) == ["encoder", "1", "2"] and link(page) == wanted
    lines = explorer(page).locator("[data-view-option=lines]")
    expect(lines).to_have_attribute("aria-pressed", "true")


def test_links_open_their_view_and_cell(visit, inspect):
    """Links of the app have `search=greedy` or `search=beam`, and name a model."""
    record = inspect(SHORT, beam=1)
    query, key = map(int, np.unravel_index(record.cross[2, 1].argmax(), record.cross.shape[2:]))
    cell = {"kind": "cross", "layer": 2, "head": 1, "q": query, "k": key}
    page = visit(source=SHORT, search="greedy", model="scratch", **cell)
    assert view_of(page) == ["cross", "2", "1"]
    assert view_of(page, "query", "key") == [str(query), str(key)]
    weight = float(view_of(page, "weight")[0])
    assert weight == pytest.approx(record.cross[2, 1, query, key], abs=6e-5)
    expect(page.get_by_label("Search")).to_have_value("1")
    visit(source=SHORT, kind="encoder", layer=1, head=2)
    visit(source=SHORT, kind="decoder", layer=2, head=0, quantity="rollout")
    root = explorer(page)
    expect(root).to_have_attribute("data-kind", "decoder")
    expect(root).to_have_attribute("data-quantity", "rollout")
    assert link(page)["layer"] == "2" and link(page)["head"] == "0"
    page.go_back()
    expect(root).to_have_attribute("data-kind", "encoder")
    expect(root).to_have_attribute("data-quantity", "weights")


def test_enter_translates_and_back_returns(visit, inspect):
    page = visit()
    translate(page, SHORT)
    expect(part(page, "translation")).to_have_text(inspect(SHORT).translation)
    assert link(page)["source"] == SHORT
    page.go_back()
    expect(part(page, "translation")).to_have_text(inspect(EXAMPLE).translation)
    expect(page.get_by_label("German sentence")).to_have_value(EXAMPLE)
    page.go_forward()
    expect(part(page, "translation")).to_have_text(inspect(SHORT).translation)


def test_an_edit_is_painted_translated_again_and_undone(fresh, inspect):
    page = fresh(source=EXAMPLE, kind="cross", layer=2, head=3)
    before = explorer(page).get_attribute("data-sentence")
    explorer(page).locator("[data-part=switch-head]").click()
    edits = "off.cross.2.3"
    expect(explorer(page).locator(f"li[data-edit='{edits}']")).to_be_visible()
    assert link(page)["edits"] == edits
    again = inspect(EXAMPLE, edits=Edits.parse(edits)[0]).translation
    spoken = explorer(page).locator("[data-part=spoken]")
    expect(spoken).to_contain_text(f"writes: {again.rstrip('.')}")
    seen = explorer(page).locator(".edited-word .form").all_text_contents()
    words = "".join(re.sub("[\u2066-\u2069–]", "", " ".join(seen)).split())
    assert words == "".join(again.split())
    own, edited = inspect(EXAMPLE), explorer(page).get_attribute("data-sentence")
    changed = inspect(
        EXAMPLE, edits=Edits.parse(edits)[0], target_ids=tuple(t.id for t in own.target_out)
    )
    total = float(changed.log_prob - own.log_prob)
    said = explorer(page).locator("[data-part=edit-sum]").inner_text().replace("−", "-")
    assert float(re.search(r"changes by ([+-][\d.]+) nats", said)[1]) == pytest.approx(
        total, abs=2e-3
    )
    expect(part(page, "translation")).to_have_text(own.translation)
    page.reload()
    shown(page)
    expect(explorer(page).locator(f"li[data-edit='{edits}']")).to_be_visible()
    assert explorer(page).get_attribute("data-sentence") == edited != before
    page.go_back()
    expect(explorer(page).locator("li[data-edit]")).to_have_count(0)
    expect(explorer(page)).to_have_attribute("data-sentence", before)
    expect(explorer(page).locator("[data-part=edited-target]")).to_be_hidden()
    page.go_forward()
    explorer(page).get_by_role("button", name=re.compile("^Remove: ")).click()
    expect(explorer(page)).to_have_attribute("data-sentence", before)
    assert "edits" not in link(page)


def test_a_second_edit_joins_the_first_and_an_unknown_one_is_one_line(visit):
    page = visit(source=SHORT, kind="cross", layer=2, head=3, edits="hide.1~nonsense~hide.99")
    note = explorer(page).locator("[data-part=edit-note]").inner_text()
    assert "'nonsense' is ignored: unknown syntax" in note and "99" in note
    explorer(page).locator("[data-part=switch-head]").click()
    expect(explorer(page).locator("li[data-edit='off.cross.2.3']")).to_be_visible()
    assert link(page)["edits"] == "hide.1~hide.99~off.cross.2.3"
    page.get_by_label("German sentence").fill("Noch nicht fertig")
    explorer(page).get_by_role("button", name="Remove all").click()
    expect(explorer(page).locator("li[data-edit]")).to_have_count(0)
    assert "edits" not in link(page)
    expect(page.get_by_label("German sentence")).to_have_value("Noch nicht fertig")
    page.get_by_label("German sentence").fill(SHORT)


def test_head_effects_and_quantities_are_computed_in_the_page(visit, inspect, translators):
    page = visit(source=SHORT, kind="cross", layer=1, head=0, beam=1)
    record = inspect(SHORT, beam=1)
    offered = explorer(page).locator("[data-part=quantity] option")
    assert offered.all_text_contents() == [
        "weights", "scores", "value norms", "rollout",
    ]  # fmt: skip
    choose(explorer(page), "quantity", "scores")
    expect(explorer(page)).to_have_attribute("data-quantity", "scores")
    expect(explorer(page).locator(".waiting")).to_have_count(0)
    choose(explorer(page), "sort", "effect")
    first = explorer(page).locator(".thumbnail").first
    effects = core.head_effects(translators["de-en"], record).changes["cross"].sum(-1)
    largest = np.unravel_index(np.abs(effects).argmax(), effects.shape)
    expect(first).to_have_attribute("data-l", str(largest[0]))
    expect(first).to_have_attribute("data-h", str(largest[1]))


def test_the_page_opens_with_the_word_that_one_head_changes_most(fresh, inspect, translators):
    page, record = fresh(source=EXAMPLE), inspect(EXAMPLE)
    effects = core.head_effects(translators["de-en"], record).changes
    words = [t for t, token in enumerate(record.target_out) if token.text.isalpha()]
    rows = ((kind, np.abs(effects[kind][..., words])) for kind in ("decoder", "cross"))
    kind, sizes = max(rows, key=lambda one: one[1].max())
    layer, head, word = np.unravel_index(sizes.argmax(), sizes.shape)
    button = explorer(page).locator("[data-part=next-step]")
    expect(button).to_be_visible(timeout=30_000)
    expected = {"kind": kind, "layer": layer, "head": head, "query": words[word]}
    for name, value in expected.items():
        expect(explorer(page)).to_have_attribute(f"data-{name}", str(value))
    own = {k: of[..., words[word]] for k, of in effects.items()}
    needed = min(own, key=lambda k: own[k].min())
    at = np.unravel_index(own[needed].argmin(), own[needed].shape)
    button.click()
    expect(explorer(page).locator("[data-part=edited-target]")).to_be_visible()
    assert link(page)["edits"] == f"off.{needed}.{at[0]}.{at[1]}"


def test_a_given_target_is_shown_beside_the_networks_own(visit, inspect):
    page = visit(source=SHORT)
    page.get_by_text("Look at another translation").click()
    box = page.get_by_label("English translation to look at")
    box.fill("The dog is running.")
    box.press("Enter")
    expect(part(page, "translation")).to_have_text("The dog is running.")
    expect(part(page, "own")).to_have_text(
        f"The network itself writes: {inspect(SHORT).translation}"
    )
    assert link(page)["target"] == "The dog is running."
    translate(page, EXAMPLE)
    assert "target" not in link(page), "it belonged to the other sentence"
    page.get_by_label("German sentence").fill(SHORT)
    box.fill("A dog.")
    box.press("Enter")  # both are new
    expect(part(page, "translation")).to_have_text("A dog.")
    assert link(page)["source"] == SHORT
    translate(page, EXAMPLE)
    page.get_by_role("button", name="Use the reference").click()
    expect(part(page, "translation")).to_have_text(EXAMPLES[0].text("en"))


def test_the_page_translates_in_both_directions(visit, inspect):
    page = visit()
    page.get_by_label("English → German").check()
    counterpart = EXAMPLES[0].text("en")
    german = inspect(counterpart, "en-de").translation
    expect(part(page, "translation")).to_have_text(german)
    assert link(page)["direction"] == "en-de" and link(page)["source"] == counterpart
    translate(page, "A cat is sleeping.")
    own = inspect("A cat is sleeping.", "en-de").translation
    expect(part(page, "translation")).to_have_text(own)
    page.get_by_label("German → English").check()
    expect(part(page, "translation")).to_have_text(inspect(own).translation)
    assert page.get_by_label("German sentence").input_value() == own


def test_every_search_of_the_list_translates_as_in_python(visit, inspect):
    page = visit(source=SHORT)
    search = page.get_by_label("Search")
    assert search.locator("option").all_inner_texts() == [
        "Greedy", *(f"Beam {beam}" for beam in range(2, 9)),
    ]  # fmt: skip
    for beam in (1, 8):
        search.select_option(str(beam))
        shown(page)
        expect(part(page, "translation")).to_have_text(inspect(SHORT, beam=beam).translation)
        assert link(page)["beam"] == str(beam)
    search.select_option("5")
    shown(page)
    assert "beam" not in link(page)


def test_an_impossible_link_opens_something_valid(visit):
    view = {"kind": "bogus", "layer": 99, "head": "-1", "q": "1e9", "k": "x", "view": "3d"}
    rest = {"quantity": "lies", "sort": "colour", "hide": "all", "mass": "1e9", "beam": "-1"}
    page = visit(source=SHORT, direction="xx-yy", edits="%00~off.cross.99.0", **view, **rest)
    root = explorer(page)
    assert root.get_attribute("data-kind") in ("encoder", "decoder", "cross")
    assert root.get_attribute("data-quantity") == "weights"
    expect(part(page, "problem")).to_be_empty()
    assert link(page)["source"] == SHORT
    visit(source="x" * 100_000, edits="off.cross.0.0~" * 10_000)
    expect(part(page, "problem")).to_contain_text("100,000 characters are too many")


def test_impossible_texts_get_pythons_line(visit, inspect):
    page = visit(source=SHORT)
    for text in ("x. " * 99, "Ein \ud800 Hund"):
        with pytest.raises(InputError) as error:
            inspect(text)
        part(page, "source").evaluate(
            "(box, text) => { box.value = JSON.parse(text); }", json.dumps(text)
        )
        page.get_by_role("button", name="Translate").click()
        expect(part(page, "problem")).to_have_text(str(error.value))
        expect(part(page, "result")).to_be_hidden()
        translate(page, SHORT)
        expect(part(page, "problem")).to_be_empty()
        expect(explorer(page)).to_be_visible()
    page.get_by_label("German sentence").fill("  ")
    page.get_by_role("button", name="Translate").click()
    expect(part(page, "status")).to_have_text("Type a sentence in German, or choose an example.")
    expect(part(page, "result")).to_be_hidden()


ODD = (
    "Ein Tourist aus 東京 fotografiert einen Hund 😀.",
    "</script><script>document.title = 'taken'</script> <eos> <pad> $x$ & „Katze“.",
    "\u202emu\u202c \u2067שלום\u2069 \u200b\u00ad 👩‍👩‍👧‍👦 a\u0301 ﬁ",
    "The cat is in the mud with the other cats.",
)


@pytest.mark.parametrize("text", ODD)
def test_odd_texts_are_read_and_doubted_as_in_python(visit, inspect, text):
    page = visit(source=text)
    record = inspect(text)
    expect(part(page, "translation")).to_have_text(record.translation)
    assert explorer(page).locator("[data-part=source] .token").count() == len(record.source)
    assert "taken" not in page.title().replace(text, "")
    found = dataclasses.replace(quality_warnings(record), probability=None)  # see `uncertain`
    reasons = found.reasons(record.source_language, visible)
    measured = certainty_of(read_card(FOLDERS["de-en"]))
    assert measured is not None
    mean = mean_probability(record.log_prob, len(record.target_out))
    line = next((line for limit, line in lines(measured, "beam 5") if mean < limit), "")
    expect(part(page, "uncertain")).to_have_text(line)
    doubts = part(page, "doubts").inner_text()
    assert bool(doubts) == bool(reasons)
    for reason in reasons:
        assert reason in doubts
    changed = [f"U+{ord(character):04X}" for character in typography(text)]
    assert re.findall(r"U\+[0-9A-F]{4}", part(page, "captions").inner_text()) == changed
    place, probability = least_certain(record)
    said = part(page, "captions").inner_text()
    assert (
        f"Least certain token of the translation: “\u2068{label(record.target_out[place])}\u2069"
        in said
    )
    assert f"({percent(probability)})" in said


def visible(text: str) -> str:
    return "".join(shown for shown, _ in segments(text))


def unpacked(text: str) -> bytes:
    """Return the weights that a page holds, decoded by Python's base85."""
    swapped = base64.b85decode(text[1:].translate(str.maketrans(",:", "<`")))
    padded = np.frombuffer(swapped, ">u4").astype("<u4").tobytes()
    return zlib.decompress(padded[: len(padded) - int(text[0])])


def damaged(file: Path, out: Path, direction: str) -> Path:
    """Change one byte of a direction's weights and compress them again."""
    text = file.read_text(encoding="utf-8")
    start = text.index(f'id="weights-{direction}">') + len(f'id="weights-{direction}">')
    end = text.index("</script>", start)
    weights = bytearray(unpacked(text[start:end]))
    weights[-len(weights) // 3] ^= 1
    packed = as_text(bytes(weights))
    out.write_text(text[:start] + packed + text[end:], encoding="utf-8")
    return out


def test_a_changed_byte_of_the_weights_is_said_before_translating(
    offline_context, offline_file, tmp_path
):
    page_file = damaged(offline_file, tmp_path / "damaged.html", "de-en")
    with opened(offline_context, page_file) as page:
        expect(part(page, "problem")).to_contain_text("The weights in this file are damaged")
        expect(part(page, "problem")).to_contain_text("copy or download the file again")
        expect(part(page, "result")).to_be_hidden()
        expect(part(page, "translation")).to_be_empty()
        page.get_by_label("English → German").check()  # its weights are intact
        expect(explorer(page)).to_be_visible()
        expect(part(page, "problem")).to_be_empty()


def test_no_request_leaves_and_no_other_script_runs(visit):
    page = visit(source=SHORT)
    blocked = page.evaluate(
        """async () => {
          const blocked = [];
          const note = ({ effectiveDirective }) => blocked.push(effectiveDirective);
          addEventListener("securitypolicyviolation", note);
          const failed = await fetch("http://127.0.0.1:9/").then(() => "sent", () => "blocked");
          const image = new Image();
          image.src = "http://127.0.0.1:9/a.png";
          const script = document.createElement("script");
          script.textContent = "window.ran = true";
          document.body.append(script);
          await new Promise((resolve) => setTimeout(resolve, 100));
          return [failed, window.ran ?? false, blocked.sort()];
        }"""
    )
    assert blocked == ["blocked", False, ["connect-src", "img-src", "script-src-elem"]]


def test_the_interface_for_programs_answers_as_python(visit, inspect):
    page = visit(source=SHORT)
    text, edits = "Zwei Katzen schlafen im Garten.", "off.cross.2.0"
    found = page.evaluate(
        """async ([text, edits]) => {
          await window.headlight.ready;
          const { maps, ...rest } = await window.headlight.translate(text, { beam: 3, edits });
          const listed = Object.entries(maps).map(([kind, numbers]) => [kind, [...numbers]]);
          return { ...rest, logProbs: [...rest.logProbs], maps: Object.fromEntries(listed) };
        }""",
        [text, edits],
    )
    record = inspect(text, beam=3, edits=Edits.parse(edits)[0])
    assert found["ids"] == [token.id for token in record.target_out]
    assert found["source"] == [token.text for token in record.source]
    assert found["target"] == [token.text for token in record.target_out]
    np.testing.assert_allclose(found["logProbs"], record.log_probs, atol=1e-4)
    for kind in ("encoder", "decoder", "cross"):
        np.testing.assert_allclose(found["maps"][kind], record.maps(kind).ravel(), atol=1e-5)
    expect(part(page, "translation")).to_have_text(inspect(SHORT).translation)
    with pytest.raises(Exception, match="500"):
        page.evaluate("window.headlight.translate('x'.repeat(501))")


def test_the_page_fits_narrow_and_wide_screens_in_both_schemes(visit):
    page = visit(source=SHORT)
    for width, scheme in ((390, "dark"), (1440, "light")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        expect(explorer(page)).to_have_attribute("data-theme", scheme)
        shown(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        colours = page.evaluate(
            "['body', '.explorer'].map((e) => getComputedStyle(document.querySelector(e)).color)"
        )
        assert len(set(colours)) == 1
        faint = page.evaluate((ROOT / "tests/app/contrasts.js").read_text(encoding="utf-8"))
        assert faint["texts"] > 100 and faint["low"] == []
        side = page.locator(".side").bounding_box()
        assert side is not None and (side["width"] < width / 3) == (width > 1000)


def test_everything_is_reached_by_keyboard_and_named(visit):
    page = visit(source=SHORT)
    reached = page.evaluate(
        """() => [...document.querySelectorAll(".side *, form *, [data-page=save-record]")]
          .filter((node) => node.matches("button, input, select, textarea"))
          .filter((node) => node.checkVisibility())
          .map((node) => node.tabIndex)"""
    )
    assert len(reached) > 10 and set(reached) == {0}
    page.locator("[data-page=another]").evaluate("fold => { fold.open = true; }")
    named = {"radio": "German → English", "combobox": "Search", "textbox": "German sentence"}
    named |= {"searchbox": "English translation to look at", "button": "About this file"}
    for role, name in named.items():
        expect(page.get_by_role(role, name=name, exact=True)).to_be_visible()
    example = page.get_by_role("button", name=EXAMPLES[1].titles[0])
    example.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("German sentence")).to_have_value(EXAMPLES[1].text("de"))
    expect(example).to_be_focused()


def test_the_page_says_what_it_contains_and_runs_in_plain_javascript(
    visit, offline_context, offline_file, inspect
):
    about = visit(source=SHORT).locator("#about").inner_text()
    for folder in FOLDERS.values():
        config = json.loads((folder / "config.json").read_text())
        assert folder.name in about and config["files"]["model.safetensors"]["sha256"] in about
        assert f"{config['parameters'] / 1e6:.1f} million weights" in about
    assert "this file holds exactly these" in about
    assert "Matrix products run as WebAssembly." in about
    page = offline_context.new_page()
    page.add_init_script("delete Uint8Array.fromBase64")  # browsers without the newest functions
    page.goto(f"{offline_file.as_uri()}#{urlencode({'source': SHORT, 'plain': 1})}")
    shown(page)
    assert "run as JavaScript" in page.locator("#about").inner_text()
    expect(part(page, "translation")).to_have_text(inspect(SHORT).translation)
    page.close()


def test_what_rounding_changes_is_stated_with_its_numbers(tmp_path, offline_context, monkeypatch):
    found = rounding.Rounding(sentences=17, same=13, largest=0.1234, mean=0.00567)
    monkeypatch.setattr(offline, "measured_rounding", lambda _: found)
    out = tmp_path / "small.html"
    arguments = ["--checkpoint", str(FOLDERS["de-en"]), "--int8", "--out", str(out)]
    offline.run(offline.parser().parse_args(arguments))
    with opened(offline_context, out, source=SHORT) as page:
        shown(page)
        about = page.locator("#about").inner_text()
        for said in ("Of 17 example sentences, 13 get the", "most 0.123, and by 0.0057 on average"):
            assert said in about
        (largest,) = re.findall(r"largest error of a weight is ([\d.]+)\.", about)
        exact = load_file(FOLDERS["de-en"] / "model.safetensors")
        steps = [np.abs(matrix).max(1) / 127 for matrix in exact.values() if matrix.ndim == 2]
        assert float(largest) == pytest.approx(np.concatenate(steps).max() / 2, rel=0.05)
        expect(part(page, "direction-choice")).to_be_hidden()


def test_rounding_is_measured_on_all_sentences_and_unmasked_cells(monkeypatch):
    """The sentence with the largest difference is not the first one."""
    folder = FOLDERS["de-en"]
    texts = ["Ein Hund.", "Zwei Frauen mit roten Hüten sitzen auf einer Bank im Park."]
    monkeypatch.setattr(rounding, "sentences", lambda _: texts)
    exact = core.load(folder, device="cpu")
    own, differences = [exact.inspect(text) for text in texts], []
    with rounding.rounded_checkpoint(folder) as copy:
        rounded = core.load(copy, device="cpu")
        same = sum(
            rounded.inspect(text).translation == record.translation
            for text, record in zip(texts, own, strict=True)
        )
        for text, record in zip(texts, own, strict=True):
            ids = tuple(token.id for token in record.target_out)
            other = rounded.inspect(text, target_ids=ids)
            lower = np.tril(np.ones((len(ids), len(ids)), bool))
            pairs = [(record.encoder, other.encoder), (record.cross, other.cross)]
            pairs.append((record.decoder[..., lower], other.decoder[..., lower]))
            differences.append(np.concatenate([np.abs(a - b).ravel() for a, b in pairs]))
    assert differences[1].max() > differences[0].max()
    both = np.concatenate(differences)
    found = rounding.measured_rounding(read_card(folder))
    assert (found.sentences, found.same) == (2, same)
    assert found.largest == pytest.approx(both.max(), rel=1e-5)
    assert found.mean == pytest.approx(both.mean(), rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--checkpoint", "{tmp}/nowhere"], "nowhere/config.json is missing"),
        (["--checkpoint", "{de}", "--checkpoint", "{de}"], "give one checkpoint per direction"),
        (["--checkpoint", "{de}", "--out", "{tmp}/file/page.html"], "--out"),
    ],
)
def test_wrong_arguments_get_one_line(tmp_path, arguments, line):
    (tmp_path / "file").touch()
    given = [a.format(de=FOLDERS["de-en"], tmp=tmp_path) for a in arguments]
    if "--out" not in given:
        given += ["--out", str(tmp_path / "page.html")]
    with pytest.raises(ValueError, match=re.escape(line)) as error:
        offline.run(offline.parser().parse_args(given))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "page.html").exists()


def test_a_missing_argument_gets_one_line(capsys):
    with pytest.raises(SystemExit):
        offline.parser().parse_args(["--out", "page.html"])
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("error: ") and "--checkpoint" in said


def test_the_app_offers_its_model_as_a_page():
    page = render(
        "", "take_away", state={"source": "Hallo.", "direction": "de-en", "model": "captions"}
    )
    (button,) = [one for one in page.app.get("download_button") if "App" in one.proto.label]
    card = models.cards()["de-en", "captions"]
    made = export.offline_page(card)
    assert export.offline_page(card) is made, "made once for all sessions"
    assert made == offline.page([offline.network(card.folder)]).encode(), "reproducible"
    megabytes = int(re.search(r"about (\d+) MB", button.proto.help)[1])
    assert megabytes == pytest.approx(len(made) / 1e6, abs=1)
    assert sha256(pack(card.folder)).hexdigest().encode() in made


def test_states_are_copied_and_pushed(visit, inspect):
    pair = "Ein Mann spielt Gitarre.", "Eine Frau spielt Gitarre."
    page = visit(source=pair[0], second_source=pair[1], lesson="copy")
    states = part(page, "states").locator(".states")
    pictures = states.locator(".grid[aria-label^='Share of']")
    expect(pictures).to_have_count(3)
    states.get_by_role("gridcell", name=re.compile("Mann.*, embeddings")).press("Enter")
    page.keyboard.press("Enter")  # the paired token has the focus
    expect(page).to_have_url(re.compile(r"copied=copy\.encoder\.0\.1\.1"))
    assert link(page)["source"] == pair[0]
    edited = inspect(
        pair[1], edits=Edits.parse(copied_text(inspect(pair[0]), "copy.encoder.0.1.1"))[0]
    )
    expect(states.locator(".said.now .text")).to_have_text(edited.translation)
    expect(pictures).to_have_count(3)
    states.locator(".saves summary").first.click()
    with page.expect_download() as saved:
        states.get_by_role("button", name="CSV").first.click()
    lines = Path(saved.value.path()).read_text(encoding="utf-8-sig").splitlines()
    assert saved.value.suggested_filename == "headlight_states_encoder_words.csv"
    assert lines[2].startswith('"A",0,"2 Mann","man",')
    page.get_by_role("button", name="See its attention").click()
    shown(page)
    assert link(page)["source"] == pair[1] and "lesson" not in link(page)
    expect(explorer(page).locator("[data-part=edits]")).to_contain_text("copied from token 2")
    page.go_back()
    expect(states.locator(".said.now .text")).to_have_text(edited.translation)
    part(page, "states").get_by_role("button", name="Push a state").click()
    flips = states.locator(".say")
    expect(flips).to_contain_text(re.compile("towards .*woman"))
    states.get_by_label("more").fill("Gitarrenspielerin")
    page.keyboard.press("Enter")
    expect(flips).to_contain_text("choose a word of one token")
    states.get_by_label("more").fill("dog")
    page.keyboard.press("Enter")
    expect(flips).to_contain_text(re.compile("towards .*dog"))
    expect(page).to_have_url(re.compile("pushed=push"))


def copied_text(donor: TranslationRecord, copy: str) -> str:
    """Return a copy from a record's pass as a text form."""
    return f"{Edits(donor=Donor.of(donor)).to_text()}~{copy}"


TRAINED = {"source": SHORT, "lesson": "train", "train_task": "reversal"}
TRAINED |= {"train_layers": 1, "train_width": 32, "train_heads": 2, "train_seed": 3}


def trained_history(steps: int) -> History:
    """Return what the page of TRAINED has after some steps."""
    config = SmallConfig(layers=1, d_model=32, heads=2, seed=3)
    history = History(SmallRun(Examples("reversal"), config))
    for _ in range(steps):
        history.run.step()
    history.add()
    return history


def test_a_network_is_trained_while_the_page_translates(visit, inspect):
    page = visit(**TRAINED)
    place = part(page, "train")
    training, at = place.locator(".training[data-step]"), 0
    for at in range(1, 11):
        place.get_by_role("button", name="One step").click()
        expect(training).to_have_attribute("data-step", str(at))
    history = trained_history(at)
    last, entropy = history.points[-1], history.snapshots().entropy["cross"][-1, 0, 0]
    curves = training.locator(".lanes")
    said = f"loss {last.loss:.2f} nats per token, right {percent(last.exact)}, "
    said += f"entropy {percent(entropy)}, finds the letter {percent(float(last.shares[0, 0, 0]))}; "
    said += "cross-attention, head 1.1"
    expect(curves).to_have_attribute("aria-label", re.compile(re.escape(said)))

    place.get_by_text("Change the network").click()
    place.get_by_label("Train with a mistake").select_option("over_queries")
    which = place.locator("[data-part=shown]")  # of two networks
    expect(which).to_be_visible()
    assert link(page)["train_bug"] == "over_queries"
    place.get_by_role("button", name="Train", exact=True).click()
    later = re.compile(r"[1-9]\d*")
    expect(training).to_have_attribute("data-step", later)
    found = page.evaluate("(text) => headlight.translate(text)", SHORT)
    assert found["translation"] == inspect(SHORT).translation
    before = training.get_attribute("data-step")
    expect(training).not_to_have_attribute("data-step", before or "")
    expect(place.get_by_role("button", name="Pause", exact=True)).to_be_enabled()
    page.go_back()
    expect(which).to_be_hidden()
    assert "train_bug" not in link(page)
    place.get_by_role("button", name="Back to the attention maps").click()
    shown(page)
    expect(explorer(page).first).to_be_visible()


def test_a_network_trained_here_opens_in_all_pages(fresh, tmp_path):
    """Until the page is closed: saved, it is opened by Python and by the page, as is Python's."""
    page = fresh(source=SHORT)
    page.evaluate("(hash) => void (location.hash = hash)", urlencode(TRAINED))
    place = part(page, "train")
    training = place.locator(".training[data-step]")
    expect(training).to_have_attribute("data-step", "0")
    for at in (1, 2):
        place.get_by_role("button", name="One step").click()
        expect(training).to_have_attribute("data-step", str(at))
    for typed, says in (("a " * 70, "has 71 tokens with <eos>: the limit is 64"), ("j j a b", "")):
        place.get_by_label("Another example").fill(typed)
        place.get_by_label("Another example").press("Enter")
        expect(place.locator("[data-part=problem]")).to_contain_text(says)
    expect(place.locator("[data-part=written]")).to_contain_text("j j a b →")
    with page.expect_download() as download:
        saving = place.get_by_role("button", name="Save the network")
        assert saving.evaluate("(button) => (button.click(), button.textContent)") == "Saving …"
    expect(saving).to_be_enabled()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    with zipfile.ZipFile(file) as packed:
        packed.extractall(tmp_path)
    trained = Translator.load(tmp_path / "reversal", "cpu")

    place.get_by_role("button", name="Open in all pages").click()
    expect(part(page, "source")).to_have_value("j j a b")
    shown(page)
    expected = trained.inspect("j j a b", decode=DecodeConfig(beam=5))
    found = page.evaluate("(text) => headlight.translate(text)", "j j a b")
    assert found["ids"] == [token.id for token in expected.target_out]
    seen = np.array(found["maps"]["cross"], np.float32)
    np.testing.assert_allclose(seen, expected.cross.ravel(), atol=1e-5)
    expect(part(page, "captions")).to_contain_text(
        re.compile(r"Trained in this visit on reversal: 2 steps, \d+ s\.")
    )
    expect(page.get_by_label("letters → reversed, trained here (1)")).to_be_checked()

    page.get_by_label("German → English", exact=True).check()
    expect(part(page, "source")).to_have_value(EXAMPLE)
    shown(page)
    part(page, "lessons").get_by_role("button", name="Train one here").click()
    expect(training).to_have_attribute("data-step", "2")
    (tmp_path / "bad.zip").write_bytes(file.read_bytes()[:-30])
    save(trained_history(2), tmp_path / "app" / "reversal", "CPU")
    (tmp_path / "app.zip").write_bytes(as_zip(tmp_path / "app" / "reversal"))
    place.locator("[data-part=given]").set_input_files(tmp_path / "bad.zip")
    expect(place.locator("[data-part=problem]")).to_contain_text("this is not a ZIP file")
    for number, given in enumerate((file.name, "app.zip"), start=2):
        part(page, "lessons").get_by_role("button", name="Train one here").click()
        place.locator("[data-part=given]").set_input_files(tmp_path / given)
        expect(page.get_by_label(f"trained here ({number})")).to_be_checked()
        shown(page)
        again = page.evaluate("(text) => headlight.translate(text)", "j j a b")
        assert again["ids"] == found["ids"]
    page.reload()
    expect(part(page, "captions")).to_contain_text("trained in a tab that is closed")
    expect(page.get_by_label("German → English", exact=True)).to_be_checked()


def test_actions_in_the_page_are_timed(visit):
    page = visit(source=SHORT)
    before = explorer(page).get_attribute("data-sentence")
    assert sentences(page, 13, 1) > 0
    assert explorer(page).get_attribute("data-sentence") != before
    rows = {row["what"]: row["value"] for row in actions(page, 1)}
    assert rows.keys() == {
        "edit to painted",
        "edit to translated again",
        "layer or head to painted",
        "effects of all heads",
        "new sentence to its states' words",
        "memory of the tab",
    }
    assert all(rows[name] > 0 for name in ("edit to painted", "edit to translated again"))
    assert min(rows.values()) > 0


SCRIPTS = ROOT / "app/components/offline"


def run(page: Page, module: str, expression: str, *arguments: object) -> object:
    """Evaluate an expression that may use a bundled module's names and `args`."""
    script = joined(SCRIPTS / f"{module}.js")
    return page.evaluate(f"(args) => {{ {script}\n return {expression}; }}", list(arguments))


COPIES = "pass.9-8-2.1-30~copy.encoder.0.3.1~copyhead.cross.0.0.1.1"


@pytest.mark.parametrize(
    ("edits", "command"),
    [
        ("", "+off.cross.2.0"),
        ("off.cross.2.0~hide.3", "-off.cross.2.0"),
        ("off.cross.2.0~hide.3", "-hide.1"),
        ("off.cross.2.0~hide.3", ""),
        ("off.cross.2.0", "+mean.cross.2.0"),
        ("off.cross.2.0", "+uniform.cross.2.0"),
        ("temp.cross.1.1.2", "+temp.cross.1.1.0.5"),
        ("cut.cross.1.1.0.5", "+times.cross.1.1.0.5.4"),
        ("row.decoder.0.0.1.0.5-0.5", "+row.decoder.0.0.1.1"),
        ("positions.source.scale-0", "+causal"),
        ("hide.3~off.cross.2.0", "+off.encoder.0.1"),
        (f"hide.3~{COPIES}", "-pass.9-8-2.1-30"),
        (f"hide.3~{COPIES}", "-copy.encoder.0.3.1"),
        ("hide.3~pass.9-8-2.1-30~copy.encoder.0.3.1", "-copy.encoder.0.3.1"),
        (COPIES, "+copy.encoder.0.3.2"),
        (COPIES, "+pass.7-2.1~copy.encoder.1.0.0"),
        (COPIES, "+pass.9-8-2.1-30~copy.encoder.1.0.0"),
        ("push.encoder.0.1.5.6.2.5", "+push.encoder.0.1.5.6.3"),
    ],
)
def test_commands_change_edits_as_in_python(blank, edits, command):
    had, one = Edits.parse(edits)[0], Edits.parse(command[1:])[0]
    expected = Edits() if not command else had.without(one) if command[0] == "-" else had.plus(one)
    changed = run(blank, "edit_commands", "changedEdits(...args)", edits, command)
    assert changed == expected.to_text()


def test_one_edit_too_many_is_refused(blank):
    many = "~".join(f"hide.{place}" for place in range(200))
    code = "(() => { try { changedEdits(...args); } catch (error) { return error.message; } })()"
    said = run(blank, "edit_commands", code, many, "+off.cross.0.0")
    with pytest.raises(EditError) as error:
        Edits.parse(many)[0].plus(Edits.parse("off.cross.0.0")[0])
    assert said == str(error.value)
    assert run(blank, "edit_commands", code, "", "+nonsense").startswith("'nonsense' is ignored")


@pytest.mark.parametrize(
    ("given", "beam"),
    [
        ({"beam": "8"}, 8),
        ({"beam": "9"}, 5),
        ({"beam": "0"}, 5),
        ({"beam": "1.5"}, 5),
        ({"search": "greedy"}, 1),
        ({"search": "beam"}, 5),
        ({}, 5),
        ({"beam": "3", "search": "greedy"}, 3),
    ],
)
def test_the_search_of_a_link_becomes_a_beam(blank, given, beam):
    models = [{"direction": "de-en", "examples": []}]
    assert run(blank, "choice", "choiceOf(...args)", given, models)["beam"] == beam
