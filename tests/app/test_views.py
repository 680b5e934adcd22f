"""What holds on every page of the list: title, odd input, other networks, damaged folders."""

from __future__ import annotations

import pytest

from app.state import models, results
from app.views import VIEWS
from core.text.tokenizer import normalise
from tests import mixed_network, small
from tests.app.rendered import Rendered, render, skip, unpacked

MARKUP = "<script>alert(1)</script> [l](javascript:alert(1)) $x^2$ :red[r] </s> %{z}"
INVISIBLE = "\u202emu\u202c \u2067שלום\u2069 \u200b\u00ad 👩‍👩‍👧‍👦 a\u0301"
ODD = [f"{MARKUP} {INVISIBLE}", "Ein Hund und " * 20]  # the second has sixty words
each_view = pytest.mark.parametrize("path", VIEWS, ids=lambda path: path or "translate")


def enter(path: str, text: str, **state: str) -> Rendered:
    """Open a page with a text; use greedy search, which is faster."""
    options = {"source": text, "direction": "de-en", "model": "scratch", "search": "greedy"}
    page = render(path, state=options | state)
    assert page.app.session_state["source"] == text
    return page


@each_view
def test_a_page_has_its_title_and_shows_any_text(path):
    for text in ODD[: None if VIEWS[path].own_sentence else 1]:
        page = enter(path, text)
        assert not page.app.error and len(page.items) > 1
        if path:
            assert page.texts(kind="title") == [VIEWS[path].title]
        if path in ("masks", "positions"):  # elsewhere only the box shows it
            assert any(normalise(text) in line for line in page.texts(kind="text"))


@each_view
def test_a_text_that_cannot_be_translated_gets_one_line(path):
    asks = VIEWS[path].own_sentence
    page = enter(path, "  \n ")
    hint = "Type a sentence in German, or choose an example."
    assert not page.app.error and (hint in page.texts(kind="caption")) == asks
    errors = [error.value for error in enter(path, "x. " * 99).app.error]
    assert len(errors) == asks
    assert all("the limit is 100, try one" in line and "\n" not in line for line in errors)


def test_a_text_of_too_many_characters_is_refused():
    (error,) = enter("masks", "x" * 100_000).app.error
    assert "100,000 characters are too many: the limit is 500" in error.value


@pytest.mark.parametrize(
    ("path", "text", "warning"),
    [
        ("", "Ein Hund 😀 schläft.", "no token for “😀”"),
        ("masks", "Ein Hund 😀 schläft.", "no token for “😀”"),
        ("", "The cat is in the mud.", "looks like English, but it is read as German"),
    ],
)
def test_a_doubtful_text_gets_a_warning(path, text, warning):
    (shown,) = enter(path, text).app.warning
    assert warning in shown.value and "\n" not in shown.value


def test_html_escapes_of_the_corpus_are_not_shown_in_texts():
    """A model can learn `&amp;` from its corpus; no text shows it."""
    source, target = "Ich esse Fisch & Chips.", "I eat fish &amp; chips."
    for path, given in (("", ""), ("steps", ""), ("", target)):
        texts = enter(path, source, target=given).texts(kind="text")
        assert not any("&amp;" in text for text in texts)
        assert not given or "I eat fish & chips." in texts
    record = results.inspect(models.cards()["de-en", "scratch"], source, target)
    plain = results.inspect(models.cards()["de-en", "scratch"], source, "I eat fish & chips.")
    assert record.target_out == plain.target_out  # escapes of a given target are read as meant


def test_damaged_weights_are_one_line_on_every_page(checkpoints):
    folder = mixed_network.write(checkpoints / "mixed-de-en")
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    for path, view in VIEWS.items():
        if "model" not in view.settings:
            assert not render(path).app.error, "the page needs no model"
            continue
        (line,) = [error.value for error in render(path).app.error]
        assert "model.safetensors" in line and "git checkout" in line and "\n" not in line, path


def test_every_page_shows_a_network_of_another_kind(checkpoints):
    """It has a unigram tokenizer, SiLU, a tied bias, and <bos> before the source."""
    mixed_network.write(checkpoints / "mixed-de-en")
    text = small.SENTENCES[0][0]
    for path in VIEWS:
        shown = render(path, source=text, search="greedy")
        assert not shown.app.error and len(shown.items) > 1, path
    header, _ = unpacked(render("", source=text, search="greedy").payload("explorer"))
    tokens = header["source"]
    assert [i for i, one in enumerate(tokens) if "special" in one] == [0, len(tokens) - 1]
    assert "".join(one["text"] for one in tokens) == f"<bos>{text.replace(' ', '')}<eos>"
    assert [one["text"] for one in header["target_in"]].count("<bos>") == 1
    assert header["checked"] and all(check["passed"] for check in header["checks"])
    tour = render("tour", source=text, act=skip).texts("tour_text", "caption")
    assert any("whole words, punctuation and \\<bos\\> and \\<eos\\>" in line for line in tour)
