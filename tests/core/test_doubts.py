"""Doubts about a translation: each sign speaks when it should, and seldom when it should not."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from core.analysis.doubts import LOW, Doubts, doubts, other_language
from core.translator import Translator
from tests.small import SENTENCES

ROOT = Path(__file__).resolve().parents[2]
BOTH = [(pair[side], name) for pair in SENTENCES for side, name in ((0, "German"), (1, "English"))]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(ROOT / "checkpoints/scratch-de-en", device="cpu")


@pytest.mark.parametrize(("text", "language"), BOTH)
def test_a_sentence_is_of_its_own_language_and_not_of_the_other(text, language):
    other = {"German": "English", "English": "German"}[language]
    assert other_language(text, language) is None
    assert other_language(text, other) in (language, None)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The cat is in the mud.", "English"),
        ("I like kids and I don’t know why.", "English"),
        ("THE CAT IS ON THE MAT", "English"),
        ("Don’t! Isn’t…", "English"),
        ("La casa es un río.", "Spanish"),  # no more than French has, but for "es", a German word
        ("Le chat est sur la table.", "French"),
        ("El perro corre por la calle.", "Spanish"),
        ("Il gatto è sul tavolo.", "Italian"),
        ("De kat zit op de mat.", "Dutch"),
        ("O gato está na mesa.", "Portuguese"),
        ("Kot jest na stole.", "Polish"),
    ],
)
def test_other_languages_are_told_by_their_commonest_words(text, language):
    assert other_language(text, "German") == language


@pytest.mark.parametrize(
    "text",
    [
        "Hund",
        "Paris",
        "",
        "…",
        "1234",
        "Tom war in Berlin.",
        "Was will der Mann?",
        "Die Band in Rom",
        "Hund the",
        "Was will the dog of Tom",
        "Der Mann und die Frau hören The Who.",
    ],
)
def test_few_words_or_words_of_both_languages_say_nothing(text):
    assert other_language(text, "German") is None


def test_each_sign_is_a_doubt_by_itself():
    assert not Doubts((), None, None)
    assert Doubts(("😀",), None, None) and Doubts((), "French", None) and Doubts((), None, 0.0)


def test_a_usual_sentence_raises_no_doubt(translator):
    assert not doubts(translator.inspect("Zwei junge Männer spielen im Park Fußball."))


def test_an_emoji_is_named_as_it_was_typed(translator):
    found = doubts(translator.inspect("Ein Hund 😀 schläft."))
    assert found and found.unknown == ("😀",) and found.language is None


def test_a_low_probability_is_that_of_the_searched_tokens(translator):
    record = translator.inspect("qqq ÄÖÜ zzxx wurb")
    mean = float(np.exp(record.log_probs.mean()))
    assert mean < LOW and doubts(record).probability == pytest.approx(mean)
    # Of a translation that was given, the probability says nothing about the source.
    assert doubts(translator.inspect("Ein Hund.", "glim nork flurb")).probability is None
    sure = dataclasses.replace(record, log_probs=np.full_like(record.log_probs, np.log(LOW + 0.01)))
    assert doubts(sure).probability is None
