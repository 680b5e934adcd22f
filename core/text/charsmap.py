"""Apply SentencePiece's precompiled character map, without trusting the file that it comes from.

The map is a double-array trie (of the darts-clone library) from UTF-8 bytes to offsets into its
texts, each of which ends with a NUL byte. Layout: the trie's size in bytes (uint32), its units
(uint32 each), the texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

MAX_BYTES = 1 << 19  # twice the size of nmt_nfkc, the usual map
_MAX_TEXT = 100  # bytes of a replacement (at most 33 in nmt_nfkc), and characters of a match
_IS_VALUE = 1 << 31  # set in a unit that holds the offset of a key's replacement


class Character(NamedTuple):
    """A character of a normalised text, and the part of the original that it comes from."""

    text: str
    start: int
    end: int


class CharacterMap:
    """Replace the longest match at each position, from the left, as SentencePiece does.

    Every read is within bounds, whatever the map holds. A match takes one step per byte of text.
    """

    def __init__(self, charsmap: bytes):
        """Read a map; empty bytes replace nothing. Raises ValueError, in one line, if damaged."""
        self._units: list[int] = []
        self._texts = b""
        if not charsmap:
            return
        end = 4 + int.from_bytes(charsmap[:4], "little")
        if len(charsmap) > MAX_BYTES:
            raise ValueError(
                f"the character map has {len(charsmap):,} bytes: the limit is {MAX_BYTES:,}"
            )
        if end < 8 or end % 4 or end >= len(charsmap):
            raise ValueError("the character map does not have the size that it states")
        units = np.frombuffer(charsmap[4:end], "<u4")
        self._units, self._texts = units.tolist(), charsmap[end:]
        _check_texts(self._texts)
        offsets = units[units >= _IS_VALUE] ^ np.uint32(_IS_VALUE)
        if offsets.size == 0 or int(offsets.max()) >= len(self._texts):
            raise ValueError("the character map points outside of its texts")
        heads = np.frombuffer(self._texts, np.uint8)[offsets]
        if (heads >> 6 == 0b10).any():
            raise ValueError("the character map points into the middle of a character")

    def __call__(self, text: str) -> list[Character]:
        """Return the characters of the normalised text."""
        characters: list[Character] = []
        at = 0
        while at < len(text):
            length, replacement = 1, text[at]
            if self._units:
                length, replacement = max(self._matches(text, at), default=(1, text[at]))
            characters += [Character(c, at, at + length) for c in replacement]
            at += length
        return characters

    def _matches(self, text: str, start: int) -> Iterator[tuple[int, str]]:
        """Yield the character count and the replacement of each match that begins at `start`."""
        units, node = self._units, _offset(self._units[0])
        for length, character in enumerate(text[start : start + _MAX_TEXT], start=1):
            for byte in character.encode():
                node ^= byte
                unit = units[node] if node < len(units) else 0
                if unit & (_IS_VALUE | 0xFF) != byte:
                    return
                node ^= _offset(unit)
            if unit >> 8 & 1 and node < len(units) and units[node] & _IS_VALUE:
                offset = units[node] ^ _IS_VALUE
                yield length, self._texts[offset : self._texts.index(0, offset)].decode()


def _offset(unit: int) -> int:
    """Return the offset to a unit's children: the top 22 bits, times 256 if bit 9 is set."""
    return (unit >> 10) << ((unit & 1 << 9) >> 6)


def _check_texts(texts: bytes) -> None:
    if not texts.endswith(b"\0") or max(map(len, texts.split(b"\0"))) > _MAX_TEXT:
        raise ValueError(f"the character map has a replacement of more than {_MAX_TEXT} bytes")
    try:
        texts.decode()
    except UnicodeDecodeError:
        raise ValueError("the character map's texts are not UTF-8") from None
