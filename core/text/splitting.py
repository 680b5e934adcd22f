"""Explain how a tokenizer splits a text: by merges, by lookups, or by a scored segmentation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from core.text.byte_level import ByteTokenizer
from core.text.pieces import PieceTokenizer, merges_of
from core.text.subwords import SubwordTokenizer
from core.text.tokenizer import BOUNDARY, SPECIALS, UNK, Tokenizer, normalise
from core.text.words import WordTokenizer

_KEPT = 3  # segmentations of a unit, the best one included
# As in SentencePiece: an unknown character scores this much less than the least probable piece.
_UNKNOWN_PENALTY = 10.0
_ROUNDING = 1e-4  # tolerance for sums of log-probabilities


@dataclass(frozen=True)
class Symbol:
    """A piece of a unit: its text with the boundary mark ▁, and its id; None if unknown."""

    text: str
    id: int | None


@dataclass(frozen=True)
class Merge:
    """One merge: the symbols at `at` and `at + 1` become one; `rank` 0 was learned first."""

    at: int
    rank: int


@dataclass(frozen=True)
class Segmentation:
    """Another way to split a unit, and the sum of its pieces' log-probabilities."""

    pieces: tuple[str, ...]
    log_prob: float


@dataclass(frozen=True)
class Unit:
    """A part of the text that is split independently: a word, a punctuation mark or a digit.

    `first` are its symbols before any merge, `symbols` those that the network reads. `is_entry`
    says whether the whole unit is in the vocabulary. For a unigram model, `scores` has each
    symbol's log-probability, None for an unknown one, and `others` are the next best segmentations
    without unknown symbols, best first.
    """

    first: tuple[Symbol, ...]
    symbols: tuple[Symbol, ...]
    merges: tuple[Merge, ...] = ()
    is_entry: bool = False
    scores: tuple[float | None, ...] = ()
    others: tuple[Segmentation, ...] = ()


@dataclass(frozen=True)
class Splitting:
    """How a tokenizer splits a text; `kind` is "subwords" (by merges), "words" or "pieces".

    `merges` is the number of learned merges, `entries` the vocabulary's size, with special tokens.
    """

    kind: str
    units: tuple[Unit, ...]
    entries: int
    merges: int


def split(tokenizer: Tokenizer, text: str) -> Splitting:
    """Recompute how a tokenizer splits a text, step by step.

    Raises ValueError if the steps do not lead to the ids that the tokenizer returns and the network
    reads.
    """
    match tokenizer:
        case SubwordTokenizer():
            rules = _rules_of(tokenizer)
            units = tuple(_merged(unit, rules) for unit in tokenizer.units(text))
            if isinstance(tokenizer, ByteTokenizer):
                units = tuple(_labelled(unit, tokenizer) for unit in units)
            found = Splitting("subwords", units, tokenizer.size, len(rules.ranks))
        case PieceTokenizer() if tokenizer.is_bpe:
            rules = _rules_of(tokenizer)
            words = ("".join(s.text for s in word) for word in _words(tokenizer, text))
            units = tuple(_merged(word, rules) for word in words)
            found = Splitting("subwords", units, tokenizer.size, len(rules.ranks))
        case PieceTokenizer():
            found = Splitting("pieces", _segmented(tokenizer, text), tokenizer.size, 0)
        case WordTokenizer():
            words = (
                (Symbol(token.text, None if token.unknown else token.id),)
                for token in tokenizer.encode(text)
            )
            units = tuple(Unit(word, word, (), word[0].id is not None) for word in words)
            found = Splitting("words", units, tokenizer.size, 0)
        case _:
            raise ValueError("Moses' rules split its texts into words first")
    shown = [symbol.id for unit in found.units for symbol in unit.symbols]
    read = [None if token.unknown else token.id for token in tokenizer.encode(text)]
    if shown != read:
        raise ValueError(
            f"the steps of {normalise(text)[:60]!r} do not lead to the tokenizer's own tokens"
        )
    return found


@dataclass(frozen=True)
class _Rules:
    ids: Mapping[str, int]
    ranks: Mapping[tuple[str, str], int]


