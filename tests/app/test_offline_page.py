"""The page without a server, opened from a disk with the network off."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from hashlib import sha256
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

import core
from app.benchmark.offline import actions, sentences
from app.components.assets import joined
from app.examples import EXAMPLES
from app.export import offline, rounding
from app.export.weights import pack
from app.look.labels import label, segments
from app.look.numbers import percent
from app.state import models
from app.views.shared import export
from core.analysis.quality_warnings import (
    FUNCTION_WORDS,
    least_certain,
    quality_warnings,
    warnings_about,
)
from core.checkpoint.folder import read_card
from core.config import DecodeConfig
from core.record.edits import EditError, Edits
from core.record.record import TranslationRecord
from core.text.tokenizer import typography
from core.translator import InputError, Translator
from tests.app.conftest import opened_offline
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


@pytest.fixture(scope="session")
def file(tmp_path_factory) -> Path:
    """Both directions in one file, written by the command line."""
    out = tmp_path_factory.mktemp("offline") / "head light.html"
    given = [text for folder in FOLDERS.values() for text in ("--checkpoint", str(folder))]
    offline.run(offline.parser().parse_args([*given, "--out", str(out)]))
    return out


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
def fresh(offline_context, file) -> Iterator[Visit]:
    """Return `fresh(**link) -> page`, which loads a page and waits for its first result."""
    with ExitStack() as stack:

        def fresh(**link: object) -> Page:
            page = stack.enter_context(opened(offline_context, file, **link))
            shown(page)
            return page

        yield fresh


@pytest.fixture(scope="module")
def loaded(offline_context, file) -> Iterator[Page]:
    with opened(offline_context, file, source="Hallo.") as page:
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


def test_the_page_opens_from_a_disk_and_translates(fresh, inspect):
    page = fresh()
    record = inspect(EXAMPLE)
    expect(part(page, "translation")).to_have_text(record.translation)
    assert tokens(page, "source") == [token.text for token in record.source]
    assert tokens(page, "target") == ["<bos>", *(token.text for token in record.target_out)]
    assert page.get_by_label("German sentence").input_value() == EXAMPLE
    held = explorer(page).get_attribute("data-checks")
    assert re.fullmatch(r"(\d+)/\1", held) and held != "0/0"
    count = held.split("/")[0]
    expect(explorer(page).locator("[data-part=badge]")).to_have_text(
        f"Checks: {count} of {count} passed"
    )
    expect(explorer(page).locator("[data-part=not-checked]")).to_be_empty()
    expect(part(page, "problem")).to_be_empty()
    assert re.fullmatch(
        r"Beam 5, computed in this page in \d+ ms\.", part(page, "status").inner_text()
    )


def test_a_cell_of_a_link_has_pythons_weight(fresh, inspect):
    record = inspect(SHORT, beam=1)
    query, key = map(int, np.unravel_index(record.cross[2, 1].argmax(), record.cross.shape[2:]))
    page = fresh(source=SHORT, beam=1, kind="cross", layer=2, head=1, q=query, k=key)
    data = explorer(page).evaluate("root => ({...root.dataset})")
    assert [data[name] for name in ("kind", "layer", "head", "query", "key")] == [
        "cross", "2", "1", str(query), str(key),
    ]  # fmt: skip
    assert float(data["weight"]) == pytest.approx(record.cross[2, 1, query, key], abs=6e-5)
    expect(page.get_by_label("Search")).to_have_value("1")


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


def test_the_link_holds_the_view_and_a_reload_keeps_it(fresh):
    page = fresh(source=SHORT)
    explorer(page).locator("[data-kind-option=encoder]").click()
    explorer(page).locator(".thumbnail[data-l='1'][data-h='2']").click()
    explorer(page).locator("[data-view-option=lines]").click()
    expect(page).to_have_url(re.compile("view=lines"))
    wanted = link(page)
    assert {name: wanted[name] for name in ("kind", "layer", "head", "view", "source")} == {
        "kind": "encoder", "layer": "1", "head": "2", "view": "lines", "source": SHORT,
    }  # fmt: skip
    page.reload()
    shown(page)
    root = explorer(page)
    assert [root.get_attribute(f"data-{name}") for name in ("kind", "layer", "head")] == [
        "encoder", "1", "2",
    ]  # fmt: skip
    expect(root.locator("[data-view-option=lines]")).to_have_attribute("aria-pressed", "true")
    assert link(page) == wanted


def test_an_edit_is_painted_translated_again_and_undone(fresh, inspect):
    page = fresh(source=EXAMPLE, kind="cross", layer=2, head=3)
    before = explorer(page).get_attribute("data-sentence")
    explorer(page).locator("button[data-edit=head]").click()
    edits = "off.cross.2.3"
    expect(explorer(page).locator(f"li[data-edit='{edits}']")).to_be_visible()
    assert link(page)["edits"] == edits
    again = inspect(EXAMPLE, edits=Edits.parse(edits)[0]).translation
    expect(part(page, "again")).to_contain_text(again)
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
    expect(part(page, "again")).to_be_hidden()
    page.go_forward()
    explorer(page).get_by_role("button", name=re.compile("^Remove: ")).click()
    expect(explorer(page)).to_have_attribute("data-sentence", before)
    assert "edits" not in link(page)


def test_a_repeated_or_unknown_edit_is_one_line(visit):
    page = visit(source=SHORT, edits="off.cross.2.0~nonsense~hide.99")
    expect(explorer(page).locator("li[data-edit='off.cross.2.0']")).to_be_visible()
    note = explorer(page).locator("[data-part=edit-note]").inner_text()
    assert "'nonsense' is ignored: unknown syntax" in note and "99" in note


def test_a_link_opens_its_view_in_the_open_page(visit):
    visit(source=SHORT, kind="encoder", layer=1, head=2)
    page = visit(source=SHORT, kind="decoder", layer=2, head=0, quantity="rollout")
    root = explorer(page)
    expect(root).to_have_attribute("data-kind", "decoder")
    expect(root).to_have_attribute("data-quantity", "rollout")
    assert link(page)["layer"] == "2" and link(page)["head"] == "0"
    page.go_back()
    expect(root).to_have_attribute("data-kind", "encoder")
    expect(root).to_have_attribute("data-quantity", "weights")


def test_a_second_edit_joins_the_first(visit):
    page = visit(source=SHORT, kind="cross", layer=2, head=3, edits="hide.1")
    explorer(page).locator("button[data-edit=head]").click()
    expect(explorer(page).locator("li[data-edit='off.cross.2.3']")).to_be_visible()
    assert link(page)["edits"] == "hide.1~off.cross.2.3"
    explorer(page).get_by_role("button", name="Remove all").click()
    expect(explorer(page).locator("li[data-edit]")).to_have_count(0)
    assert "edits" not in link(page)


def test_head_effects_and_quantities_are_computed_in_the_page(visit, inspect, translators):
    page = visit(source=SHORT, kind="cross", layer=1, head=0, beam=1)
    record = inspect(SHORT, beam=1)
    quantity = explorer(page).get_by_role("combobox", name="Shown quantity")
    assert quantity.locator("option").all_inner_texts() == [
        "weights", "scores", "value norms", "rollout",
    ]  # fmt: skip
    quantity.select_option("scores")
    expect(explorer(page)).to_have_attribute("data-quantity", "scores")
    expect(explorer(page).locator(".waiting")).to_have_count(0)
    explorer(page).get_by_label("Order of the heads").select_option("effect")
    first = explorer(page).locator(".thumbnail").first
    effects = core.head_effects(translators["de-en"], record).changes["cross"].sum(-1)
    largest = np.unravel_index(np.abs(effects).argmax(), effects.shape)
    expect(first).to_have_attribute("data-l", str(largest[0]))
    expect(first).to_have_attribute("data-h", str(largest[1]))


def test_the_record_is_saved_as_python_reads_it(visit, inspect, tmp_path):
    page = visit(source=SHORT)
    with page.expect_download() as download:
        page.get_by_role("button", name="Record (.npz)").click()
    saved = TranslationRecord.load(download.value.path())
    record = inspect(SHORT)
    assert (saved.source_text, saved.translation) == (record.source_text, record.translation)
    for kind in ("encoder", "decoder", "cross"):
        np.testing.assert_allclose(saved.maps(kind), record.maps(kind), atol=1e-5)


def test_a_given_target_is_shown_beside_the_networks_own(visit, inspect):
    page = visit(source=SHORT)
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


def test_links_of_the_app_work(visit):
    """The app's links have `search=greedy` or `search=beam`, and name a model."""
    page = visit(source=SHORT, direction="de-en", model="scratch", search="greedy")
    expect(page.get_by_label("Search")).to_have_value("1")


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


