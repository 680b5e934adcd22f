"""Faults of the offline page: workers that end, and files that are cut off or changed."""

# ruff: noqa: E501 (lines of script)

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from app.export.page import page as saved_page
from core.record.record import TranslationRecord
from core.translator import Translator
from tests.app.conftest import opened_offline
from tests.app.test_offline_page import explorer, part, shown, translate

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "checkpoints/captions-de-en"
LOADING = "the file is incomplete or damaged"
MORTAL = """
// The next `deaths` questions with the fields of `fatal` each end their worker.
Object.assign(window, { started: [], deaths: 0, fatal: {} });
window.Worker = class extends Worker {
  constructor(...given) {
    super(...given);
    window.started.push(this);
    this.lives = new Promise((resolve) => this.addEventListener("message", resolve, { once: true }));
  }
  postMessage(question, ...rest) {
    if (window.deaths && Object.entries(window.fatal).every(([name, value]) => question[name] === value)) {
      window.deaths--;
      this.lives.then(() => this.terminate());
    } else super.postMessage(question, ...rest);
  }
};
"""
TEXTS = ("Ein Hund läuft durch den Schnee.", "Zwei Kinder spielen im Garten.", "Ein Mann schläft.")


@pytest.fixture(scope="module")
def content(offline_file: Path) -> str:
    return offline_file.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    translator = Translator.load(FOLDER, "cpu")
    return {text: translator.translate(text, beam=5).text for text in TEXTS}


@pytest.fixture(scope="module")
def mortal_context(browser: Browser) -> Iterator[BrowserContext]:
    """A context whose pages end their workers on request."""
    context = browser.new_context(offline=True, reduced_motion="reduce")
    context.add_init_script(MORTAL)
    yield context
    context.close()


@pytest.fixture
def page(mortal_context: BrowserContext, offline_file: Path) -> Iterator[Page]:
    with opened_offline(mortal_context, offline_file.as_uri(), offline_file.as_uri()) as page:
        shown(page)
        yield page


def translated(page: Page, text: str, expected: dict[str, str]) -> None:
    translate(page, text)
    expect(part(page, "translation")).to_have_text(expected[text], timeout=30_000)
    expect(part(page, "problem")).to_be_empty()
    expect(explorer(page)).to_be_visible()


def fatal(page: Page, deaths: int, **fields: str) -> None:
    """Let the next questions with these fields end their workers."""
    page.evaluate("([deaths, fatal]) => Object.assign(window, { deaths, fatal })", [deaths, fields])


def started(page: Page) -> int:
    """Return how many workers the page has started."""
    return page.evaluate("() => window.started.length")


def test_a_worker_that_ended_while_idle_is_replaced(page, expected):
    for number, text in enumerate(TEXTS, 2):
        page.workers[-1].evaluate("() => setTimeout(() => self.close())")
        translated(page, text, expected)
        assert started(page) == number


@pytest.mark.parametrize("button", ["Translate", "Record (.npz)"])
def test_a_question_of_a_worker_that_ended_is_asked_again(page, expected, button):
    """The next worker knows the networks, and the sentence that a record is made of."""
    translated(page, TEXTS[0], expected)
    fatal(page, 1, text=TEXTS[1]) if button == "Translate" else fatal(page, 1, ask="npz")
    if button == "Translate":
        translated(page, TEXTS[1], expected)
    else:
        with page.expect_download(timeout=30_000) as saved:
            page.get_by_role("button", name=button).click()
        record = TranslationRecord.load(saved.value.path())
        assert record.translation == expected[TEXTS[0]]
    assert started(page) == 2


def test_a_question_that_ends_two_workers_is_given_up_in_one_line(page, expected):
    fatal(page, 2, text=TEXTS[1])
    source = page.get_by_label(re.compile("sentence$"))
    source.fill(TEXTS[1])
    source.press("Enter")
    expect(part(page, "problem")).to_contain_text("ended twice", timeout=60_000)
    shown(page)
    translated(page, TEXTS[2], expected)
    assert started(page) == 3


