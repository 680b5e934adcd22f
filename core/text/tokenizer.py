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


_LEFT_OUT = dict.fromkeys((0xAD, 0x200B, 0x200C, 0x200E, 0x200F, 0x2060, 0xFEFF), "")
_FOLDED = {0x2010: "-", 0x2011: "-", 0x2212: "-", 0x1E9E: "ß"}
_FOLDED |= {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}
_TYPOGRAPHY = _LEFT_OUT | _FOLDED
"""Characters of typesetting, not of text: hints where a line may break, hyphens, ligatures, ẞ."""


def normalise(text: str) -> str:
    """Return a text in the form that models are fed: NFC, one plain space for any white space.

    Typography becomes the plain characters behind it: a soft hyphen or a zero-width space vanishes,
    a non-breaking hyphen is a hyphen, and a ligature its letters. Half a surrogate pair, which is
    no character, becomes U+FFFD.
    """
    text = re.sub("[\ud800-\udfff]", "\ufffd", text).translate(_TYPOGRAPHY)
    return re.sub(r"\s+", " ", unicodedata.normalize("NFC", text)).strip()


def typography(text: str) -> tuple[str, ...]:
    """Return the characters that `normalise` leaves out or replaces by plain ones, each once."""
    return tuple(dict.fromkeys(c for c in text if ord(c) in _TYPOGRAPHY))
