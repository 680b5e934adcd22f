"""The request log: one JSON line per request, with the sentence only if enabled."""

import io
import json
import logging
from collections.abc import Callable

import pytest

from app.state import log, models, results
from tests.app.rendered import render

SENTENCE = "Ein \x1b]0;Hund\x07 schläft.\n"
KEY = (("/somewhere/scratch-de-en", "0" * 64, False), SENTENCE, None)
FIELDS = ["time", "request", "what", "model", "queue_s", "seconds", "outcome", "error"]


@pytest.fixture
def lines(monkeypatch) -> Callable[[], list[str]]:
    """Return the lines logged so far."""
    written = io.StringIO()
    monkeypatch.setattr(log._LOG, "handlers", [logging.StreamHandler(written)])
    return lambda: written.getvalue().splitlines()


def only(lines: Callable[[], list[str]]) -> dict:
    (line,) = lines()
    assert line.isascii() and line.isprintable()
    return json.loads(line)


def test_a_request_is_one_line_of_json(lines):
    assert log.logged(KEY, lambda: 7)() == 7
    line = only(lines)
    assert list(line) == FIELDS
    assert line["what"] == "inspect" and line["model"] == "scratch-de-en"
    assert (line["outcome"], line["error"], line["queue_s"]) == ("answered", "", 0)
    assert line["time"].endswith("+00:00") and line["seconds"] >= 0
    assert "Hund" not in "".join(lines())


@pytest.mark.parametrize(
    ("page", "always", "logged"),
    [
        (
            "class",
            "there are no accounts, and ",
            "the log of this server holds the sentences that it translates, and nothing else is",
        ),
        (
            "heads",
            "Nothing is stored: closing this tab deletes the text and its numbers.",
            "Sentences that you open on *Translate* go into the log of this server.",
        ),
    ],
)
def test_pages_say_whether_sentences_are_logged(monkeypatch, page, always, logged):
    for setting, said in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv(log.SENTENCES, setting)
        (text,) = [t for t in render(page).texts(kind="caption") if always in t]
        assert (logged in text) == said
        assert page != "class" or (" and nothing is stored on the server." in text) != said


def test_what_pages_say_about_the_log_is_true(monkeypatch, lines):
    """A plan's sentences are logged; the lines of one's own text are not."""
    monkeypatch.setenv(log.SENTENCES, "1")
    render("class", plan="1~masks.Ein Kamel gähnt.", model="captions")

    def measured(app) -> None:
        app.text_area(key="own_text_lines").set_value("Zwei Kamele gähnen laut.")
        app.button(key="own_text_measure").click().run()

    render("heads", act=measured, model="captions")
    written = [json.loads(line).get("sentence", "") for line in lines()]
    assert "Ein Kamel gähnt." in written and "own text" in "".join(lines())
    assert not any("Kamele" in line for line in lines())


def test_the_queue_time_is_logged(lines):
    def waited():
        log.current().queue_s = 1.25

    log.logged(("core.analysis:question", ("a/b-en-de", "", True), "record"), waited)()
    line = only(lines)
    assert line["queue_s"] == 1.25 and log.current() is None
    assert (line["what"], line["model"]) == ("core.analysis:question", "b-en-de-twin")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ValueError, "refused"), (OSError, "failed"), (GeneratorExit, "stopped")],
)
def test_the_outcome_is_logged_without_the_message(lines, error, outcome):
    def make():
        raise error(SENTENCE)

    with pytest.raises(error):
        log.logged(KEY, make)()
    line = only(lines)
    assert (line["outcome"], line["error"]) == (outcome, error.__name__)
    assert "Hund" not in "".join(lines())


def test_a_sentence_is_logged_if_enabled_in_ascii(lines, monkeypatch):
    monkeypatch.setenv(log.SENTENCES, "1")
    log.logged(KEY, lambda: None)()
    line = only(lines)
    assert line["sentence"] == SENTENCE


def test_an_experiment_without_a_model_is_logged_without_a_name(lines):
    log.logged(("core.analysis:question", None, ("a", 1)), lambda: None)()
    assert only(lines)["model"] == ""


def test_loading_snapshots_is_logged_by_name_without_a_sentence(lines, monkeypatch):
    monkeypatch.setenv(log.SENTENCES, "1")
    results._store.clear()
    results.snapshots(models.cards()["de-en", "scratch"])
    line = only(lines)
    assert (line["what"], line["model"], line["sentence"]) == ("snapshots", "scratch-de-en", "")


def test_a_cached_result_is_not_logged(lines):
    from app.state.store import Store

    store = Store(1000)
    for _ in range(2):
        store.get(KEY, log.logged(KEY, lambda: "once"))
    assert len(lines()) == 1
