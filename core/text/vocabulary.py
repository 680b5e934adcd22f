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
from core.typed import Rule, between, line, pattern, typed

MAX_TOKEN_CHARACTERS = 500
_MAX_SCORE = 1_000  # of a piece: minus its log-probability
MAX_FIRST = 4  # ids in front of a source, or forced in a target
MAX_PREFIX = 200  # characters of a text in front of every source
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
_Language = Annotated[str, pattern("that is a language code", "[a-z]{2,3}")]
_Code = Annotated[str, pattern("that is a language code", "[A-Za-z]{2,8}([_-][A-Za-z]{2,8})?")]

_PRINTED = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_MOVED = {byte: 0x100 + n for n, byte in enumerate(sorted({*range(256)}.difference(_PRINTED)))}
BYTES = tuple(chr(_MOVED.get(byte, byte)) for byte in range(256))
"""The character that stands for each byte in byte-level subwords."""


class _Kind(TypedDict):
    kind: Literal["subwords", "bytes", "moses", "words", "pieces"]


@dataclass(frozen=True, kw_only=True)
class _Framed:
    """See core.text.tokenizer.Frame."""

    kind: str
    first: _First = ()
    forced: _First = ()
    languages: Mapping[_Code, int] = field(default_factory=dict)
    controls: tuple[int, ...] = ()
    prefix: Annotated[str, line(MAX_PREFIX)] = ""

    @property
    def special(self) -> set[int]:
        return {*self.controls, *self.languages.values()}


@dataclass(frozen=True, kw_only=True)
class _Subwords(_Framed):
    vocabulary: Mapping[_Token, int]
    merges: tuple[tuple[str, str], ...]
    single_digits: bool = False


@dataclass(frozen=True, kw_only=True)
class _Bytes(_Framed):
    vocabulary: Mapping[_Token, int]
    merges: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class _Moses(_Framed):
    language: _Language
    vocabulary: tuple[_Token, ...]
    merges: tuple[tuple[_Token, _Token], ...]
    lower: bool


@dataclass(frozen=True, kw_only=True)
class _Words:
    kind: str
    vocabulary: tuple[_Token, ...]
    language: _Language
    lower: bool
    first: _First = ()


@dataclass(frozen=True, kw_only=True)
class _Pieces(_Framed):
    vocabulary: tuple[_Token, ...]
    scores: tuple[_Score | None, ...]
    charsmap: str
    unlisted: Mapping[_Token, _Score] = field(default_factory=dict)
    bpe: bool = False


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
    if isinstance(tokenizer, _Framed):
        for id in (*tokenizer.forced, *sorted(tokenizer.special)):
            if not len(SPECIALS) <= id < size:
                raise ValueError(
                    f"{id} cannot be forced, a language or a control: only ids from "
                    f"{len(SPECIALS)} to {size - 1:,} can"
                )
    return size


def _check_bytes(tokenizer: _Bytes) -> int:
    size = _check_subwords(tokenizer)
    if lacking := [byte for byte, one in enumerate(BYTES) if one not in tokenizer.vocabulary]:
        raise ValueError(f"the vocabulary lacks the byte {lacking[0]:02X}: some texts have no ids")
    known, special = set(BYTES), tokenizer.special.union(range(len(SPECIALS)))
    for piece, id in tokenizer.vocabulary.items():
        if id not in special and not known.issuperset(piece):
            raise ValueError(f"the piece {piece[:40]!r} is not written in bytes")
    return size


def _check_subwords(tokenizer: _Subwords | _Bytes) -> int:
    vocabulary = tokenizer.vocabulary
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise ValueError("the vocabulary's ids are not 0, 1, 2, … without gaps and duplicates")
    for id, name in enumerate(SPECIALS):
        if vocabulary.get(name) != id:
            raise ValueError(f"id {id} of the vocabulary must be {name}")
    special = tokenizer.special.union(range(len(SPECIALS)))
    for first, second in tokenizer.merges:
        merged = first + second
        if not vocabulary.keys() >= {first, second, merged}:
            raise ValueError(f"the merge of {first!r} and {second!r} is not in the vocabulary")
        if vocabulary[merged] in special:
            raise ValueError(f"a merge produces the special token {merged}")
    if odd := [piece for piece, id in vocabulary.items() if id in special and len(piece) == 1]:
        raise ValueError(f"the special token {odd[0]!r} is one character, which a text may hold")
    return len(vocabulary)


def _check_listed(tokenizer: _Words | _Pieces | _Moses) -> int:
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
    for id in sorted(tokenizer.special):
        if len(SPECIALS) <= id < size and scores[id - len(SPECIALS)] is not None:
            piece = pieces[id - len(SPECIALS)][:40]
            raise ValueError(f"the special token {piece!r} has a score, so texts can hold it")
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
    "bytes": (_Bytes, _check_bytes),
    "moses": (_Moses, _check_listed),
    "words": (_Words, _check_listed),
    "pieces": (_Pieces, _check_pieces),
}
