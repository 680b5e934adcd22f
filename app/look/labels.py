"""Token labels: make invisible characters visible and number repeated words."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

ATTENTION = {
    "encoder": "encoder's self-attention",
    "decoder": "decoder's self-attention",
    "cross": "cross-attention",
}
"""Names of the kinds of attention in a sentence, after "the"."""


class Named(Protocol):
    """Anything with a text to show, such as a token of a record or a tokenizer."""

    @property
    def text(self) -> str: ...


def label(token: Named) -> str:
    """Return a token's visible text, unescaped; invisible characters are shown as ‹U+200B›."""
    return "".join(shown for shown, _ in segments(token.text))


def segments(text: str) -> list[tuple[str, bool]]:
    """Split text into visible parts (False) and names of invisible characters (True)."""
    text = text.encode("utf-8", "replace").decode()  # a lone surrogate becomes ?
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
    """Return the tokens' labels; repeated ones get their token number: in₃ … in₉.

    `first_number` is the first token's number: 1 for a source, 0 for target_in (<bos>).
    """
    return word_labels(tokens, [[i] for i in range(len(tokens))], first_number)


def word_labels(
    tokens: Sequence[Named],
    words: Sequence[Sequence[int]],
    first_number: int,
    given: Sequence[str] | None = None,
) -> list[str]:
    """Return labels of words, each word a list of token indices.

    Repeated words get the number of their first token, if they have one: Mann₂ … Mann₁₀. `given`
    are the words as the text spells them, if not as the tokens do.
    """
    if given is None:
        plain = ["".join(label(tokens[i]) for i in word) for word in words]
    else:
        plain = ["".join(shown for shown, _ in segments(text)) for text in given]
    counts = Counter(plain)
    return [
        isolated(
            text
            if counts[text] == 1 or not word
            else text + str(first_number + word[0]).translate(_SUBSCRIPT)
        )
        for text, word in zip(plain, words, strict=True)
    ]


def isolated(text: str) -> str:
    """Isolate right-to-left text, so that it does not reorder the text around it (UAX #9)."""
    if any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text):
        return f"\u2068{text}\u2069"
    return text


_SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
# Default-ignorable characters outside category Cf, and the blank Braille pattern.
_IGNORABLE = {
    *(0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0xFE00, 0xFE10),
    *range(0xE0100, 0xE01F0),
}


def _hidden(text: str, i: int) -> bool:
    """Return whether a character is invisible; joiners and selectors inside an emoji are not."""
    if not _invisible(text[i]):
        return False
    if 0xFE00 <= ord(text[i]) < 0xFE10:
        return i == 0 or _invisible(text[i - 1])
    joins = text[i] == "\u200d" and 0 < i < len(text) - 1
    return not (joins and _pictograph(text[i - 1]) and _pictograph(text[i + 1]))


# Visible characters of category Cf: they enclose the digits that follow.
_SHOWN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}


def _invisible(character: str) -> bool:
    if ord(character) in _SHOWN:
        return False
    category = unicodedata.category(character)
    blank = category in ("Cc", "Cf", "Zl", "Zp") or (category == "Zs" and character != " ")
    return blank or ord(character) in _IGNORABLE


def _pictograph(character: str) -> bool:
    return unicodedata.category(character) in ("So", "Sk") or character == "\ufe0f"
