"""Whatever is typed, every page answers with its lesson or one clear line, and keeps the text."""

from __future__ import annotations

from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.state import models, results
from core.text.tokenizer import normalise

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "translate": "translate.py",
    "tour": "tour/page.py",
    "steps": "steps.py",
    "head": "inside_head/page.py",
    "masks": "masks/page.py",
    "positions": "positions/page.py",
    "comparison": "comparison/page.py",
}
MARKUP = "<script>alert(1)</script> *a* [l](javascript:alert(1)) $x^2$ :red[r] </s> %{z}"
UNSEEN = "\u202emu\u202c \u2067שלום\u2069 \u200b\u00ad 👩‍👩‍👧‍👦 a\u0301"
ANSWERED = ["Hund", MARKUP, UNSEEN, "Ein Hund und " * 20]
REFUSED = {
    "x" * 100_000: "100,000 characters are too many: the limit is 500, try one sentence at a time",
    "x. " * 99: "tokens are too many: the limit is 100, try one sentence at a time",
}


@pytest.fixture(scope="module")
def shared():
    """What one page has worked out is there for the next; later tests find nothing of it."""
    yield
    st.cache_resource.clear()


@pytest.fixture(scope="module", params=PAGES)
def page(request, shared) -> AppTest:
    """One of the pages, as a visitor opens it; a greedy search is as good here, and quicker."""
    view = f"views/{PAGES[request.param]}"
    if request.param in ("translate", "tour"):  # they link to other pages
        app = AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=120).run()
        app.switch_page(view)
    else:
        app = AppTest.from_file(str(ROOT / "app" / view), default_timeout=120)
        app.session_state["direction"], app.session_state["model"] = "de-en", "scratch"
    app.session_state["name"], app.session_state["search"] = request.param, "greedy"
    return app


def typed(page: AppTest, text: str) -> list[str]:
    """What the page says once a text was typed on it."""
    page.session_state["source"] = text
    page.run()
    assert not page.exception, page.exception
    assert page.session_state["source"] == text  # nothing is lost
    return [element.value for element in page.text]


@pytest.mark.parametrize("text", ANSWERED, ids=["word", "markup", "unseen", "sixty words"])
def test_an_odd_text_is_answered(page, text):
    said = typed(page, text)
    assert not page.error
    if page.session_state["name"] in ("masks", "positions", "steps"):  # elsewhere in a box
        assert any(normalise(text) in line for line in said), said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Ein Hund 😀 schläft.", "no token for “😀”"),
        ("The cat is in the mud.", "looks like English, but it is read as German"),
        ("qqq ÄÖÜ zzxx wurb", "a mean probability of only "),
    ],
)
def test_a_doubtful_text_is_answered_with_a_warning(page, text, said):
    pages = ("translate", "masks") if "token" in said else ("translate",)
    if page.session_state["name"] not in pages:
        pytest.skip("the first page has every warning; one is enough to see it above the lessons")
    typed(page, text)
    (warning,) = page.warning
    assert said in warning.value and "\n" not in warning.value


def test_an_escaped_character_never_reaches_a_reader(page):
    """A network can learn `&amp;` from its corpus; only the tokens show that it is written so."""
    if page.session_state["name"] not in ("translate", "steps"):
        pytest.skip("the translation is made at one place")
    source = "Ich esse Fisch & Chips."
    said = typed(page, source)
    assert not any("&amp;" in line for line in said)
    if page.session_state["name"] == "translate":
        page.session_state["target"] = target = "I eat fish &amp; chips."
        said = typed(page, source)
        assert "I eat fish & chips." in said
        assert not any("&amp;" in line for line in said)
        record = results.inspect(models.cards()["de-en", "scratch"], source, target)
        assert "amp" in "".join(token.piece for token in record.target_out)
        page.session_state["target"] = ""


@pytest.mark.parametrize("text", ["", "  \n "], ids=["nothing", "spaces"])
def test_no_text_is_a_hint_or_an_example_and_no_error(page, text):
    typed(page, text)
    assert not page.error
    assert len([*page.text, *page.caption]) > 0


@pytest.mark.parametrize(("text", "line"), REFUSED.items(), ids=["long", "many tokens"])
def test_too_much_is_one_line_that_says_the_limit(page, text, line):
    typed(page, text)
    errors = [error.value for error in page.error]
    if page.session_state["name"] == "tour":  # it has sentences of its own
        assert not errors
    else:
        (error,) = errors
        assert line in error and "\n" not in error
