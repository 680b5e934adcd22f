"""Moses' words (Koehn et al. 2007) split by byte-pair encoding, as in fairseq's WMT19 networks."""

import unicodedata
from collections.abc import Sequence
from typing import Any

from tokenizers import models

from core.text.tokenizer import SPECIALS, UNK, Frame, Token, Tokenizer, normalise, unescaped
from core.text.vocabulary import UNPRINTABLE

END = "</w>"
"""Marks the last piece of a word in the vocabulary and in the merges."""


class MosesTokenizer(Tokenizer):
    """The pieces of one side; Moses normalises punctuation, splits words and escapes characters."""

    folds_quotes = False

    def __init__(
        self,
        language: str,
        vocabulary: Sequence[str],
        merges: Sequence[tuple[str, str]],
        lower: bool = False,
        frame: Frame = Frame(),
    ):
        """Build from the pieces with ids from 4 on, and the merges of both sides."""
        import sacremoses

        self._language, self._merges, self._lower = language, list(merges), lower
        self.frame = frame
        self._pieces = [*SPECIALS, *vocabulary]
        special = frame.special.union(range(len(SPECIALS)))
        self._ids = {piece: id for id, piece in enumerate(self._pieces) if id not in special}
        self._punctuation = sacremoses.MosesPunctNormalizer(
            language, pre_replace_unicode_punct=True
        )
        self._words = sacremoses.MosesTokenizer(language)
        self._joined = sacremoses.MosesDetokenizer(language)
        # The vocabulary may lack pieces that merges make on the way, so the model has its own ids.
        known = [one for pair in self._merges for one in (*pair, "".join(pair))]
        known += [
            c + end for piece in self._ids for c in piece.removesuffix(END) for end in ("", END)
        ]
        ids = {piece: id for id, piece in enumerate(dict.fromkeys([SPECIALS[UNK], *known]))}
        self._model = models.BPE(ids, self._merges, unk_token=SPECIALS[UNK], end_of_word_suffix=END)

    @property
    def size(self) -> int:
        return len(self._pieces)

    def placed(self, text: str) -> list[tuple[Token, int]]:
        text, placed, at = normalise(text), [], 0
        read = self._punctuation.normalize(text.lower() if self._lower else text)
        read = "".join(c for c in read if not unicodedata.category(c).startswith("C"))
        for word in self._words.tokenize(read, aggressive_dash_splits=True, escape=True):
            start = _place(text, unescaped(word), at)
            at, content = start + len(unescaped(word)), word.encode()
            for first, last in (piece.offsets for piece in self._model.tokenize(word)):  # in bytes
                shown = content[first:last].decode()
                id = self._ids.get(shown + (END if last == len(content) else ""), UNK)
                text_of = unescaped(shown)
                token = Token(id, self._pieces[id], text_of, first == 0, unknown=id == UNK)
                inside = len(content[:first].decode())
                placed.append((token, min(start + inside, len(text) - 1)))
        return placed

    def decode(self, ids: list[int]) -> str:
        pieces = ("⁇" + END if id == UNK else self._pieces[id] for id in self.written(ids))
        words = "".join(pieces).replace(END, " ").split()
        return UNPRINTABLE.sub(" ", self._joined.detokenize(words))

    def token(self, id: int) -> Token:
        token = super().token(id)
        if token.special:
            return token
        return Token(id, token.piece, unescaped(token.piece.removesuffix(END)))

    def piece(self, id: int) -> str:
        return self._pieces[id]

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "moses",
            "language": self._language,
            "vocabulary": self._pieces[len(SPECIALS) :],
            "merges": [list(merge) for merge in self._merges],
            "lower": self._lower,
            **self.frame.to_json(),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "MosesTokenizer":
        """Rebuild from `to_json`, once core.text.vocabulary has checked it."""
        merges = [(first, second) for first, second in values["merges"]]
        frame = Frame.from_json(values)
        return cls(values["language"], values["vocabulary"], merges, values["lower"], frame)


def _place(text: str, word: str, at: int) -> int:
    """Return where a word, which Moses may have changed, begins in a text from `at` on."""
    while at < len(text) - 1 and text[at] == " ":
        at += 1
    found = text.find(word, at, at + 2 * len(word) + 8)
    return max(0, min(at, len(text) - 1)) if found < 0 else found