HOSTILE = {
    "characters": "x" * 501,
    "tokens": "x. " * 99,
    "surrogate": "Ein \ud800 Hund",
}


@pytest.mark.parametrize("name", ["characters", "tokens", "surrogate"])
def test_impossible_texts_get_pythons_line(visit, inspect, name):
    with pytest.raises(InputError) as error:
        inspect(HOSTILE[name])
    page = visit(source=SHORT)
    part(page, "source").evaluate(
        "(box, text) => { box.value = JSON.parse(text); }", json.dumps(HOSTILE[name])
    )
    page.get_by_role("button", name="Translate").click()
    expect(part(page, "problem")).to_have_text(str(error.value))
    expect(part(page, "result")).to_be_hidden()
    translate(page, SHORT)
    expect(part(page, "problem")).to_be_empty()
    expect(explorer(page)).to_be_visible()


def test_an_empty_text_gets_a_hint(visit):
    page = visit(source=SHORT)
    page.get_by_label("German sentence").fill("  ")
    page.get_by_role("button", name="Translate").click()
    expect(part(page, "status")).to_have_text("Type a sentence in German, or choose an example.")
    expect(part(page, "result")).to_be_hidden()


ODD = (
    "Ein Tourist aus 東京 fotografiert einen Hund 😀.",
    "</script><script>document.title = 'taken'</script> <eos> <pad> $x$ & „Katze“.",
    "\u202emu\u202c \u2067שלום\u2069 \u200b\u00ad 👩‍👩‍👧‍👦 a\u0301 ﬁ",
    "The cat is in the mud with the other cats.",
    "DIE KATZE SCHLÄFT IM GARTEN.",
    "Um 15 Uhr kosten 1.234 Eier bei www.ei.de 99 Euro.",
    "?!",
    "qqq ÄÖÜ zzxx wurb",
)


