"""Group tokens into words: the single definition for analyses, pages and scripts."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Protocol

Words = tuple[tuple[int, ...], ...]
"""Words, each as the positions of its tokens."""


class Token(Protocol):
    """A token of a tokenizer or of a record."""

    @property
    def text(self) -> str: ...
    @property
    def starts_word(self) -> bool: ...
    @property
    def special(self) -> bool: ...


def is_punctuation(text: str) -> bool:
    """Return whether a text consists of punctuation only and is not empty."""
    return bool(text) and all(unicodedata.category(c).startswith("P") for c in text)


def group_words(tokens: Sequence[Token]) -> Words:
    """Return the token positions of each word, in order.

    Punctuation and special tokens are words by themselves. Any other token continues the preceding
    word unless it starts a word or follows one of these.
    """
    words: list[tuple[int, ...]] = []
    joins = False
    for position, token in enumerate(tokens):
        alone = token.special or is_punctuation(token.text)
        if joins and not alone and not token.starts_word:
            words[-1] += (position,)
        else:
            words.append((position,))
        joins = not alone
    return tuple(words)
