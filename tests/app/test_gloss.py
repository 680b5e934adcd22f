"""The word-by-word gloss on the first page agrees with the record's cross-attention."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from app.lessons.texts import text
from app.look.markdown import plain
from app.state import atlases
from tests.app.page_checks import ROOT, percent, record
from tests.app.rendered import Rendered, render
from tests.app.test_word_alignment import SOURCE, beside, expected, found

WORDS = [*SOURCE.removesuffix(".").split(), "."]

__all__ = ["beside"]
MAIN = ROOT / "app/main.py"


def target_words(tokens) -> list[str]:
    words: list[str] = []
    for token in tokens:
        if token.special:
            continue
        if token.starts_word or token.text in (".", ",") or not words:
            words.append("")
        words[-1] += token.text
    return words


def glossed(map_QK, shift: int, rec) -> list[list[str]]:
    """Return each source word with the target words linked to it, both in order."""
    links = expected(map_QK, shift, (list(rec.source), list(rec.target_out)), marks_alone=True)
    words = target_words(rec.target_out)
    return [
        [word, " ".join(words[t] for s, t in sorted(links) if s == place)]
        for place, word in enumerate(WORDS)
    ]


def shown(page: Rendered) -> list[list[str]]:
    return page.payload("gloss_words")["words"]


@pytest.mark.parametrize(
    ("heads", "changes", "shift"),
    [
        ([(2, 0)], {}, 1),
        ([(2, 3), (1, 1)], {"reading": "output"}, 0),
    ],
)
def test_each_word_has_the_words_linked_to_it(beside, heads, changes, shift):
    beside(found(*heads, **changes))
    rec = record(SOURCE)
    mean = sum(rec.cross[layer, head].astype(float) for layer, head in heads) / len(heads)
    page = render("", source=SOURCE, gloss="1")
    pairs = glossed(mean, shift, rec)
    assert any(not gloss for _, gloss in pairs), "a word without a link"
    assert shown(page) == pairs
    languages = {"source": "German", "target": "English"}
    assert page.payload("gloss_words")["title"] == text("gloss", "list", **languages)
    shares = {"aer": percent(0.357), "low": percent(0.331), "high": percent(0.9962)}
    page.claim(plain(text("gloss", "about", **shares, **languages)))


def test_the_other_direction_names_its_languages():
    page = render("", direction="en-de", source="A dog runs.", gloss="1")
    assert [word for word, _ in shown(page)] == ["A", "dog", "runs", "."]
    languages = {"source": "English", "target": "German"}
    assert page.payload("gloss_words")["title"] == text("gloss", "list", **languages)


def test_the_gloss_is_of_the_pass_that_is_shown():
    """With a given target, source words are glossed with words of that target."""
    page = render("", source="Ein Hund.", target="Some cats.", gloss="1")
    words = {word for _, gloss in shown(page) for word in gloss.split()}
    assert words and words <= {"Some", "cats", "."}


def test_the_gloss_is_off_by_default_and_kept_in_the_url():
    off = render("", source=SOURCE)
    assert "gloss_words" not in off.payloads
    assert off.app.toggle(key="gloss").value is False
    assert off.payload("address_gloss")["values"] == {"gloss": None}
    off.app.toggle(key="gloss").set_value(True).run()
    assert off.app.session_state["gloss"] is True
    on = render("", source=SOURCE, gloss="1")
    assert on.payload("address_gloss")["values"] == {"gloss": "1"}
    assert "gloss_words" not in render("", source=SOURCE, gloss="yes").payloads


def test_a_network_without_alignment_heads_says_so(beside, monkeypatch, tmp_path):
    none = text("gloss", "none")
    beside(None)
    assert none in render("", source=SOURCE, gloss="1").texts()
    monkeypatch.setattr(atlases, "FILE", str(tmp_path / "missing.npz"))
    assert none in render("", source=SOURCE, gloss="1").texts()


def test_a_visitor_switches_the_gloss_on(local_page: Page, serve):
    local_page.goto(f"{serve(MAIN)}/?source=Ein+Hund+läuft.")
    explorer = local_page.locator("section[aria-label='Attention explorer']")
    expect(explorer).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=60_000)
    local_page.locator(".st-key-gloss label").click()
    words = local_page.locator(".gloss li")
    expect(words).to_have_count(4)
    expect(words.first.locator("bdi").first).to_have_text("Ein")
    assert all(words.locator(".said").all_inner_texts())
    expect(local_page).to_have_url(re.compile("gloss=1"))
