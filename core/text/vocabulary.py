"""Validation of a tokenizer's JSON form, before a tokenizer is built from it."""

import base64
import binascii
import math
import re
from collections.abc import Callable, Collection
from typing import Any

from core.text.charsmap import MAX_BYTES, CharacterMap
from core.text.tokenizer import BOS, SPECIALS

MAX_TOKEN_CHARACTERS = 500
_MAX_SCORE = 1_000  # of a piece: minus its log-probability
MAX_FIRST = 4  # ids in front of a source
# No vocabulary contains control characters, line ends or lone surrogates: translations are written
# to terminals and to files with one sentence per line.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def is_learnable(token: str) -> bool:
    """Return whether a vocabulary may contain a token."""
    return 0 < len(token) <= MAX_TOKEN_CHARACTERS and not UNPRINTABLE.search(token)


def check(values: Any) -> int:
    """Return the number of ids, including the special ones. Raises ValueError if invalid."""
    kind = values.get("kind") if isinstance(values, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        expected = ", ".join(map(repr, _KINDS))
        raise ValueError(f"unknown kind of tokenizer {repr(kind)[:80]}: expected {expected}")
    size = _KINDS[kind](values)
    if size == len(SPECIALS):
        raise ValueError("the vocabulary has only special tokens")
    _check_first(values.get("first", []), size)
    return size


def _check_first(first: Any, size: int) -> None:
    """Raise ValueError unless these ids may be in front of a source."""
    if type(first) is not list or len(first) > MAX_FIRST:
        raise ValueError(f"first, the ids in front of a source, is not a list of up to {MAX_FIRST}")
    for id in first:
        if type(id) is not int or not (id == BOS or len(SPECIALS) <= id < size):
            raise ValueError(
                f"{repr(id)[:40]} cannot be in front of a source: "
                f"only {BOS} (<bos>) and ids from {len(SPECIALS)} to {size - 1:,} can"
            )


def _check_subwords(values: dict[str, Any]) -> int:
    vocabulary = _field(values, "vocabulary", dict)
    merges = _field(values, "merges", list)
    _field({"single_digits": False, **values}, "single_digits", bool)
    _only(values, "kind", "vocabulary", "merges", "single_digits", "first")
    ids = list(vocabulary.values())
    if any(type(id) is not int for id in ids) or sorted(ids) != list(range(len(ids))):
        raise ValueError("the vocabulary's ids are not 0, 1, 2, … without gaps and duplicates")
    for id, name in enumerate(SPECIALS):
        if vocabulary.get(name) != id:
            raise ValueError(f"id {id} of the vocabulary must be {name}")
    _check_tokens(vocabulary)
    for merge in merges:
        if not isinstance(merge, list) or list(map(type, merge)) != [str, str]:
            raise ValueError("a merge is not a pair of tokens")
        first, second = merge
        merged = first + second
        if not vocabulary.keys() >= {first, second, merged}:
            raise ValueError(f"the merge of {first!r} and {second!r} is not in the vocabulary")
        if merged in SPECIALS:
            raise ValueError(f"a merge produces the special token {merged}")
    return len(vocabulary)


def _check_words(values: dict[str, Any]) -> int:
    size = _check_listed(values)
    language = _field(values, "language", str)
    _field(values, "lower", bool)
    _only(values, "kind", "vocabulary", "language", "lower", "first")
    if not re.fullmatch("[a-z]{2,3}", language):
        raise ValueError(f"{language!r} is not a language code")
    return size


def _check_pieces(values: dict[str, Any]) -> int:
    size = _check_listed(values)
    scores = _field(values, "scores", list)
    unlisted = _field({"unlisted": {}, **values}, "unlisted", dict)
    charsmap = _field(values, "charsmap", str)
    _only(values, "kind", "vocabulary", "scores", "charsmap", "unlisted", "first")
    pieces = values["vocabulary"]
    if len(scores) != len(pieces):
        raise ValueError(f"{len(pieces):,} pieces, but {len(scores):,} scores")
    known = [score for score in scores if score is not None]
    for score in (*known, *unlisted.values()):
        if type(score) not in (int, float) or not -_MAX_SCORE <= score <= 0:  # False for NaN
            raise ValueError(
                f"the score {repr(score)[:40]} of a piece is not a number from {-_MAX_SCORE} to 0"
            )
    if not known:
        raise ValueError("no piece has a score, so no text can be read")
    if listed := sorted({*pieces, *SPECIALS}.intersection(unlisted)):
        raise ValueError(f"the piece {listed[0][:40]!r} is unlisted, but has an id")
    if len(unlisted) > len(pieces):
        raise ValueError(f"{len(unlisted):,} unlisted pieces: more than the {len(pieces):,} listed")
    _check_tokens(unlisted)
    if len(charsmap) > 4 * math.ceil(MAX_BYTES / 3):
        raise ValueError(f"the character map is larger than the limit of {MAX_BYTES:,} bytes")
    try:
        content = base64.b64decode(charsmap, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the character map is not base64") from None
    CharacterMap(content)
    return size


def _check_listed(values: dict[str, Any]) -> int:
    """Check a vocabulary that is a list of tokens, whose ids follow the special ones."""
    tokens = _field(values, "vocabulary", list)
    if any(type(token) is not str for token in tokens):
        raise ValueError("a word of the vocabulary is not a string")
    known = set(tokens)
    if len(known) < len(tokens):
        raise ValueError("the vocabulary contains a word twice")
    if special := known.intersection(SPECIALS):
        raise ValueError(f"the vocabulary contains the special token {special.pop()} as a word")
    _check_tokens(tokens)
    return len(SPECIALS) + len(tokens)


_KINDS: dict[str, Callable[[dict[str, Any]], int]] = {
    "subwords": _check_subwords,
    "words": _check_words,
    "pieces": _check_pieces,
}


def _check_tokens(tokens: Collection[str]) -> None:
    for token in tokens:
        if not is_learnable(token):
            raise ValueError(
                f"{token[:40]!r} is not a valid token: it is empty, longer than "
                f"{MAX_TOKEN_CHARACTERS} characters, or contains a control character"
            )


def _field(values: dict[str, Any], name: str, kind: type) -> Any:
    if type(values.get(name)) is not kind:
        raise ValueError(f"a tokenizer's {name} is missing or of the wrong type")
    return values[name]


def _only(values: dict[str, Any], *names: str) -> None:
    if unknown := sorted(set(values).difference(names)):
        raise ValueError(f"a tokenizer of this kind has no field {unknown[0]!r}")