def test_the_other_direction_is_opened_again(page, expected):
    """The worker is told of networks before it is told of their sentences."""
    page.get_by_label("English → German").check()
    shown(page)
    fatal(page, 1, ask="translate")
    page.get_by_label("German → English").check()
    shown(page)
    fatal(page, 1, ask="translate")
    translated(page, TEXTS[1], expected)
    page.get_by_label("English → German").check()
    shown(page)
    expect(part(page, "problem")).to_be_empty()
    assert started(page) == 3


def test_a_slow_worker_is_not_replaced(page, expected):
    """It computes for three seconds while the page's clock advances by a minute."""
    page.clock.install()
    busy = "() => setTimeout(() => { for (const end = Date.now() + 3000; Date.now() < end; ); })"
    page.workers[-1].evaluate(busy)
    source = page.get_by_label(re.compile("sentence$"))
    source.fill(TEXTS[1])
    source.press("Enter")
    page.clock.fast_forward(60_000)
    expect(part(page, "status")).to_contain_text("Still computing")
    expect(part(page, "translation")).to_have_text(expected[TEXTS[1]], timeout=30_000)
    assert started(page) == 1


def seen(page: Page, file: Path, content: bytes) -> str:
    """Return the visible text of a file once it has settled."""
    file.write_bytes(content)
    page.goto("about:blank")
    page.goto(file.as_uri())
    page.wait_for_function(
        """() => !document.getElementById("incomplete") || document.readyState === "complete" """
    )
    page.wait_for_timeout(200)
    return page.locator("body").inner_text()


@pytest.fixture(scope="module", params=["offline", "saved"])
def whole(request: pytest.FixtureRequest, content: str) -> tuple[str, bytes]:
    if request.param == "offline":
        return request.param, content.encode()
    record = Translator.load(FOLDER, "cpu").inspect(TEXTS[0])
    return request.param, saved_page(record).encode()


def test_a_file_that_is_cut_off_says_so(offline_context, whole, tmp_path):
    """Cut in the style, the markup, each script, the weights and at the last byte."""
    kind, content = whole
    first = content.index(b'id="incomplete"') + 250  # behind the line itself
    cuts = {m.start() + 40 for m in re.finditer(rb"<(style|main|script)\b", content)}
    cuts = {cut for cut in cuts if cut > first} | {first, len(content) - 1}
    cuts |= {(first + len(content)) // 2, len(content) - len(b"</script>")}
    page = offline_context.new_page()
    file = tmp_path / f"{kind}.html"
    assert LOADING not in seen(page, file, content), "the whole file"
    silent = [cut for cut in sorted(cuts) if LOADING not in seen(page, file, content[:cut])]
    page.close()
    assert len(cuts) > 6 and silent == []


CHANGED = {  # the beginning of a text, and how far behind it a byte is changed
    "offline": [(b'id="weights-de-en">', 9_999), (b'id="weights-en-de">', 99_999),
                (b'id="weights-en-de">', 1_999_999), (b'id="worker">', 3_333),
                (b'id="models">', 60), (b"<script>(() => {", 999)],
    "saved": [(b'id="data">', 5), (b'id="data">', 19_999)],
}  # fmt: skip


def test_a_file_with_a_changed_byte_says_so(offline_context, whole, tmp_path):
    kind, content = whole
    page = offline_context.new_page()
    for start, offset in CHANGED[kind]:
        at = content.index(start) + len(start) + offset
        assert b"</script>" not in content[at - offset : at], "the byte is in the named text"
        byte = b"B" if content[at : at + 1] == b"A" else b"A"
        changed = content[:at] + byte + content[at + 1 :]
        file = tmp_path / "changed.html"
        said = seen(page, file, changed)
        if b"de-en" in start:  # the worker reads these
            expect(part(page, "problem")).to_contain_text("damaged", timeout=15_000)
        else:
            assert "damaged" in said, start
        if b"weights-en-de" in start:
            assert "This file is damaged (weights-en-de)" in said
    page.close()
