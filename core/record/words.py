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
    """Whether a text is nonempty and all punctuation."""
    return bool(text) and all(unicodedata.category(c).startswith("P") for c in text)


def group_words(tokens: Sequence[Token]) -> Words:
    """Return the token positions of each word, in order.

    A token continues the previous word unless it starts one, or either token is punctuation or
    special: such tokens are words of their own.
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