@pytest.mark.parametrize("text", ODD)
def test_odd_texts_are_read_and_doubted_as_in_python(visit, inspect, text):
    page = visit(source=text)
    record = inspect(text)
    expect(part(page, "translation")).to_have_text(record.translation)
    assert explorer(page).locator("[data-part=source] .token").count() == len(record.source)
    assert "taken" not in page.title().replace(text, "")
    reasons = quality_warnings(record).reasons(record.source_language, visible)
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


def damaged(file: Path, out: Path, direction: str) -> Path:
    """Change one byte of a direction's weights and compress them again."""
    text = file.read_text(encoding="utf-8")
    start = text.index(f'id="weights-{direction}">') + len(f'id="weights-{direction}">')
    end = text.index("</script>", start)
    weights = bytearray(zlib.decompress(base64.b64decode(text[start:end])))
    weights[-len(weights) // 3] ^= 1
    packed = base64.b64encode(zlib.compress(bytes(weights), 1)).decode()
    out.write_text(text[:start] + packed + text[end:], encoding="utf-8")
    return out


def test_a_changed_byte_of_the_weights_is_said_before_translating(offline_context, file, tmp_path):
    page_file = damaged(file, tmp_path / "damaged.html", "de-en")
    with opened(offline_context, page_file) as page:
        expect(part(page, "problem")).to_contain_text("The weights in this file are damaged")
        expect(part(page, "problem")).to_contain_text("copy or download the file again")
        expect(part(page, "result")).to_be_hidden()
        expect(part(page, "translation")).to_be_empty()
        page.get_by_label("English → German").check()  # its weights are intact
        expect(explorer(page)).to_be_visible()
        expect(part(page, "problem")).to_be_empty()


@pytest.mark.parametrize("change", [lambda c: "A" if c != "A" else "B", lambda c: "*"])
def test_a_changed_character_of_the_file_is_said(offline_context, file, tmp_path, change):
    text = file.read_text(encoding="utf-8")
    at = text.index('id="weights-de-en">') + 1_000_000
    page_file = tmp_path / "changed.html"
    page_file.write_text(f"{text[:at]}{change(text[at])}{text[at + 1 :]}", encoding="utf-8")
    with opened(offline_context, page_file) as page:
        expect(part(page, "problem")).to_contain_text("The weights in this file are damaged")
        expect(part(page, "result")).to_be_hidden()


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


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_narrow_and_wide_screens_in_both_schemes(browser, file, width, scheme):
    context = browser.new_context(
        offline=True, viewport={"width": width, "height": 844}, color_scheme=scheme
    )
    with opened(context, file) as page:
        shown(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        expect(explorer(page)).to_have_attribute("data-theme", scheme)
        colours = page.evaluate(
            "['body', '.explorer'].map((e) => getComputedStyle(document.querySelector(e)).color)"
        )
        assert len(set(colours)) == 1
        faint = page.evaluate((ROOT / "tests/app/contrasts.js").read_text(encoding="utf-8"))
        assert faint["texts"] > 100 and faint["low"] == []
        side = page.locator(".side").bounding_box()
        assert side is not None and (side["width"] < width / 3) == (width > 1000)
    context.close()


def test_everything_is_reached_by_keyboard_and_named(visit):
    page = visit(source=SHORT)
    reached = page.evaluate(
        """() => [...document.querySelectorAll(".side *, form *, [data-page=save-record]")]
          .filter((node) => node.matches("button, input, select, textarea"))
          .filter((node) => node.checkVisibility())
          .map((node) => node.tabIndex)"""
    )
    assert len(reached) > 10 and set(reached) == {0}
    for role, name in (
        ("radio", "German → English"),
        ("combobox", "Search"),
        ("textbox", "German sentence"),
        ("searchbox", "English translation to look at"),
        ("button", "Translate"),
        ("button", EXAMPLES[1].title),
        ("button", "About this file"),
    ):
        expect(page.get_by_role(role, name=name, exact=True)).to_be_visible()
    example = page.get_by_role("button", name=EXAMPLES[1].title)
    example.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("German sentence")).to_have_value(EXAMPLES[1].text("de"))
    expect(example).to_be_focused()


def test_typed_text_survives_a_change_elsewhere(visit):
    page = visit(source=SHORT, kind="cross", layer=2, head=3)
    page.get_by_label("German sentence").fill("Noch nicht fertig")
    explorer(page).locator("button[data-edit=head]").click()
    expect(explorer(page).locator("li[data-edit]")).to_have_count(1)
    expect(page.get_by_label("German sentence")).to_have_value("Noch nicht fertig")
    page.get_by_label("German sentence").fill(SHORT)


def test_the_page_says_what_it_contains(visit):
    page = visit(source=SHORT)
    about = page.locator("#about").inner_text()
    for folder in FOLDERS.values():
        config = json.loads((folder / "config.json").read_text())
        assert folder.name in about and config["files"]["model.safetensors"]["sha256"] in about
        assert f"{config['parameters'] / 1e6:.1f} million weights" in about
    assert "this file holds exactly these" in about
    assert "Matrix products run as WebAssembly." in about


def test_browsers_without_the_newest_functions_run_plain_javascript(offline_context, file, inspect):
    page = offline_context.new_page()
    page.add_init_script("delete Uint8Array.fromBase64")
    page.goto(f"{file.as_uri()}#{urlencode({'source': SHORT, 'plain': 1})}")
    shown(page)
    assert "run as JavaScript" in page.locator("#about").inner_text()
    expect(part(page, "translation")).to_have_text(inspect(SHORT).translation)
    page.close()


def test_rounded_weights_are_measured_and_stated(tmp_path, offline_context):
    out = tmp_path / "small.html"
    arguments = ["--checkpoint", str(FOLDERS["de-en"]), "--int8", "--out", str(out)]
    offline.run(offline.parser().parse_args(arguments))
    with opened(offline_context, out, source=SHORT) as page:
        shown(page)
        about = page.locator("#about").inner_text()
        said = re.search(r"Of (\d+) example sentences, (\d+) get the same translation", about)
        assert int(said[1]) >= int(said[2]) > 0
        largest, mean = re.search(
            r"differs by at most ([\d.]+), and by ([\d.]+) on average", about
        ).groups()
        assert 0 < float(mean) < float(largest) / 10 < 0.02
        expect(part(page, "direction-choice")).to_be_hidden()


def test_what_rounding_changes_is_stated_with_its_numbers(monkeypatch):
    card = read_card(FOLDERS["de-en"])
    found = rounding.Rounding(sentences=17, same=13, largest=0.1234, mean=0.00567)
    monkeypatch.setattr(offline, "measured_rounding", lambda _: found)
    assert offline._rounding(card, 0.00321, True) == (
        "Matrices are rounded to 8 bits: each row to multiples of its largest weight / 127. The "
        "largest error of a weight is 0.00321. Of 17 example sentences, 13 get the same "
        "translation as with the checkpoint’s own weights (beam 5). On the translations with the "
        "checkpoint’s own weights, an attention weight differs by at most 0.123, and by 0.0057 on "
        "average."
    )


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


def test_a_page_is_reproducible():
    folder = FOLDERS["de-en"]
    weights = pack(folder)
    assert pack(folder) == weights
    network = offline.Network(read_card(folder), weights, "")
    assert offline.page([network]) == offline.page([network])


def test_the_app_offers_its_model_as_a_page():
    page = render("", state={"source": "Hallo.", "direction": "de-en", "model": "captions"})
    (button,) = [one for one in page.app.get("download_button") if "App" in one.proto.label]
    card = models.cards()["de-en", "captions"]
    made = export.offline_page(card)
    assert export.offline_page(card) is made, "made once for all sessions"
    megabytes = int(re.search(r"about (\d+) MB", button.proto.help)[1])
    assert megabytes == pytest.approx(len(made) / 1e6, abs=1)
    assert sha256(pack(card.folder)).hexdigest().encode() in made


def test_actions_in_the_page_are_timed(visit):
    page = visit(source=SHORT)
    before = explorer(page).get_attribute("data-sentence")
    assert sentences(page, 13, 2) > 0
    assert explorer(page).get_attribute("data-sentence") != before
    rows = {row["what"]: row["value"] for row in actions(page, 2)}
    assert rows.keys() == {
        "edit to painted",
        "edit to translated again",
        "layer or head to painted",
        "effects of all heads",
        "memory of the tab",
    }
    assert all(rows[name] > 0 for name in ("edit to painted", "edit to translated again"))
    assert min(rows.values()) > 0


SCRIPTS = ROOT / "app/components/offline"


def run(page: Page, module: str, expression: str, *arguments: object) -> object:
    """Evaluate an expression that may use a bundled module's names and `args`."""
    script = joined(SCRIPTS / f"{module}.js")
    return page.evaluate(f"(args) => {{ {script}\n return {expression}; }}", list(arguments))


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
    ("before", "after", "bold"),
    [
        ("A man in a red shirt.", "A man in a blue shirt.", ["blue"]),
        ("A man sleeps.", "A man sleeps.", []),
        ("A man sleeps.", "Two men sleep.", ["Two men sleep."]),
        ("one two three", "three one two", ["three"]),
        ("a b", "a x b y", ["x", "y"]),
    ],
)
def test_new_words_are_marked(blank, before, after, bold):
    runs = run(blank, "again", "newWords(...args)", before, after)
    assert " ".join(text for text, _ in runs) == after
    assert [text for text, is_new in runs if is_new] == bold


