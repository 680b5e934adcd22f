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
    texts._texts.cache_clear()
    yield lambda written: [
        (tmp_path / "en").mkdir(exist_ok=True),
        (tmp_path / "en/one.toml").write_text(written, encoding="utf-8"),
    ]
    texts._texts.cache_clear()


def test_a_text_is_filled_in(lesson):
    lesson('title = "One"\n[a.b]\nc = """The word\n  {word} is {what}."""')
    assert texts.text("one", "a.b.c", word="{what}", what="long", more=1) == (
        "The word {what} is long."
    )
    assert texts.keys("one") == ("title", "a.b.c")
    assert texts.placeholders("one", "a.b.c") == {"word", "what"}


@pytest.mark.parametrize(
    ("name", "key", "language", "values"),
    [
        ("two", "title", "en", {}),
        ("one", "subtitle", "en", {}),
        ("one", "title", "de", {}),
        ("one", "text", "en", {"other": 1}),
    ],
)
def test_what_is_missing_raises_key_error(lesson, name, key, language, values):
    lesson('title = "One"\ntext = "A {word}"')
    with pytest.raises(KeyError):
        texts.text(name, key, language=language, **values)


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
        values = {place: f"<{place}>" for place in texts.placeholders(name, key)}
        rendered = texts.text(name, key, **values)
        assert rendered.strip() and "{" not in rendered and "}" not in rendered
        assert all(value in rendered for value in values.values()), (name, key)


@pytest.mark.parametrize("name", LESSONS)
def test_sentences_are_whole(name):
    """A translator can only translate whole sentences: no text starts in the middle of one.

    Names, such as that of a head, are exempt: they are inserted into sentences. So are formulas,
    and the short names of a pass and its note, which stand beside a map.
    """
    for key in texts.keys(name)[2:]:
        if key.endswith((".name", ".state", ".short", ".note", ".formula")):
            continue
        written = texts._texts(name, "en")[key]
        first = next(literal for literal, *_ in Formatter().parse(written))
        assert not first or not first[0].islower(), (name, key, written)


def test_the_texts_have_a_licence_of_their_own():
    licence = (texts.FOLDER / "LICENSE").read_text(encoding="utf-8")
    assert "CC BY 4.0" in licence and "creativecommons.org/licenses/by/4.0/legalcode" in licence


# The section of Vaswani et al. 2017 that each lesson is about, transcribed apart from the lessons.
SECTIONS = {
    "bugs": "3.2",
    "figure_one": "3.1",
    "gloss": "3.2.3",
    "glossary": "3",
    "head": "3.2.1",
    "masks": "3.2.3",
    "positions": "3.5",
    "questions": "3",
    "quiz": "3.2",
    "steps": "6.1",
    "tokens": "5.1",
    "tour": "3.2",
    "why": "3.2.2",
    "worksheet": "3.2",
}
# Every other number that a lesson writes out; test_quiz.py and test_glossary.py hold the others.
STATED = {
    ("bugs", "measure.same.about"): "1",
    ("bugs", "measure.position.name"): "0",
    ("gloss", "about"): f"{100 * LEVEL:.0f}",
    ("masks", "batch.about"): "0",
    ("masks", "batch.tensor"): "1",
    ("masks", "row.zero.name"): "0",
    ("masks", "row.fold"): "−10 −10",
    ("masks", "row.values"): "0 0",
    ("masks", "row.ranges"): "−10 0.001 64",
    ("masks", "cells.about"): "0",
    ("positions", "table.first.note"): "0 0",
    ("positions", "table.formula"): "2 10000 2 2 1 10000 2",
    ("positions", "rotation.blocks"): "2 2 0",
    ("positions", "sums.scaled.name"): "3.4",
    ("positions", "sums.unscaled.name"): "3.4",
    ("positions", "sums.measured"): "1",
    ("positions", "learned.about"): "3.5 3",
    ("positions", "beyond.outside"): "0",
    ("positions", "beyond.outside-larger"): "0",
    ("positions", "changes.doubled.name"): "2",
    ("positions", "changes.doubled.formula"): "2",
    ("positions", "changes.stretched.name"): "2",
    ("positions", "changes.stretched.formula"): "2",
    ("tokens", "subwords.how"): "2016",
    ("tokens", "pieces.how"): "2018",
    ("tour", "sink.before"): "1",
    ("tour", "sink.look_for"): "1",
    ("tour", "no-positions.look_for"): "0",
    ("tour", "beam.five"): f"{BEAM.beam}",
    ("worksheet", "half.prompt"): f"{100 * 0.5:.0f}",
    ("worksheet", "sum.prompt"): "1",
    ("worksheet", "sum.answer"): "1",
}


def test_lessons_write_out_no_other_number():
    """Numbers about a network or a sentence are placeholders; of the others, each is listed."""
    papers = {name: texts.text(name, "paper") for name in LESSONS}
    assert papers == {name: f"Vaswani et al. 2017, §{at}" for name, at in SECTIONS.items()}
    found = {}
    for name in {*LESSONS} - {"quiz", "glossary"}:
        for key in texts.keys(name)[2:]:
            written = re.sub(r"\{\w+\}", "", texts.template(name, key))
            if numbers := re.findall(r"(?<![\w.])−?\d+(?:\.\d+)?", written):
                found[name, key] = " ".join(numbers)
    assert found == STATED
    assert "the seven other mistakes" in texts.text("bugs", "question.unique")
    assert len(MISTAKES) == 7 + 1
