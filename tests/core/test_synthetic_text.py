"""What trained checkpoints translate of the pairs: which side, once, and how others wait for it."""

from dataclasses import dataclass, field
from functools import partial

import pytest

from core.search.beam import search
from core.search.many import translate_ids
from core.training.data import prepare
from core.training.distributed import Processes
from core.training.recipes import RECIPES
from core.training.synthetic_text import TextMaker
from core.translator import Translator
from tests import small

DE_EN, EN_DE = ("de", "en"), ("en", "de")


def test_a_checkpoint_writes_targets_or_turned_round_sources(data, checkpoint_folder, tmp_path):
    pairs = [*small.SENTENCES, ("", "Nothing."), ("Hund " * 300, "Dogs.")]
    sources = [source for source, _ in pairs[:-1]]
    translations = [t.text for t in Translator.load(checkpoint_folder, "cpu").translate(sources)]
    expected = [*translations, ""]  # the last is longer than the positions
    forwards = TextMaker.of(checkpoint_folder, DE_EN, "cpu")
    made = forwards.add(pairs, tmp_path, Processes())
    assert list(made) == [(s, t) for (s, _), t in zip(pairs, expected, strict=True)]
    turned = [(target, source) for source, target in pairs]
    backwards = TextMaker.of(checkpoint_folder, EN_DE, "cpu")
    made = backwards.add(turned, tmp_path, Processes())
    assert list(made) == [(t, s) for (s, _), t in zip(pairs, expected, strict=True)]


def test_translations_are_made_once(data, checkpoint_folder, tmp_path, monkeypatch):
    maker = TextMaker.of(checkpoint_folder, DE_EN, "cpu")
    first = list(maker.add(small.SENTENCES, tmp_path, Processes()))
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr("core.training.synthetic_text.translate_ids", None)
    assert list(maker.add(small.SENTENCES, tmp_path, Processes())) == first
    with pytest.raises(TypeError):  # another text is another file
        maker.add(small.SENTENCES[:-1], tmp_path, Processes())


@dataclass(frozen=True)
class Scripted(Processes):
    """One of two processes, whose other one says what `heard` holds; `said` is what this says."""

    heard: tuple[bytes, ...] = ()
    said: list[bytes] = field(default_factory=list)

    def broadcast(self, content: bytes) -> bytes:
        self.said.append(content)
        return content if self.first else self.heard[len(self.said) - 1]


def test_those_who_wait_for_translations_hear_that_they_are_being_made(
    checkpoint_folder, tmp_path, monkeypatch
):
    """After every batch: a process that hears nothing for half an hour gives up."""
    batches = []

    def counted(*arguments, **named):
        batches.append(1)
        return search(*arguments, **named)

    monkeypatch.setattr("core.search.many.search", counted)
    short = partial(translate_ids, batch_tokens=20)
    monkeypatch.setattr("core.training.synthetic_text.translate_ids", short)
    maker = TextMaker.of(checkpoint_folder, DE_EN, "cpu")
    first = Scripted(rank=0, size=2)
    made = list(maker.add(small.SENTENCES, tmp_path, first))
    assert len(batches) > 2
    assert first.said.count(b"at work") >= len(batches) and first.said[-1] == b"made"
    assert first.said.count(b"made") == 1
    heard = (b"at work", b"at work", b"made", b"at work")
    second = Scripted(rank=1, size=2, heard=heard)
    assert list(maker.add(small.SENTENCES, tmp_path, second)) == made
    assert len(second.said) == 3, "it waits until they are made, and no longer"


def test_only_real_pairs_say_how_long_a_sentence_may_be(data):
    def further(pairs):
        return [[(f"{source} {source} {source}", target) for source, target in pairs]]

    plain = prepare(RECIPES["smoke"], DE_EN, data)
    made = prepare(RECIPES["smoke"], DE_EN, data, further=further)
    assert plain.longest == tuple(plain.train.lengths.max(axis=0))
    assert made.longest == plain.longest
    assert made.train.lengths[:, 0].max() > plain.longest[0]
    assert len(made.train) == 2 * len(plain.train)


def test_a_checkpoint_of_other_languages_is_refused(checkpoint_folder):
    with pytest.raises(ValueError, match="translates de-en: --teachers must translate de-fr or fr"):
        TextMaker.of(checkpoint_folder, ("de", "fr"), "cpu")
