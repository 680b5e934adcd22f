"""The page while the machines that a model is on die and come back: a line, and it goes on."""

from pathlib import Path

from streamlit.testing.v1 import AppTest

from app.state import models, results
from core.serving.ray_serve import SETTING
from tests.core.remote_server import free_port, served

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "checkpoints/captions-de-en"


def forget() -> None:
    for cache in (models._networks, results._store):
        cache.clear()


def asked(app: AppTest, text: str) -> tuple[list[str], bool]:
    """The error lines of the page for a sentence, and whether it shows the explorer."""
    app.text_area(key="source").set_value(text).run()
    assert not app.exception and app.radio(key="direction").options
    return [error.value for error in app.error], bool(app.get("bidi_component"))


def test_the_page_goes_on_without_the_machines_and_with_them_again(monkeypatch):
    port = free_port()
    monkeypatch.setenv(SETTING, f"http://127.0.0.1:{port}")
    forget()
    app = AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=60)
    app.session_state["search"], app.session_state["model"] = "greedy", "captions"
    try:
        with served(port, FOLDER):
            app.run()
            assert not app.exception and asked(app, "Ein Hund läuft.") == ([], True)
        for text in ("Zwei Hunde.", "Drei Hunde."):
            (line,), shown = asked(app, text)
            assert "do not answer" in line and "try again" in line
        assert asked(app, "Ein Hund läuft.")[0] == []  # what is kept is there
        app.switch_page("views/masks/page.py").run()
        assert not app.exception
        app.switch_page("views/translate.py").run()
        with served(port, FOLDER):
            errors, shown = asked(app, "Zwei Hunde.")
            assert (errors, shown) == ([], True)
    finally:
        forget()
