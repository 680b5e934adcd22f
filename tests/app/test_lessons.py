"""Lesson texts: the loader, and every text of every lesson."""

import re
from string import Formatter

import pytest

from app.lessons import texts
from app.views.bugs.mistakes import MISTAKES
from app.views.tour.trials import BEAM
from core.atlas.intervals import LEVEL

LESSONS = sorted(file.stem for file in (texts.FOLDER / "en").glob("*.toml"))


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    """Return a function that writes a lesson."""
    monkeypatch.setattr(texts, "FOLDER", tmp_path)
    caches = texts._texts, texts.rules, texts.rows
    for cached in caches:
        cached.cache_clear()
    yield lambda written: [
        (tmp_path / "en").mkdir(exist_ok=True),
        (tmp_path / "en/one.toml").write_text(written, encoding="utf-8"),
    ]
    for cached in caches:
        cached.cache_clear()


def placeholders(name: str, key: str) -> set[str]:
    """Return the names of a text's placeholders."""
    return set(re.findall(r"\{(\w+)\}", texts.template(name, key)))


def test_a_text_is_filled_in(lesson):
    lesson(
        'title = "One"\n[a.b]\nc = """The word\n  {word} is {what}."""\nrules.size = 3\n'
        "[rules]\nlimit = 2"
    )
    assert texts.text("one", "a.b.c", word="{what}", what="long", more=1) == (
        "The word {what} is long."
    )
    assert texts.keys("one") == ("title", "a.b.c")
    assert texts.rules("one") == {"limit": 2}
    assert texts.rows("one", "a") == {"b": {"size": 3, "c": "The word {word} is {what}."}}


@pytest.mark.parametrize(
    ("name", "key", "values"),
    [("two", "title", {}), ("one", "subtitle", {}), ("one", "text", {"other": 1})],
)
def test_what_is_missing_raises_key_error(lesson, name, key, values):
    lesson('title = "One"\ntext = "A {word}"')
    with pytest.raises(KeyError):
        texts.text(name, key, **values)


@pytest.mark.parametrize("written", ["{}", "{0}", "{a.b}", "{a!r}", "{a:.2f}", "{a[0]}"])
def test_only_plain_names_are_placeholders(lesson, written):
    lesson(f'title = "{written}"')
    with pytest.raises(ValueError, match="plain"):
        texts.text("one", "title", a="x")


@pytest.mark.parametrize("name", LESSONS)
def test_every_text_renders_with_its_placeholders(name):
    assert texts.keys(name)[:2] == ("title", "paper")
    assert re.match(r"Vaswani et al\. 2017, §\d", texts.text(name, "paper"))
    for key in texts.keys(name):
        values = {place: f"<{place}>" for place in placeholders(name, key)}
        rendered = texts.text(name, key, **values)
        assert rendered.strip() and "{" not in rendered and "}" not in rendered
        assert all(value in rendered for value in values.values()), (name, key)


@pytest.mark.parametrize("name", LESSONS)
def test_sentences_are_whole(name):
    """A translator can only translate whole sentences: no text starts in the middle of one.

    Names, such as that of a head, are exempt: they are inserted into sentences. So are formulas,
    the short names of a pass and its note, which are next to a map, and hints that begin with a
    word of their sentence.
    """
    for key in texts.keys(name)[2:]:
        if key.endswith((".name", ".state", ".short", ".note", ".formula")):
            continue
        if key.startswith(("pair.", "example.")):
            continue
        written = texts.template(name, key)
        first = next(literal for literal, *_ in Formatter().parse(written))
        assert not first or not first[0].islower(), (name, key, written)


def test_the_texts_have_a_licence_of_their_own():
    licence = (texts.FOLDER / "LICENSE").read_text(encoding="utf-8")
    assert "CC BY 4.0" in licence and "creativecommons.org/licenses/by/4.0/legalcode" in licence


# The numbers that lessons write out; test_quiz.py and test_glossary.py hold those of their lessons.
STATED = {
    "bugs": "0 1",
    "gloss": f"{100 * LEVEL:.0f}",
    "masks": "0 0.001 1 64 −10",
    "positions": "0 1 10000 2 3 3.4 3.5",
    "stops": "0 1",
    "tokens": "2016 2018",
    "tour": f"{BEAM.beam}",
    "train": "03 1999 3 432",
    "worksheet": f"1 {100 * 0.5:.0f}",
}


def test_lessons_write_out_no_other_number():
    """Numbers about a network or a sentence are placeholders."""
    found = {}
    for name in {*LESSONS} - {"quiz", "glossary"}:
        keys = [key for key in texts.keys(name)[2:] if not key.endswith(".paper")]
        written = " ".join(texts.template(name, key) for key in keys)
        numbers = re.findall(r"(?<![\w.])−?\d+(?:\.\d+)?", re.sub(r"\{\w+\}", "", written))
        if numbers:
            found[name] = " ".join(sorted({*numbers}))
    assert found == STATED
    assert "the seven other mistakes" in texts.text("bugs", "question.unique")
    assert len(MISTAKES) == 7 + 1