def test_changing_the_direction_swaps_the_text(blank):
    models = [
        {"direction": "de-en", "examples": [{"text": "Hallo.", "reference": "Hello."}]},
        {"direction": "en-de", "examples": [{"text": "Hello.", "reference": "Hallo."}]},
    ]

    def turned(source: str, shown: dict | None) -> dict:
        choice = {
            "direction": "de-en",
            "source": source,
            "target": "x",
            "beam": 2,
            "edits": "causal",
        }
        return run(blank, "choice", "turned(...args)", choice, models, "en-de", shown)

    assert turned("Hallo.", None)["source"] == "Hello."
    assert turned("Tag.", {"source": "Tag.", "translation": "Day."})["source"] == "Day."
    other = turned("Tag.", {"source": "Nein.", "translation": "No."})
    assert other == {
        "direction": "en-de", "source": "Tag.", "target": "", "beam": 2, "edits": "",
    }  # fmt: skip


PAIRS = (
    ("Um 15 Uhr kosten 12 Eier 1.234 Euro.", "At 3 o'clock 1,234 euros."),
    ("Schreib an a.b@c.de, nicht an www.x.org/y!", "Write to a.b@c.de."),
    ("Der Mann ist in Berlin.", "The man is in Berlin."),
    ("Die Frau in was die an am.", "x"),
    ("He is in the house and the man was here.", "x"),
    ("Il est dans la maison avec des amis.", "x"),
    ("NASA und EU", "NASA and EU"),
    ("EIN HUND LÄUFT", "A dog"),
    ("STRAßE UND WEG", "x"),
    ("…", "x"),
    ("0 Uhr bis 12", "12 to 0"),
    ("Raum 24 und 13", "room 12 and 1"),
)


@pytest.mark.parametrize(("source", "translation"), PAIRS)
@pytest.mark.parametrize("language", ["German", "English", "Esperanto"])
def test_doubts_are_pythons(blank, source, translation, language):
    unknown = tuple("aabcd"[: len(source) % 6])
    words = {name: " ".join(known) for name, known in FUNCTION_WORDS.items()}
    for probability in (0.399, 0.4, 0.05, 0.004):
        expected = warnings_about(source, translation, language, unknown, probability)
        doubted = {
            "source": source,
            "translation": translation,
            "language": language,
            "unknown": unknown,
            "probability": probability,
        }
        reasons = run(blank, "doubts", "reasonsToDoubt(...args)", doubted, words)
        assert reasons == expected.reasons(language)


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
