"""Tokens as people see them: hidden characters made visible, repeated words told apart."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

ATTENTION = {
    "encoder": "encoder's self-attention",
    "decoder": "decoder's self-attention",
    "cross": "cross-attention",
}
"""The three kinds of attention, as a sentence names them after "the"."""


class Named(Protocol):
    """A token of a record or of a tokenizer: what has a text to show."""

    @property
    def text(self) -> str: ...


def label(token: Named) -> str:
    """A token as a person can see it, not yet escaped: hidden characters show as ‹U+200B›."""
    return "".join(shown for shown, _ in segments(token.text))


def segments(text: str) -> list[tuple[str, bool]]:
    """Text as it is shown, in parts: what shows itself, and a hidden character's name, True."""
    text = text.encode("utf-8", "replace").decode()  # half a surrogate pair becomes ?
    if not text.strip(" "):
        return [("␣" * max(1, len(text)), False)]
    hidden = [_hidden(text, i) for i in range(len(text))]
    parts: list[tuple[str, bool]] = []
    for character, is_hidden in zip(text, hidden, strict=True):
        if is_hidden:
            parts.append((f"‹U+{ord(character):04X}›", True))
        elif parts and not parts[-1][1]:
            parts[-1] = (parts[-1][0] + character, False)
        else:
            parts.append((character, False))
    return parts


def labels(tokens: Sequence[Named], first_number: int) -> list[str]:
    """The tokens' labels, with repeated words told apart by their number: in₃ … in₉.

    `first_number` is the first token's: 1 for a source, 0 for a target fed in, which opens with
    <bos>.
    """
    plain = [label(token) for token in tokens]
    counts = Counter(plain)
    return [
        text if counts[text] == 1 else text + str(first_number + i).translate(_SUBSCRIPT)
        for i, text in enumerate(plain)
    ]


def word_labels(
    tokens: Sequence[Named], words: Sequence[Sequence[int]], first_number: int
) -> list[str]:
    """The labels of words, each given by the places of its tokens; numbered as `labels` numbers.

    Repeated words are told apart by the number of their first token: Mann₂ … Mann₁₀.
    """
    plain = ["".join(label(tokens[place]) for place in word) for word in words]
    counts = Counter(plain)
    return [
        text if counts[text] == 1 else text + str(first_number + word[0]).translate(_SUBSCRIPT)
        for text, word in zip(plain, words, strict=True)
    ]


_SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
# Unicode's default-ignorable characters that are not of category Cf, and the empty Braille cell.
_IGNORABLE = {
    *(0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0xFE00, 0xFE10),
    *range(0xE0100, 0xE01F0),
}


def _hidden(text: str, i: int) -> bool:
    """Whether a character shows nothing; an emoji's joiners and selectors show as the emoji."""
    if not _invisible(text[i]):
        return False
    if 0xFE00 <= ord(text[i]) < 0xFE10:
        return i == 0 or _invisible(text[i - 1])
    joins = text[i] == "\u200d" and 0 < i < len(text) - 1
    return not (joins and _pictograph(text[i - 1]) and _pictograph(text[i + 1]))


# Signs of category Cf that enclose the digits behind them, and so do show.
_SHOWN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}


def _invisible(character: str) -> bool:
    if ord(character) in _SHOWN:
        return False
    category = unicodedata.category(character)
    blank = category in ("Cc", "Cf", "Zl", "Zp") or (category == "Zs" and character != " ")
    return blank or ord(character) in _IGNORABLE


def _pictograph(character: str) -> bool:
    return unicodedata.category(character) in ("So", "Sk") or character == "\ufe0f"
