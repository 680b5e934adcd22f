"""The main page, with the shipped checkpoints and with unusable ones."""

import re
import shutil
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, expect
from streamlit.testing.v1 import AppTest

from app.benchmark.browser import SENTENCES
from app.look.markdown import plain
from app.state import models

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "app/main.py"
SENTENCE = "Zwei junge Männer spielen im Park Fußball."


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


def run_with(folder: Path, monkeypatch) -> AppTest:
    """Run the main page with another folder of checkpoints, without a browser."""
    monkeypatch.setattr(models, "CHECKPOINTS", folder)
    models._listed.clear()
    app = AppTest.from_file(str(MAIN), default_timeout=60).run()
    models._listed.clear()
    assert not app.exception
    return app


def test_missing_checkpoints_are_one_line_errors(tmp_path, monkeypatch):
    (error,) = run_with(tmp_path, monkeypatch).error
    assert error.value == plain(f"{tmp_path}/ contains no checkpoint: make one with `make train`")
    shutil.copytree(ROOT / "checkpoints/scratch-de-en", tmp_path / "scratch-de-en")
    (tmp_path / "baseline-de-en").mkdir()
    app = run_with(tmp_path, monkeypatch)
    (error,) = app.error
    assert "baseline-de-en/config.json is missing" in error.value
    assert app.get("bidi_component"), "the other model works"


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
        expect(root).not_to_have_attribute("data-sentence", shown or "", timeout=30_000)
    scripts = [path for path in fetched if "/bidi-components/headlight.explorer/" in path]
    assert len(scripts) == 1 and scripts[0].endswith(".js")
    texts = [m if isinstance(m, bytes) else m.encode() for m in messages]
    assert not any(b"export default" in text for text in texts)
    assert sum(SENTENCES[1].encode() in text for text in texts), "messages are captured"


def test_an_opened_file_is_a_record_or_a_one_line_error(translator):
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    app.session_state["take_away"] = True
    app.run()
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
