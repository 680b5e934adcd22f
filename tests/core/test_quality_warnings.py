"""Warnings about a translation: each rule fires when it should and not otherwise."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from core.analysis.quality_warnings import (
    FUNCTION_WORDS,
    LOW,
    QualityWarnings,
    least_certain,
    other_language,
    quality_warnings,
    warnings_about,
)
from core.translator import Translator
from tests.small import SENTENCES

ROOT = Path(__file__).resolve().parents[2]
BOTH = [(pair[side], name) for pair in SENTENCES for side, name in ((0, "German"), (1, "English"))]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(ROOT / "checkpoints/scratch-de-en", device="cpu")


@pytest.mark.parametrize(("text", "language"), BOTH)
def test_sentences_are_recognised_as_their_own_language(text, language):
    other = {"German": "English", "English": "German"}[language]
    assert other_language(text, language) is None
    assert other_language(text, other) in (language, None)


NOT_GERMAN = {
    "The cat is in the mud.": "English",
    "I like kids and I don’t know why.": "English",
    "THE CAT IS ON THE MAT": "English",
    "Don’t! Isn’t…": "English",
    "La casa es un río.": "Spanish",  # its other words are French too, and "es" is German
    **{" ".join(sorted(words)): language for language, words in FUNCTION_WORDS.items()},
}
TOO_LITTLE = ("Hund", "Paris", "", "…", "1234", "Tom war in Berlin.", "Was will der Mann?",
              "Die Band in Rom", "Hund the", "Was will the dog of Tom",
              "Der Mann und die Frau hören The Who.")  # fmt: skip


@pytest.mark.parametrize("text", [*NOT_GERMAN, *TOO_LITTLE])
def test_other_languages_are_recognised_by_function_words(text):
    expected = NOT_GERMAN.get(text)
    assert other_language(text, "German") == (None if expected == "German" else expected)


def test_each_warning_alone_is_truthy_and_has_one_reason():
    assert not QualityWarnings()
    each = {"unknown": ("😀",), "language": "French", "probability": 0.0, "wordless": True}
    each |= {"capitals": True, "lost": ("17",)}
    for name, value in each.items():
        found = QualityWarnings(**{name: value})
        assert found and len(found.reasons("German")) == 1
    assert len(QualityWarnings(**each).reasons("German")) == 6


def test_an_ordinary_sentence_has_no_warnings(translator):
    assert not quality_warnings(translator.inspect("Zwei junge Männer spielen im Park Fußball."))


def test_unknown_tokens_are_quoted_as_typed(translator):
    found = quality_warnings(translator.inspect("Ein Hund 😀 schläft."))
    assert found and found.unknown == ("😀",) and found.language is None


def test_probability_applies_to_searched_targets_only(translator):
    record = translator.inspect("qqq ÄÖÜ zzxx wurb")
    mean = float(np.exp(record.log_probs.mean()))
    assert mean < LOW and quality_warnings(record).probability == pytest.approx(mean)
    # The probability of a user-supplied translation says nothing about the source.
    assert quality_warnings(translator.inspect("Ein Hund.", "glim nork flurb")).probability is None
    sure = dataclasses.replace(record, log_probs=np.full_like(record.log_probs, np.log(LOW + 0.01)))
    assert quality_warnings(sure).probability is None


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("...", "out.", {"wordless": True}),
        ("?!", "", {"wordless": True}),
        ("7", "7", {}),
        ("", "", {}),
        ("EIN MANN SPIELT FUSSBALL.", "A man plays soccer.", {"capitals": True}),
        ("EIN Mann spielt.", "A man plays.", {}),
        ("NATO", "NATO", {}),
        ("Die USA und die EU.", "The USA and the EU.", {}),
        ("GROẞE STRAßE", "Big street", {"capitals": True}),
        ("Ich habe 17 Bücher und 2 Hunde.", "I have books.", {"lost": ("17",)}),
        ("Ich habe 17 Bücher und 2 Hunde.", "I have 17 books and two dogs.", {}),
        ("Am 3. Oktober 1990", "On October 3, 1990", {}),
        ("1.234.567 Menschen", "1,234,567 people", {}),
        ("1 234 567 Menschen", "134,567 people", {"lost": ("1 234 567",)}),
        ("um 14:35 Uhr", "at 2:35", {}),
        ("Schreib an a.b@example.org.", "Write to a.b@example.org.", {}),
        ("Schreib an a.b@example.org.", "Write.", {"lost": ("a.b@example.org",)}),
        ("Siehe https://example.org/a13.", "See it.", {"lost": ("https://example.org/a13",)}),
    ],
)
def test_each_rule_warns_about_its_case_only(source, translation, expected):
    assert warnings_about(source, translation, "German", (), 1.0) == QualityWarnings(**expected)


def test_reasons_give_percent_and_the_first_unknown_parts():
    low, unknown = (
        QualityWarnings(probability=0.374),
        QualityWarnings(unknown=("a", "b", "c", "d", "e")),
    )
    assert low.reasons("German") == ["the geometric mean of its tokens' probabilities is only 37 %"]
    for probability, size in ((0.01, "only 1"), (0.0099, "below 1"), (0.0, "below 1")):
        (reason,) = QualityWarnings(probability=probability).reasons("German")
        assert reason == f"the geometric mean of its tokens' probabilities is {size} %"
    (reason,) = unknown.reasons("German", lambda text: text.upper())
    assert reason.endswith(" “A”, “B”, “C” and 2 more and reads them as <unk>")
    for twice in (("😀",), ("😀", "😀")):
        (reason,) = warnings_about("Hund", "dog", "German", twice, 1.0).reasons("German")
        assert reason == "the network has no token for “😀” and reads it as <unk>"


def test_translator_and_record_give_the_same_warnings(translator):
    for text in ("Zwei Hunde.", "Ein Hund 😀.", "...", "The dog is with a man.", "qqq zzxx wurb"):
        (one,) = translator.translate([text])
        found, expected = (
            translator.quality_warnings(one),
            quality_warnings(translator.inspect(text)),
        )
        same = [(d.unknown, d.language, d.wordless, d.capitals, d.lost) for d in (found, expected)]
        assert same[0] == same[1], text
        both = [d.probability or 0.0 for d in (found, expected)]
        assert both[0] == pytest.approx(both[1], rel=1e-4), text


def test_least_certain_is_the_least_probable_token(translator):
    record = translator.inspect("Attention ist alles, was du brauchst.")
    place, probability = least_certain(record)
    assert probability == pytest.approx(np.exp(record.log_probs).min())
    assert np.exp(record.log_probs[place]) == pytest.approx(probability)
    assert least_certain(translator.inspect("Ein Hund.", "A dog.")) is None
