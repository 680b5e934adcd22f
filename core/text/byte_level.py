"""Byte-level byte-pair encoding (Radford et al. 2019, GPT-2), as in BART.

A text's UTF-8 bytes are merged, each written as a printable character, so no text is unknown.
"""

from dataclasses import replace
from typing import Any

import tokenizers
from tokenizers import models, pre_tokenizers

from core.text.subwords import SubwordTokenizer
from core.text.tokenizer import BOUNDARY, UNK, Frame, Token, normalise, unescaped
from core.text.vocabulary import BYTES, UNPRINTABLE

_BYTE_OF = {character: byte for byte, character in enumerate(BYTES)}
_SPACE = BYTES[ord(" ")]


class ByteTokenizer(SubwordTokenizer):
    """BPE over bytes, each written as its character of BYTES; a space begins the next word.

    A token that is not whole characters is shown by its bytes, such as <C3>.
    """

    folds_quotes = False

    def placed(self, text: str) -> list[tuple[Token, int]]:
        encoded = self._backend.encode(normalise(text))
        tokens = zip(map(self.token, encoded.ids), encoded.offsets, strict=True)
        return [
            (replace(token, starts_word=not start or token.starts_word), start)
            for token, (start, _) in tokens
        ]

    def decode(self, ids: list[int]) -> str:
        content = b"".join(
            "⁇".encode() if id == UNK else _bytes(self.piece(id)) for id in self.written(ids)
        )
        text = UNPRINTABLE.sub(" ", content.decode(errors="replace"))
        return unescaped(text.strip())

    def token(self, id: int) -> Token:
        token = super().token(id)
        if token.special:
            return token
        label = self.label(token.piece)
        starts_word = label.startswith(BOUNDARY) and token.piece.startswith(_SPACE)
        return replace(token, text=label[starts_word:], starts_word=starts_word)

    @staticmethod
    def label(piece: str) -> str:
        """Return a piece as readable text, with ▁ for a space in front."""
        inner = piece.removeprefix(_SPACE)
        return BOUNDARY * (inner != piece) + readable(_bytes(inner))

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"kind": "bytes"}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "ByteTokenizer":
        """Rebuild from `to_json`, once core.text.vocabulary has checked it."""
        merges = [tuple(merge) for merge in values["merges"]]
        backend = tokenizers.Tokenizer(models.BPE(values["vocabulary"], merges))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        return cls(backend, frame=Frame.from_json(values))


def _bytes(piece: str) -> bytes:
    return bytes(map(_BYTE_OF.__getitem__, piece))


def readable(content: bytes) -> str:
    """Return the text of UTF-8 bytes, or <XX> for each byte if they are no printable text."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if UNPRINTABLE.search(text):
        return "".join(f"<{byte:02X}>" for byte in content)
    return text
