"""The content of untrusted checkpoint folders is shown as text and breaks no page."""

import json
import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.look.markdown import plain
from app.state import models
from app.views import VIEWS
from tests.core import strange_folders

MAIN = Path(__file__).resolve().parents[2] / "app/main.py"
NAMES = {"de": "German", "en": "English", "el": "Modern Greek"}
PICTURE = "![x](http://127.0.0.1:9/b.png) :red[r] $x^2$ `c` <b>b</b>"
MARKDOWN = ("error", "warning", "info", "caption", "markdown", "button", "button_group", "radio")


@pytest.fixture
def root(checkpoints):
    """A folder of checkpoints with one tiny network, with room for the app's examples."""
    strange_folders.network(max_length=200)(strange_folders.good(checkpoints / "scratch-de-en"))
    return checkpoints


def opened() -> AppTest:
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    app.session_state["search"] = "greedy"
    app.run()
    assert not app.exception
    return app


def rerun(app: AppTest) -> AppTest:
    """List the checkpoint folders again and rerun the page."""
    models._listed.clear()
    app.run()
    assert not app.exception
    return app


def markdown_texts(app: AppTest) -> list[str]:
    """Return every text of a page that Streamlit renders as Markdown."""
    texts = [str(e.value) for kind in MARKDOWN for e in app.get(kind) if hasattr(e, "value")]
    texts += [str(e.label) for kind in MARKDOWN for e in app.get(kind) if hasattr(e, "label")]
    groups = [e.proto for e in (*app.get("button_group"), *app.get("radio"))]
    return texts + [str(getattr(o, "content", o)) for group in groups for o in group.options]


def test_untrusted_text_is_never_markdown(root):
    """Put the text in names (folder, file, corpus, config key), an architecture and a language."""
    odd = strange_folders.good(root / ":red[r] $x^2$ `c` ![x](b.png)-de-en")
    strange_folders.network(max_length=200)(odd)
    corpus = PICTURE.replace("`", "")  # corpus names cannot contain it
    metrics = json.dumps({"final": {corpus: {"sacrebleu": 1.5}}})
    for folder in (odd, root / "scratch-de-en"):
        (folder / "metrics.json").write_text(metrics)
    for name, change in (
        ("a", strange_folders.network(**{PICTURE: 1})),
        ("b", strange_folders.config(source_language=PICTURE)),
        ("c", strange_folders.config(architecture=PICTURE)),
        ("d", strange_folders.renamed(PICTURE)),
    ):
        change(strange_folders.good(root / f"{name}-de-en"))
    app, seen = opened(), 0
    for page, view in VIEWS.items():
        app.switch_page(view.file).run()
        assert not app.exception, page
        for text in markdown_texts(app):
            for mark in ("![x](", ":red[r]", "$x^2$", "`c`", "<b>"):
                assert mark not in text, (page, text)
            seen += plain("![x](") in text
    assert seen >= 5 * 8  # four bad folders and a corpus


@pytest.mark.parametrize("direction", ["el-roa", "de-qqq"])
def test_a_language_is_shown_by_its_name_or_else_its_code(root, direction):
    source, target = direction.split("-")
    change = strange_folders.config(source_language=source, target_language=target)
    change(shutil.copytree(root / "scratch-de-en", root / f"scratch-{direction}"))
    app = opened()
    radio = app.selectbox(key="direction")
    languages = " → ".join(NAMES.get(x, x) for x in (source, target))
    assert radio.options == ["German → English", languages] and radio.value == "de-en"
    radio.set_value(direction).run()
    app.text_area(key="source").set_value("Zwei Hunde.").run()
    for page in VIEWS if source != "de" else ("", "training", "tour"):
        view = VIEWS[page]
        app.switch_page(view.file).run()
        assert not app.exception and not app.error, page
        assert app.session_state["direction"] == direction
        if view.own_sentence:
            assert app.text_area(key="source").label == f"{languages.split(' → ')[0]} sentence"
            assert app.get("bidi_component"), page
        elif page in ("training", "tour"):
            said = {"training": "no training snapshots", "tour": "There is no tour from"}[page]
            assert any(said in text.value for text in app.caption)
    app.switch_page(VIEWS[""].file).run()
    shown = [example.label for example in app.button if example.key.startswith("example_")]
    assert bool(shown) == (source == "de")


def test_invalid_metrics_are_a_line_in_the_sidebar(root):
    (root / "scratch-de-en/metrics.json").write_bytes(b"[" * 60_000)
    app = opened()
    assert not app.error and app.get("bidi_component")
    notes = [caption.value for caption in app.caption if "No scores" in caption.value]
    assert len(notes) == 1 and "metrics.json" in notes[0] and "deeper than 8" in notes[0]


def test_a_loaded_model_survives_damage_to_its_folder(root):
    shutil.copytree(root / "scratch-de-en", root / "another-de-en")
    app = opened()
    shown = [text.value for text in app.text]
    strange_folders.network(num_heads=0)(root / "scratch-de-en")
    rerun(app)
    (error,) = app.error
    assert "num_heads is 0, not a whole number from 1 to 128" in error.value.replace("\\", "")
    assert [text.value for text in app.text] == shown and app.get("bidi_component")
    app.text_area(key="source").set_value("Zwei Hunde.").run()
    assert not app.exception and app.get(
        "bidi_component"
    )  # decoded by the loaded model, not from the cache
    assert "scratch" in app.selectbox(key="model").options[1]
    shutil.rmtree(root / "scratch-de-en")
    rerun(app)
    assert not app.error and len(app.selectbox(key="model").options) == 1
