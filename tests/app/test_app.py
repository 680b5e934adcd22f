"""The main page, with the shipped checkpoints and with unusable ones."""

import re
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from streamlit.testing.v1 import AppTest

from app.benchmark.browser import SENTENCES
from app.look.markdown import plain
from app.state import models
from core.config import DecodeConfig
from core.translator import Translator

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "app/main.py"
SENTENCE = "Zwei junge Männer spielen im Park Fußball."


@pytest.fixture
def app(local_page: Page, serve) -> Page:
    """The main page with its first example painted."""
    local_page.goto(serve(MAIN))
    painted(local_page)
    return local_page


@pytest.fixture(scope="module")
def shared(shared_page: Page, serve) -> Page:
    """The main page, shared by the tests that only change the text."""
    shared_page.goto(serve(MAIN))
    painted(shared_page)
    return shared_page


def painted(page: Page):
    """Wait for the explorer's first paint; return its root."""
    root = page.locator("section[aria-label='Attention explorer']")
    expect(root).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=60_000)
    return root


def translate(page: Page, text: str) -> None:
    """Enter a text and press *Translate*."""
    page.locator(".st-key-source textarea").fill(text)
    page.locator(".st-key-translate button").click()
    expect(page.locator("[data-testid=stApp]")).not_to_have_attribute(
        "data-test-script-state", "running", timeout=60_000
    )


def hover_cell(root, query: int, key: int) -> dict[str, str]:
    """Hover over a cell of the map; return the root's data attributes."""
    canvas = root.locator("canvas[data-role=map]")
    canvas.scroll_into_view_if_needed()
    at = canvas.evaluate("({dataset: d}) => [+d.left, +d.top, +d.cell]")
    position = {"x": at[0] + (key + 0.5) * at[2], "y": at[1] + (query + 0.5) * at[2]}
    canvas.hover(position=position)
    return root.evaluate("root => ({...root.dataset})")


def test_hovered_weights_are_those_of_the_record(app, translator):
    record = translator.inspect(SENTENCE)
    root = painted(app)
    translate(app, SENTENCE)
    expect(app.locator(".st-key-translation")).to_have_text(record.translation)
    expect(root).to_have_attribute("data-sentence", record.id)
    for kind, layer, head in [("cross", 1, 3), ("encoder", 2, 0), ("decoder", 3, 1)]:
        root.locator(f"[data-kind-option={kind}]").click()
        root.locator(f".thumbnail[data-l='{layer}'][data-h='{head}']").click()
        weights = record.maps(kind)[layer, head]
        strongest = np.unravel_index(weights.argmax(), weights.shape)
        for query, key in [strongest, (2, 1), (weights.shape[0] - 1, 0)]:
            shown = hover_cell(root, int(query), int(key))
            assert (shown["kind"], shown["layer"], shown["head"]) == (kind, str(layer), str(head))
            assert (shown["query"], shown["key"]) == (str(query), str(key))
            assert abs(float(shown["weight"]) - weights[query, key]) <= 1 / 255


def test_greedy_search_shows_the_greedy_record(app, translator):
    greedy = translator.inspect(SENTENCE, decode=DecodeConfig(beam=1))
    translate(app, SENTENCE)
    app.locator(".st-key-search button", has_text="Greedy").click()
    expect(painted(app)).to_have_attribute("data-sentence", greedy.id)
    expect(app.locator(".st-key-translation")).to_have_text(greedy.translation)


def test_switching_the_direction_translates_the_example(app):
    from app.examples import EXAMPLES

    app.locator(".st-key-direction").get_by_text("English → German").click()
    expect(app.locator(".st-key-source textarea")).to_have_value(EXAMPLES[0].en)
    expected = Translator.load(ROOT / "checkpoints/scratch-en-de").inspect(EXAMPLES[0].en)
    expect(painted(app)).to_have_attribute("data-sentence", expected.id)
    expect(app.locator(".st-key-translation")).to_have_text(expected.translation)
    expect(app).to_have_url(re.compile("direction=en-de"))


def test_unknown_words_are_shown_as_typed(shared):
    translate(shared, "Ein Mann aus 東京 lacht.")
    unknown = painted(shared).locator(".unknown", has_text="東京").first
    expect(unknown).to_be_visible()


def test_markup_and_unusual_characters_are_text(shared, translator):
    text = (
        "<img src=x onerror=alert(1)> & <b>fett</b> </s> <eos> $x^2$ *kursiv* `code` :red[rot] "
        "[link](javascript:alert(1)) %{z} \u202eum\u202c und \u200b\u00ad 👩‍👩‍👧‍👦"
    )
    record = translator.inspect(text)
    translate(shared, text)
    root = painted(shared)
    expect(root).to_have_attribute("data-sentence", record.id)
    assert root.locator("img, b >> text=fett, a, script").count() == 0
    expect(shared.locator(".st-key-translation")).to_have_text(record.translation)


