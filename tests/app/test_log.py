"""The request log: one JSON line per request, with the sentence only if enabled."""

import io
import json
import logging
from collections.abc import Callable

import pytest

from app.state import log, models, results
from tests.app.rendered import render

SENTENCE = "Ein \x1b]0;Hund\x07 schläft.\n"
KEY = (("/somewhere/scratch-de-en", "0" * 64, False, (None, None, None)), SENTENCE, None)
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


ASKED = "core.analysis:question"


def waited() -> None:
    log.current().queue_s = 1.25


@pytest.mark.parametrize(
    ("key", "make", "found"),
    [
        (KEY, lambda: 7, {"what": "inspect", "model": "scratch-de-en", "queue_s": 0}),
        (
            (ASKED, ("a/b-en-de", "", True, (None, None, None)), "record"),
            waited,
            {"model": "b-en-de-twin", "queue_s": 1.25},
        ),
        ((ASKED, None, ("a", 1)), lambda: None, {"what": ASKED, "model": ""}),
    ],
)
def test_a_request_is_one_line_of_json_without_its_sentence(lines, key, make, found):
    assert log.logged(key, make)() == (7 if key is KEY else None)
    line = only(lines)
    assert list(line) == FIELDS and found.items() <= line.items()
    assert (line["outcome"], line["error"]) == ("answered", "")
    assert line["time"].endswith("+00:00") and line["seconds"] >= 0
    assert "Hund" not in "".join(lines()) and log.current() is None


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
    assert only(lines)["sentence"] == SENTENCE
    results._store.clear()
    results.snapshots(models.cards()["de-en", "scratch"])
    loaded = json.loads(lines()[1])
    assert (loaded["what"], loaded["model"], loaded["sentence"]) == (
        "snapshots", "scratch-de-en", "",
    )  # fmt: skip


def test_a_cached_result_is_not_logged(lines):
    from app.state.store import Store

    store = Store(1000)
    for _ in range(2):
        store.get(KEY, log.logged(KEY, lambda: "once"))
    assert len(lines()) == 1
