"""The one protocol of tokenizers, the token they yield, and the four special ids."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Protocol

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
PAD, BOS, EOS, UNK = range(4)


@dataclass(frozen=True, slots=True)
class Token:
    """One token as the model sees it and as a person reads it.

    `piece` is the vocabulary's entry, `text` what to show: the surface form without a word-boundary
    mark and, for an unknown token, the text as it was typed.
    """

    id: int
    piece: str
    text: str
    starts_word: bool = True
    special: bool = False
    unknown: bool = False


def special(id: int) -> Token:
    """The token of a special id."""
    return Token(id, SPECIALS[id], SPECIALS[id], special=True)


class Tokenizer(Protocol):
    """Text of one language ↔ ids. Typed special names are plain text, never control ids."""

    @property
    def size(self) -> int:
        """How many ids there are, the four specials included."""
        ...

    def encode(self, text: str) -> tuple[Token, ...]:
        """Tokens of a text, without <bos> and <eos>."""
        ...

    def decode(self, ids: list[int]) -> str:
        """The text of ids, for reading; special ids are skipped, an unknown one shows as ⁇.

        An escaped character, such as `&amp;`, is the character: only the tokens show how it was
        written.
        """
        ...

    def token(self, id: int) -> Token:
        """The token of one id, as it shows when the model writes it."""
        ...

    def to_json(self) -> dict[str, Any]:
        """All that rebuilds it; see `core.text.load`."""
        ...


_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos|#39|nbsp)(?:;|(?![A-Za-z0-9]))")
_CHARACTERS = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "#39": "'", "nbsp": " "}


def unescaped(text: str) -> str:
    """Text with `&amp;` and its like as the characters they stand for.

    Corpora that were web pages hold some; a network that learned them writes them.
    """
    return _ENTITY.sub(lambda match: _CHARACTERS[match[1]], text)


def normalise(text: str) -> str:
    """Unicode NFC, and every run of white space one plain space: the form that models are fed.

    Half a surrogate pair is no character, and no tokenizer takes it: it becomes U+FFFD.
    """
    text = re.sub("[\ud800-\udfff]", "\ufffd", text)
    return re.sub(r"\s+", " ", unicodedata.normalize("NFC", text)).strip()
