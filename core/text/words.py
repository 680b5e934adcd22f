"""Words: spaCy's rule-based tokenizers and a torchtext vocabulary, as in many tutorials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from core.text.tokenizer import SPECIALS, UNK, Frame, Token, Tokenizer, normalise
from core.text.vocabulary import is_learnable

if TYPE_CHECKING:
    from spacy.tokens import Doc

_NEED_PACKAGES = frozenset({"ja", "ko", "th", "vi"})


@cache  # making one takes a tenth of a second
def splitter(language: str) -> Callable[[str], Doc]:
    """Return spaCy's tokenizer of a language, or its multi-language rules if it has none.

    The multi-language rules also serve ja, ko, th and vi, whose own rules need another package.
    """
    import spacy  # takes seconds, and subword models never need it

    if language not in _NEED_PACKAGES:
        with suppress(ImportError):  # also for an unknown language
            return spacy.blank(language).tokenizer
    return spacy.blank("xx").tokenizer


class WordTokenizer(Tokenizer):
    """One id per word of one language; words outside the vocabulary are <unk>.

    White space has no ids: `decode` restores it with the Moses detokenizer.
    """

    def __init__(
        self, language: str, words: list[str], lower: bool = False, first: Sequence[int] = ()
    ):
        import torchtext.vocab

        self._language, self._lower = language, lower
        self.frame = Frame(tuple(first))
        self._split = splitter(language)
        # torchtext sorts by count; descending ranks keep the given order.
        ranks = Counter({word: len(words) - i for i, word in enumerate(words)})
        self._vocabulary = torchtext.vocab.Vocab(ranks, specials=list(SPECIALS))

    @classmethod
    def train(
        cls, sentences: Iterable[str], language: str, min_count: int = 2, lower: bool = False
    ) -> WordTokenizer:
        """Learn the words that occur at least `min_count` times, most frequent first."""
        empty = cls(language, [], lower)
        counts = Counter(
            empty._key(word.text) for text in sentences for word in empty._split(normalise(text))
        )
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        frequent = [word for word, count in ordered if count >= min_count]
        words = [w for w in frequent if w not in SPECIALS and is_learnable(w)]
        return cls(language, words, lower)

    def _key(self, word: str) -> str:
        return word.lower() if self._lower else word

    @property
    def size(self) -> int:
        return len(self._vocabulary)

    def placed(self, text: str) -> list[tuple[Token, int]]:
        placed = []
        for word in self._split(normalise(text)):
            key = self._key(word.text)
            # A typed "<eos>" is text; the vocabulary would return the control id.
            id = UNK if key in SPECIALS else self._vocabulary.stoi.get(key, UNK)
            shown = word.text if id == UNK else key
            token = Token(id, self._vocabulary.itos[id], shown, unknown=id == UNK)
            placed.append((token, word.idx))
        return placed

    def decode(self, ids: list[int]) -> str:
        from sacremoses import MosesDetokenizer

        words = ["⁇" if id == UNK else self._vocabulary.itos[id] for id in ids if id >= UNK]
        return MosesDetokenizer(lang=self._language).detokenize(words)

    def token(self, id: int) -> Token:
        token = super().token(id)  # a word may begin with the mark that subwords have
        return token if token.special else Token(id, token.piece, token.piece)

    def piece(self, id: int) -> str:
        return self._vocabulary.itos[id]

    def to_json(self) -> dict[str, Any]:
        words = self._vocabulary.itos[len(SPECIALS) :]
        settings = {"kind": "words", "language": self._language, "lower": self._lower}
        return {**settings, **self.frame.to_json(), "vocabulary": words}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> WordTokenizer:
        """Rebuild from `to_json`, once core.text.vocabulary has checked it."""
        first = values.get("first", ())
        return cls(values["language"], values["vocabulary"], values["lower"], first)
