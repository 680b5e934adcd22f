"""What a tokenizer's JSON form must hold before a tokenizer is built from it."""

import re
from collections.abc import Collection
from typing import Any

from core.text.tokenizer import SPECIALS

MOST_CHARACTERS = 500  # of a token
# Control characters, line ends and halves of surrogate pairs are in no vocabulary: what a network
# writes goes to terminals and to files of one sentence a line.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def is_learnable(token: str) -> bool:
    """Whether a token may stand in a vocabulary."""
    return 0 < len(token) <= MOST_CHARACTERS and not UNPRINTABLE.search(token)


def check(values: Any) -> int:
    """How many ids there are, the four specials included. Raises ValueError for what is unfit."""
    kind = values.get("kind") if isinstance(values, dict) else None
    if kind not in ("subwords", "words"):
        raise ValueError(f"unknown kind of tokenizer {kind!r}: expected 'subwords' or 'words'")
    size = _check_subwords(values) if kind == "subwords" else _check_words(values)
    if size == len(SPECIALS):
        raise ValueError("the vocabulary has no token of a language")
    return size


def _check_subwords(values: dict[str, Any]) -> int:
    vocabulary = _field(values, "vocabulary", dict)
    merges = _field(values, "merges", list)
    _field({"single_digits": False, **values}, "single_digits", bool)
    _only(values, "kind", "vocabulary", "merges", "single_digits")
    ids = list(vocabulary.values())
    if any(type(id) is not int for id in ids) or sorted(ids) != list(range(len(ids))):
        raise ValueError("the vocabulary's ids do not run from 0 without a gap, each once")
    for id, name in enumerate(SPECIALS):
        if vocabulary.get(name) != id:
            raise ValueError(f"id {id} of the vocabulary must be {name}")
    _check_tokens(vocabulary)
    for merge in merges:
        if not isinstance(merge, list) or list(map(type, merge)) != [str, str]:
            raise ValueError("a merge is no pair of tokens")
        first, second = merge
        made = first + second
        if first not in vocabulary or second not in vocabulary or made not in vocabulary:
            raise ValueError(f"the merge of {first!r} and {second!r} leaves the vocabulary")
        if made in SPECIALS:
            raise ValueError(f"a merge makes {made}, which nobody may type")
    return len(vocabulary)


def _check_words(values: dict[str, Any]) -> int:
    words = _field(values, "vocabulary", list)
    language = _field(values, "language", str)
    _field(values, "lower", bool)
    _only(values, "kind", "vocabulary", "language", "lower")
    if not re.fullmatch("[a-z]{2,3}", language):
        raise ValueError(f"{language!r} is no code of a language")
    if any(type(word) is not str for word in words):
        raise ValueError("a word of the vocabulary is no text")
    known = set(words)
    if len(known) < len(words):
        raise ValueError("a word stands twice in the vocabulary")
    if special := known.intersection(SPECIALS):
        raise ValueError(f"{special.pop()} is no word: it has an id of its own")
    _check_tokens(words)
    return len(SPECIALS) + len(words)


def _check_tokens(tokens: Collection[str]) -> None:
    for token in tokens:
        if not is_learnable(token):
            raise ValueError(
                f"{token[:40]!r} is no token: it is empty, longer than {MOST_CHARACTERS} "
                "characters, or holds a control character"
            )


def _field(values: dict[str, Any], name: str, kind: type) -> Any:
    if type(values.get(name)) is not kind:
        raise ValueError(f"a tokenizer's {name} is missing or of another type")
    return values[name]


def _only(values: dict[str, Any], *names: str) -> None:
    if odd := sorted(set(values).difference(names)):
        raise ValueError(f"a tokenizer has no {odd[0]!r}")
