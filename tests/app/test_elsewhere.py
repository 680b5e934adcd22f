"""The main page while a remote backend is down, and after the backend returns."""

from pathlib import Path

from streamlit.testing.v1 import AppTest

from app.benchmark.browser import free_port
from core.serving.backend import SETTING
from tests.app.conftest import clear_caches
from tests.core.test_ray_serve import served

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "checkpoints/captions-de-en"


def translate(app: AppTest, text: str) -> tuple[list[str], bool]:
    """Enter a sentence; return the errors, and whether the explorer is shown."""
    app.text_area(key="source").set_value(text).run()
    assert not app.exception and app.selectbox(key="direction").options
    return [error.value for error in app.error], bool(app.get("bidi_component"))


def test_the_page_survives_an_outage_of_the_backend(monkeypatch):
    port = free_port()
    monkeypatch.setenv(SETTING, f"http://127.0.0.1:{port}")
    clear_caches()
    app = AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=60)
    app.session_state["search"], app.session_state["model"] = "greedy", "captions"
    try:
        with served(port, FOLDER):
            app.run()
            assert not app.exception and translate(app, "Ein Hund läuft.") == ([], True)
        for text in ("Zwei Hunde.", "Drei Hunde."):
            (line,), shown = translate(app, text)
            assert "does not answer" in line and "try again" in line
        assert translate(app, "Ein Hund läuft.")[0] == []  # cached
        app.switch_page("views/masks/page.py").run()
        assert not app.exception
        app.switch_page("views/translate.py").run()
        with served(port, FOLDER):
            errors, shown = translate(app, "Zwei Hunde.")
            assert (errors, shown) == ([], True)
    finally:
        clear_caches()
