"""How a tokenizer splits: steps worked by hand, and steps that lead to the tokenizer's output."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from app.examples import EXAMPLES
from core.text import load
from core.text.pieces import PieceTokenizer
from core.text.splitting import Merge, Segmentation, Symbol, split
from core.text.subwords import SPELLING, SubwordTokenizer
from core.text.tokenizer import SPECIALS
from tests.app.page_checks import ROOT

BASE = [*SPECIALS, "▁", "a", "b", "c", "."]
MERGES = [["a", "b"], ["▁", "ab"], ["▁", "a"], ["b", "c"], ["▁ab", "ab"]]


def subwords(merges=MERGES) -> SubwordTokenizer:
    entries = [*BASE, *("".join(merge) for merge in merges)]
    vocabulary = {entry: id for id, entry in enumerate(entries)}
    return load({"kind": "subwords", "vocabulary": vocabulary, "merges": merges})  # type: ignore


def texts(symbols) -> list[str]:
    return [symbol.text for symbol in symbols]


def test_merges_by_hand():
    found = split(subwords(), "ababc xc.")
    assert (found.kind, found.entries, found.merges) == ("subwords", 14, 5)
    first, second, third = found.units
    # Rank 0 first, from the left; then rank 1; rank 3 cannot apply, as b is used; then rank 4.
    assert texts(first.first) == ["▁", "a", "b", "a", "b", "c"]
    assert first.merges == (Merge(1, 0), Merge(2, 0), Merge(0, 1), Merge(0, 4))
    assert first.symbols == (Symbol("▁abab", 13), Symbol("c", 7))
    assert not first.is_entry
    assert second.first == (Symbol("▁", 4), Symbol("x", None), Symbol("c", 7))
    assert second.merges == () and second.symbols == second.first
    assert third.symbols == (Symbol(".", 8),) and third.is_entry


def test_adjacent_unknown_characters_are_one_symbol():
    (unit,) = split(subwords(), "axyb").units
    assert unit.first == (Symbol("▁", 4), Symbol("a", 5), Symbol("xy", None), Symbol("b", 6))
    assert unit.merges == (Merge(0, 2),)
    assert split(subwords(), "").units == ()


def replayed(unit) -> list[str]:
    symbols = texts(unit.first)
    for merge in unit.merges:
        symbols[merge.at : merge.at + 2] = ["".join(symbols[merge.at : merge.at + 2])]
    return symbols


def sentences() -> list[str]:
    drawn = random.Random(5)
    characters = SPELLING + " ▁<>\u00ad東京🐶\u200b" + "   " * 10
    noise = ["".join(drawn.choices(characters, k=40)) for _ in range(150)]
    ours = [text for example in EXAMPLES for text in (example.de, example.en, *example.changed)]
    return [*ours, *noise, "<unk> <eos>", "1984", "Donaudampfschifffahrtsgesellschaft"]


@pytest.mark.parametrize("name", ["scratch-de-en", "captions-en-de", "baseline-de-en"])
def test_the_steps_lead_to_the_tokens_of_the_shipped_tokenizers(name):
    values = json.loads((ROOT / "checkpoints" / name / "tokenizer.json").read_text())
    tokenizer = load(values)
    ranks = {tuple(merge): rank for rank, merge in enumerate(values["merges"])}
    for text in filter(None, sentences()):
        units = split(tokenizer, text).units
        tokens = tokenizer.encode(text)
        symbols = [symbol for unit in units for symbol in unit.symbols]
        assert [None if t.unknown else t.piece for t in tokens] == [
            None if s.id is None else s.text for s in symbols
        ]
        assert [t.id for t in tokens if not t.unknown] == [
            s.id for s in symbols if s.id is not None
        ]
        for unit in units:
            assert replayed(unit) == texts(unit.symbols)
            left = zip(unit.symbols, unit.symbols[1:], strict=False)
            assert not any((a.text, b.text) in ranks for a, b in left if None not in (a.id, b.id))
            state = texts(unit.first)
            for merge in unit.merges:
                assert ranks[state[merge.at], state[merge.at + 1]] == merge.rank
                state[merge.at : merge.at + 2] = ["".join(state[merge.at : merge.at + 2])]


def test_steps_that_do_not_lead_to_the_tokenizers_own_tokens_are_refused(monkeypatch):
    tokenizer = subwords()
    own = tokenizer.encode("ab")
    monkeypatch.setattr(tokenizer, "encode", lambda text: own[:-1])
    with pytest.raises(ValueError, match="do not lead to the tokenizer's own tokens"):
        split(tokenizer, "ab")


PIECES = {"▁": -4.0, "▁ab": -2.0, "c": -6.0, "▁a": -3.0, "bc": -4.5, "b": -5.0, "a": -5.0}
UNLISTED = {"▁abcc": -1.0}


def pieces() -> PieceTokenizer:
    return PieceTokenizer([*PIECES, "other"], [*PIECES.values(), None], unlisted=UNLISTED)


def test_a_unigram_segmentation_and_the_next_best_ones():
    (unit,) = split(pieces(), "abc").units
    assert unit.symbols == (Symbol("▁a", 7), Symbol("bc", 8))
    assert unit.scores == (-3.0, -4.5)
    # All ways to split ▁abc, by hand: ▁a|bc −7.5, ▁ab|c −8, ▁|a|bc −13.5, ▁a|b|c −14, …
    assert unit.others == (Segmentation(("▁ab", "c"), -8.0), Segmentation(("▁", "a", "bc"), -13.5))
    assert not unit.is_entry


def test_unigram_pieces_without_an_id_and_unknown_characters():
    first, second = split(pieces(), "abcc axx").units
    assert first.symbols == (Symbol("▁abcc", None),)
    assert first.scores == (-1.0,) and first.is_entry
    assert second.symbols == (Symbol("▁a", 7), Symbol("xx", None))
    assert second.scores == (-3.0, None)
    assert second.others == (), "a sum with an unknown piece is not shown"


def test_random_unigram_models_agree_with_the_library():
    drawn = random.Random(1)
    parts = ["".join(p) for n in (1, 2, 3) for p in itertools.product("ab▁", repeat=n)]
    parts = [p for p in parts if "▁" not in p[1:]]
    for _ in range(30):
        chosen = sorted({"▁", *drawn.sample(parts, 12)})
        scores = [-drawn.uniform(1, 9) for _ in chosen]
        tokenizer = PieceTokenizer(chosen, scores)
        of = dict(zip(chosen, scores, strict=True))
        for _ in range(10):
            text = "".join(drawn.choices("abc ", [4, 4, 1, 2], k=9)).strip() or "a"
            for unit in split(tokenizer, text).units:
                known = [score for score in unit.scores if score is not None]
                assert unit.scores == tuple(of.get(t) for t in texts(unit.symbols))
                for other in unit.others:
                    assert "".join(other.pieces) == "".join(texts(unit.symbols))
                    assert other.log_prob == pytest.approx(sum(of[p] for p in other.pieces))
                    if len(known) == len(unit.scores):
                        assert other.log_prob <= sum(known) + 1e-6


def test_words_are_looked_up():
    tokenizer = load(
        {"kind": "words", "language": "en", "lower": True, "vocabulary": ["dog", "a", "."]}
    )
    found = split(tokenizer, "A Dog, barks.")
    assert (found.kind, found.entries, found.merges) == ("words", 7, 0)
    assert [unit.symbols for unit in found.units] == [
        (Symbol("a", 5),),
        (Symbol("dog", 4),),
        (Symbol(",", None),),
        (Symbol("barks", None),),
        (Symbol(".", 6),),
    ]
    assert [unit.is_entry for unit in found.units] == [True, True, False, False, True]
