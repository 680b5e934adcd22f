"""Validation of a tokenizer's JSON form, before a tokenizer is built from it."""

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

from core.text.charsmap import MAX_BYTES, CharacterMap
from core.text.tokenizer import BOS, SPECIALS
from core.typed import Rule, between, pattern, typed

MAX_TOKEN_CHARACTERS = 500
_MAX_SCORE = 1_000  # of a piece: minus its log-probability
MAX_FIRST = 4  # ids in front of a source
# No vocabulary contains control characters, line ends or lone surrogates: translations are written
# to terminals and to files with one sentence per line.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def is_learnable(token: str) -> bool:
    """Return whether a vocabulary may contain a token."""
    return 0 < len(token) <= MAX_TOKEN_CHARACTERS and not UNPRINTABLE.search(token)


_Token = Annotated[
    str,
    Rule(f"of 1 to {MAX_TOKEN_CHARACTERS} characters without control characters", is_learnable),
]
_Score = Annotated[float, between(-_MAX_SCORE, 0)]
_First = Annotated[tuple[int, ...], between(0, MAX_FIRST)]


class _Kind(TypedDict):
    kind: Literal["subwords", "words", "pieces"]


@dataclass(frozen=True)
class _Subwords:
    kind: str
    vocabulary: Mapping[_Token, int]
    merges: tuple[tuple[str, str], ...]
    single_digits: bool = False
    first: _First = ()


@dataclass(frozen=True)
class _Words:
    kind: str
    vocabulary: tuple[_Token, ...]
    language: Annotated[str, pattern("that is a language code", "[a-z]{2,3}")]
    lower: bool
    first: _First = ()


@dataclass(frozen=True)
class _Pieces:
    kind: str
    vocabulary: tuple[_Token, ...]
    scores: tuple[_Score | None, ...]
    charsmap: str
    unlisted: Mapping[_Token, _Score] = field(default_factory=dict)
    first: _First = ()


def check(values: Any) -> int:
    """Return the number of ids, including the special ones. Raises ValueError if invalid."""
    cls, check_kind = _KINDS[typed(_Kind, values, "a tokenizer")["kind"]]
    tokenizer = typed(cls, values, "a tokenizer")
    size = check_kind(tokenizer)
    if size == len(SPECIALS):
        raise ValueError("the vocabulary has only special tokens")
    for id in tokenizer.first:
        if not (id == BOS or len(SPECIALS) <= id < size):
            raise ValueError(
                f"{id} cannot be in front of a source: "
                f"only {BOS} (<bos>) and ids from {len(SPECIALS)} to {size - 1:,} can"
            )
    return size


def _check_subwords(tokenizer: _Subwords) -> int:
    vocabulary = tokenizer.vocabulary
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise ValueError("the vocabulary's ids are not 0, 1, 2, … without gaps and duplicates")
    for id, name in enumerate(SPECIALS):
        if vocabulary.get(name) != id:
            raise ValueError(f"id {id} of the vocabulary must be {name}")
    for first, second in tokenizer.merges:
        merged = first + second
        if not vocabulary.keys() >= {first, second, merged}:
            raise ValueError(f"the merge of {first!r} and {second!r} is not in the vocabulary")
        if merged in SPECIALS:
            raise ValueError(f"a merge produces the special token {merged}")
    return len(vocabulary)


def _check_listed(tokenizer: _Words | _Pieces) -> int:
    """Check a vocabulary that is a list of tokens, whose ids follow the special ones."""
    known = set(tokenizer.vocabulary)
    if len(known) < len(tokenizer.vocabulary):
        raise ValueError("the vocabulary contains a word twice")
    if special := known.intersection(SPECIALS):
        raise ValueError(f"the vocabulary contains the special token {special.pop()} as a word")
    return len(SPECIALS) + len(known)


def _check_pieces(tokenizer: _Pieces) -> int:
    size = _check_listed(tokenizer)
    pieces, scores, unlisted = tokenizer.vocabulary, tokenizer.scores, tokenizer.unlisted
    if len(scores) != len(pieces):
        raise ValueError(f"{len(pieces):,} pieces, but {len(scores):,} scores")
    if all(score is None for score in scores):
        raise ValueError("no piece has a score, so no text can be read")
    if listed := sorted({*pieces, *SPECIALS}.intersection(unlisted)):
        raise ValueError(f"the piece {listed[0][:40]!r} is unlisted, but has an id")
    if len(unlisted) > len(pieces):
        raise ValueError(f"{len(unlisted):,} unlisted pieces: more than the {len(pieces):,} listed")
    if len(tokenizer.charsmap) > 4 * math.ceil(MAX_BYTES / 3):
        raise ValueError(f"the character map is larger than the limit of {MAX_BYTES:,} bytes")
    try:
        content = base64.b64decode(tokenizer.charsmap, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the character map is not base64") from None
    CharacterMap(content)
    return size


_KINDS: dict[str, tuple[type, Callable[[Any], int]]] = {
    "subwords": (_Subwords, _check_subwords),
    "words": (_Words, _check_listed),
    "pieces": (_Pieces, _check_pieces),
}
