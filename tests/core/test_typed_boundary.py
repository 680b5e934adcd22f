"""A typed "▁" is shown as typed, although the model reads it as a space."""

from dataclasses import replace
from pathlib import Path

import pytest

from core.translator import Translator

TYPED = ["Hund▁Katze", "▁Hund", "Ein Hund ▁ läuft.", "▁▁ Hund▁", "a▁.▁b", "😀▁😀", "▁"]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(Path(__file__).parents[2] / "checkpoints/scratch-de-en", "cpu")


def joined(tokens) -> str:
    words = ((" " if t.starts_word else "") + t.text for t in tokens if not t.special)
    return "".join(words).strip()


@pytest.mark.parametrize("text", TYPED)
def test_the_source_keeps_a_typed_boundary(translator, text):
    record = translator.inspect(text)
    assert joined(record.source) == text
    spaced = translator.inspect(" ".join(text.replace("▁", " ").split()) or text)
    if "▁▁" not in text and "▁ " not in text and not text.endswith("▁"):
        assert [t.id for t in record.source] == [t.id for t in spaced.source]
    assert all(check.passed for check in record.checks)


@pytest.mark.parametrize("text", TYPED)
def test_the_target_keeps_a_typed_boundary(translator, text):
    record = translator.inspect("Ein Hund.", text)
    assert joined(record.target_out) == text
    assert all(check.passed for check in record.checks)


def test_another_text_fails_the_check(translator):
    record = translator.inspect("Ein Hund.", "dog▁cat")
    at = next(i for i, token in enumerate(record.target_out) if token.text == "▁cat")
    wrong = (*record.target_out[:at], replace(record.target_out[at], text="▁dog"))
    record = replace(record, target_out=(*wrong, *record.target_out[at + 1 :]))
    failed = [check.name for check in translator.recheck(record).checks if not check.passed]
    assert "Texts match the token ids" in failed