@lru_cache(maxsize=4)
def _rules_of(tokenizer: SubwordTokenizer | PieceTokenizer) -> _Rules:
    values: dict[str, Any] = tokenizer.to_json()
    if isinstance(tokenizer, PieceTokenizer):
        log_probs = tokenizer.log_probs
        ids = enumerate(values["vocabulary"], start=len(SPECIALS))
        known = {piece: id for id, piece in ids if piece in log_probs}
        return _Rules(known, {pair: rank for rank, pair in enumerate(merges_of(log_probs))})
    ranks = {(first, second): rank for rank, (first, second) in enumerate(values["merges"])}
    return _Rules(values["vocabulary"], ranks)


def _labelled(unit: Unit, tokenizer: ByteTokenizer) -> Unit:
    """Return a unit of bytes with readable texts."""
    first, symbols = (
        tuple(Symbol(tokenizer.label(symbol.text), symbol.id) for symbol in side)
        for side in (unit.first, unit.symbols)
    )
    return replace(unit, first=first, symbols=symbols)


def _merged(unit: str, rules: _Rules) -> Unit:
    """Apply byte-pair encoding: repeatedly merge the pair of lowest rank, the leftmost one if tied.

    Adjacent unknown characters are one symbol from the start.
    """
    symbols: list[Symbol] = []
    for character in unit:
        id = rules.ids.get(character)
        if id is None and symbols and symbols[-1].id is None:
            symbols[-1] = Symbol(symbols[-1].text + character, None)
        else:
            symbols.append(Symbol(character, id))
    first, merges = tuple(symbols), []
    while True:
        pairs = [
            (rank, at)
            for at, (left, right) in enumerate(pairwise(symbols))
            if left.id is not None
            and right.id is not None
            and (rank := rules.ranks.get((left.text, right.text))) is not None
        ]
        if not pairs:
            return Unit(first, tuple(symbols), tuple(merges), unit in rules.ids)
        rank, at = min(pairs)
        text = symbols[at].text + symbols[at + 1].text
        symbols[at : at + 2] = [Symbol(text, rules.ids[text])]
        merges.append(Merge(at, rank))


def _segmented(tokenizer: PieceTokenizer, text: str) -> tuple[Unit, ...]:
    """Score the tokenizer's segmentation of each word, and find the next best ones.

    A piece with a boundary mark begins a new word.
    """
    log_probs = tokenizer.log_probs
    return tuple(_scored(tuple(word), log_probs) for word in _words(tokenizer, text))


def _words(tokenizer: PieceTokenizer, text: str) -> list[list[Symbol]]:
    words: list[list[Symbol]] = []
    for piece, id in tokenizer.segmented(text):
        if piece.startswith(BOUNDARY) or not words:
            words.append([])
        words[-1].append(Symbol(piece, None if id == UNK else id))
    return words


def _scored(symbols: tuple[Symbol, ...], log_probs: Mapping[str, float]) -> Unit:
    pieces = tuple(symbol.text for symbol in symbols)
    best = _best("".join(pieces), log_probs)
    score = dict(best).get(pieces)
    if score is None or score < best[0][1] - _ROUNDING:
        raise ValueError(f"{' '.join(pieces)[:60]!r} is not the most probable segmentation")
    others = tuple(
        Segmentation(other, log_prob)
        for other, log_prob in best
        if other != pieces and all(piece in log_probs for piece in other)
    )
    scores = tuple(log_probs.get(piece) for piece in pieces)
    return Unit(symbols, symbols, (), "".join(pieces) in log_probs, scores, others)


def _best(text: str, log_probs: Mapping[str, float]) -> list[tuple[tuple[str, ...], float]]:
    """Return the most probable segmentations of a text, best first (Viterbi, n-best).

    A character that is not a piece is unknown; adjacent unknown characters are one piece.
    """
    longest = max(map(len, log_probs))
    unknown = min(log_probs.values()) - _UNKNOWN_PENALTY
    upto: list[list[tuple[tuple[str, ...], float]]] = [[((), 0.0)]]
    for end in range(1, len(text) + 1):
        found: dict[tuple[str, ...], float] = {}
        for start in range(max(0, end - longest), end):
            piece = text[start:end]
            score = log_probs.get(piece)
            if score is None and end - start > 1:
                continue
            for before, total in upto[start]:
                after = (*before, piece)
                if score is None and before and before[-1] not in log_probs:
                    after = (*before[:-1], before[-1] + piece)
                # Joined unknown characters may equal a known piece, whose score is always higher.
                total_after = total + (unknown if score is None else score)
                found[after] = max(found.get(after, -math.inf), total_after)
        upto.append(sorted(found.items(), key=lambda item: -item[1])[:_KEPT])
    return upto[-1]
