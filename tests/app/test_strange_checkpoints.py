"""Strangers' checkpoint folders beside good ones: what they hold is text, and breaks no page."""

import json
import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.look.markdown import plain
from app.state import models, results
from tests.core import strange_folders

MAIN = Path(__file__).resolve().parents[2] / "app/main.py"
PAGES = ("translate", "tour/page", "steps", "why/page", "masks/page", "positions/page")
PICTURE = "![x](http://127.0.0.1:9/b.png) :red[r] $x^2$ `c` <b>b</b>"
MARKDOWN = ("error", "warning", "info", "caption", "markdown", "button", "button_group", "radio")


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder of checkpoints with one tiny network that has room for the examples."""
    strange_folders.network(max_length=200)(strange_folders.good(tmp_path / "scratch-de-en"))
    monkeypatch.setattr(models, "CHECKPOINTS", tmp_path)
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    """Nothing is listed, loaded or kept."""
    models._listed.clear()
    models._networks.clear()
    models._loaded.clear()
    results._store.clear()


def opened() -> AppTest:
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    app.session_state["search"] = "greedy"
    app.run()
    assert not app.exception
    return app


def again(app: AppTest) -> AppTest:
    """The page once more, after what is listed has been read again."""
    models._listed.clear()
    app.run()
    assert not app.exception
    return app


def read_as_markdown(app: AppTest) -> list[str]:
    """Every text of a page that Streamlit takes for Markdown."""
    found = [str(e.value) for kind in MARKDOWN for e in app.get(kind) if hasattr(e, "value")]
    found += [str(e.label) for kind in MARKDOWN for e in app.get(kind) if hasattr(e, "label")]
    groups = [e.proto for e in (*app.get("button_group"), *app.get("radio"))]
    return found + [str(getattr(o, "content", o)) for group in groups for o in group.options]


def test_what_strangers_wrote_is_text_on_every_page(root):
    """In a name of their folder, among a network's sizes, in a corpus, in a language."""
    odd = strange_folders.good(root / ":red[r] $x^2$ `c` ![x](b.png)-de-en")
    strange_folders.network(max_length=200)(odd)
    corpus = PICTURE.replace("`", "")  # a mark that no corpus may have in its name
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
    for page in PAGES:
        app.switch_page(f"views/{page}.py").run()
        assert not app.exception, page
        for text in read_as_markdown(app):
            for mark in ("![x](", ":red[", "$x^2$", "`c`", "<b>"):
                assert mark not in text, (page, text)
            seen += plain("![x](") in text
    assert seen >= 5 * len(PAGES)  # four bad folders and a corpus


@pytest.mark.parametrize("direction", ["fr-yue", "de-yue", "fr-en"])
def test_a_language_that_is_not_known_is_its_code_on_every_page(root, direction):
    source, target = direction.split("-")
    of = strange_folders.config(source_language=source, target_language=target)
    of(shutil.copytree(root / "scratch-de-en", root / f"scratch-{direction}"))
    app = opened()
    radio = app.radio(key="direction")
    languages = " → ".join({"de": "German", "en": "English"}.get(x, x) for x in (source, target))
    assert radio.options == ["German → English", languages] and radio.value == "de-en"
    radio.set_value(direction).run()
    app.text_area(key="source").set_value("Zwei Hunde.").run()
    for page in (*PAGES, "inside_head/page", "together", "comparison/page"):
        app.switch_page(f"views/{page}.py").run()
        assert not app.exception and not app.error, page
        assert app.radio(key="direction").value == direction
        if page == "tour/page":
            assert any("There is no tour from" in caption.value for caption in app.caption)
        else:
            assert app.text_area(key="source").label == f"{languages.split(' ')[0]} sentence"
            assert app.get("bidi_component"), page
    shown = [example.label for example in app.button if example.key.startswith("example_")]
    assert bool(shown) == (source == "de")


def test_without_a_sentence_in_a_language_that_is_not_known_one_is_asked_for(root):
    strange_folders.config(source_language="fr")(root / "scratch-de-en")
    app = opened()
    assert [c.value for c in app.caption if "Type a" in c.value] == ["Type a sentence in fr."]
    app.text_area(key="source").set_value("Zwei Hunde.").run()
    assert not app.exception and not app.error


def test_broken_metrics_are_a_line_in_the_sidebar(root):
    (root / "scratch-de-en/metrics.json").write_bytes(b"[" * 60_000)
    app = opened()
    assert not app.error and app.get("bidi_component")
    notes = [caption.value for caption in app.caption if "No scores" in caption.value]
    assert len(notes) == 1 and "metrics.json" in notes[0] and "deeper than 8" in notes[0]


def test_the_model_in_use_stays_while_its_folder_is_unusable(root):
    shutil.copytree(root / "scratch-de-en", root / "another-de-en")
    app = opened()
    shown = [text.value for text in app.text]
    strange_folders.network(num_heads=0)(root / "scratch-de-en")
    again(app)
    (error,) = app.error
    assert "num_heads 0 is out of range" in error.value.replace("\\", "")
    assert [text.value for text in app.text] == shown and app.get("bidi_component")
    app.text_area(key="source").set_value("Zwei Hunde.").run()
    assert not app.exception and app.get("bidi_component")  # the model itself, not what it wrote
    assert "scratch" in app.selectbox(key="model").options[1]
    shutil.rmtree(root / "scratch-de-en")
    again(app)
    assert not app.error and len(app.selectbox(key="model").options) == 1