def test_the_lessons_use_the_sentence_of_the_main_page(app, translator):
    translate(app, SENTENCE)
    expect(app.locator(".st-key-translation")).to_have_text(
        translator.inspect(SENTENCE).translation
    )
    for name, last in (("Masks", "one word were masked"), ("Positions", "score is position")):
        app.get_by_role("link", name=name).click()
        expect(app.locator(".st-key-lesson_sentence")).to_contain_text(SENTENCE, timeout=30_000)
        expect(app.get_by_role("heading", name=last)).to_be_visible(timeout=60_000)
        if name == "Masks":
            app.get_by_role("button", name="Show it").first.click()
        expect(app.locator(".stPlotlyChart").first).to_be_visible(timeout=30_000)
        expect(app.locator("[data-testid=stException]")).to_have_count(0)
    app.get_by_role("link", name="Translate").click()
    painted(app)


def run_with(folder: Path, monkeypatch) -> AppTest:
    """Run the main page with another folder of checkpoints, without a browser."""
    monkeypatch.setattr(models, "CHECKPOINTS", folder)
    models._listed.clear()
    app = AppTest.from_file(str(MAIN), default_timeout=60).run()
    models._listed.clear()
    assert not app.exception
    return app


def test_no_checkpoint_is_a_one_line_error(tmp_path, monkeypatch):
    app = run_with(tmp_path, monkeypatch)
    assert [e.value for e in app.error] == [
        plain(f"{tmp_path}/ contains no checkpoint: make one with `make train`")
    ]


LESSONS = ("tour", "inside_head", "why", "masks", "positions", "comparison")


def test_damaged_weights_are_a_one_line_error_on_every_page(tmp_path, monkeypatch):
    folder = shutil.copytree(ROOT / "checkpoints/scratch-de-en", tmp_path / "scratch-de-en")
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    app = run_with(tmp_path, monkeypatch)
    for view in ("translate", "steps", "together", *(f"{lesson}/page" for lesson in LESSONS)):
        app.switch_page(f"views/{view}.py").run()
        assert not app.exception, view
        (error,) = app.error
        assert "model.safetensors" in error.value and "git checkout" in error.value
        assert "\n" not in error.value
    models._listed.clear()


def test_the_script_is_fetched_once_and_not_sent_in_messages(local_page: Page, serve):
    fetched, messages = [], []
    local_page.on("request", lambda request: fetched.append(urlsplit(request.url).path))
    local_page.on(
        "websocket", lambda socket: socket.on("framereceived", lambda m: messages.append(m))
    )
    local_page.goto(serve(MAIN))
    root = painted(local_page)
    for sentence in SENTENCES:
        shown = root.get_attribute("data-sentence")
        translate(local_page, sentence)
        expect(root).not_to_have_attribute("data-sentence", shown or "")
    scripts = [path for path in fetched if "/bidi-components/headlight.explorer/" in path]
    assert len(scripts) == 1 and scripts[0].endswith(".js")
    texts = [m if isinstance(m, bytes) else m.encode() for m in messages]
    assert not any(b"export default" in text for text in texts)
    assert sum(SENTENCES[1].encode() in text for text in texts), "messages are captured"


def test_an_opened_file_is_a_record_or_a_one_line_error(translator):
    app = AppTest.from_file(str(MAIN), default_timeout=60).run()
    for content in (b"no archive", b"PK\x03\x04broken", b"\x80\x04N."):
        app.file_uploader(key="open_record").set_value(("x.npz", content, "")).run()
        assert not app.exception
        (error,) = app.error
        assert "is not a saved record" in error.value and "\n" not in error.value
        assert "pickle" not in error.value, "no advice to use pickle"
        assert app.get("bidi_component"), "the page's own record remains"
    name = "*a* [l](javascript:alert(1)) :red[b].npz"
    content = translator.inspect(SENTENCE).to_bytes()
    app.file_uploader(key="open_record").set_value((name, content, "")).run()
    assert not app.exception and not app.error
    assert app.subheader[-1].value == f"Opened: {plain(name)}"


def test_an_invalid_folder_is_named(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "checkpoints/scratch-de-en", tmp_path / "scratch-de-en")
    (tmp_path / "baseline-de-en").mkdir()
    app = run_with(tmp_path, monkeypatch)
    (error,) = app.error
    assert "baseline-de-en/config.json is missing" in error.value
    assert app.get("bidi_component")
