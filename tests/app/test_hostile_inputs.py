"""Any input renders the page or one error line, and stays in the text box."""

from __future__ import annotations

import pytest

from app.controls import OWN_SENTENCES
from app.state import models, results
from core.text.tokenizer import normalise
from tests.app.rendered import Rendered, render

PAGES = (
    "",
    "tour",
    "steps",
    "head",
    "heads",
    "literature",
    "masks",
    "positions",
    "bugs",
    "comparison",
    "tokens",
    "class",
    "quiz",
)
MARKUP = "<script>alert(1)</script> *a* [l](javascript:alert(1)) $x^2$ :red[r] </s> %{z}"
INVISIBLE = "\u202emu\u202c \u2067שלום\u2069 \u200b\u00ad 👩‍👩‍👧‍👦 a\u0301"
TEXTS = {
    "word": "Hund",
    "markup": MARKUP,
    "invisible": INVISIBLE,
    "sixty words": "Ein Hund und " * 20,
}
TOO_LONG = {
    "x" * 100_000: "100,000 characters are too many: the limit is 500, try one sentence at a time",
    "x. " * 99: "tokens are too many: the limit is 100, try one sentence at a time",
}
each_page = pytest.mark.parametrize("name", PAGES, ids=lambda name: name or "translate")


def enter(name: str, text: str, **state: str) -> Rendered:
    """Open a page with a text; use greedy search, which is faster."""
    options = {"source": text, "direction": "de-en", "model": "scratch", "search": "greedy"}
    page = render(name, state=options | state)
    assert page.app.session_state["source"] == text
    return page


@each_page
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_an_odd_text_is_answered(name, text):
    page = enter(name, text)
    assert not page.app.error
    if name in ("masks", "positions", "steps"):  # elsewhere only the box shows it
        assert any(normalise(text) in line for line in page.texts(kind="text"))


@pytest.mark.parametrize(
    ("name", "text", "warning"),
    [
        ("", "Ein Hund 😀 schläft.", "no token for “😀”"),
        ("masks", "Ein Hund 😀 schläft.", "no token for “😀”"),
        ("", "The cat is in the mud.", "looks like English, but it is read as German"),
        ("", "qqq ÄÖÜ zzxx wurb", "the geometric mean of its tokens' probabilities is only "),
    ],
)
def test_a_doubtful_text_gets_a_warning(name, text, warning):
    (shown,) = enter(name, text).app.warning
    assert warning in shown.value and "\n" not in shown.value


def test_html_escapes_of_the_corpus_are_not_shown_in_texts():
    """A model can learn `&amp;` from its corpus; no text shows it."""
    source, target = "Ich esse Fisch & Chips.", "I eat fish &amp; chips."
    for name, given in (("", ""), ("steps", ""), ("", target)):
        texts = enter(name, source, target=given).texts(kind="text")
        assert not any("&amp;" in text for text in texts)
        assert not given or "I eat fish & chips." in texts
    record = results.inspect(models.cards()["de-en", "scratch"], source, target)
    plain = results.inspect(models.cards()["de-en", "scratch"], source, "I eat fish & chips.")
    assert record.target_out == plain.target_out  # escapes of a given target are read as meant


@each_page
@pytest.mark.parametrize("text", ["", "  \n "], ids=["empty", "spaces"])
def test_an_empty_text_gets_a_hint(name, text):
    page = enter(name, text)
    assert not page.app.error
    hint = "Type a sentence in German, or choose an example."
    assert (hint in page.texts(kind="caption")) == (name not in OWN_SENTENCES)


@each_page
@pytest.mark.parametrize(("text", "line"), TOO_LONG.items(), ids=["characters", "tokens"])
def test_a_text_that_is_too_long_gets_one_line_with_the_limit(name, text, line):
    errors = [error.value for error in enter(name, text).app.error]
    if name in OWN_SENTENCES:
        assert not errors
    else:
        (error,) = errors
        assert line in error and "\n" not in error
