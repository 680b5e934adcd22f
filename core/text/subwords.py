"""Subwords: byte-pair encoding (Sennrich et al. 2016) by the tokenizers library."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from core.text.tokenizer import (
    BOUNDARY,
    SPECIALS,
    UNK,
    Frame,
    Token,
    Tokenizer,
    normalise,
    unescaped,
)
from core.text.vocabulary import MAX_TOKEN_CHARACTERS, UNPRINTABLE

_DIGIT = tokenizers.Regex(f"{BOUNDARY}?[0-9]")

SPELLING = (
    "abcdefghijklmnopqrstuvwxyzäöüßáàâãåæçéèêëíìîïñóòôøúùûýčćđęěğıłńœřśşšžź"
    "ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÜÁÀÂÅÇÉÈÊÍÎÑÓÔØÚČĆĐĞİŁŒŘŚŞŠŽ"
    "0123456789.,:;!?'\"-–—()[]/&%€$£+*=#@°„“”‚‘’…«»"
)
"""Characters needed to spell names, numbers and everyday sentences of German and English."""


def _learnable(sentence: str) -> str:
    """Normalise a training sentence; replace control characters, which no vocabulary may hold."""
    return UNPRINTABLE.sub(" ", normalise(sentence))


def _assemble(model: models.BPE, single_digits: bool = False) -> tokenizers.Tokenizer:
    """Combine a BPE model with its pre-tokenizer and decoder.

    With `single_digits` each digit is a token. The special tokens are vocabulary entries, but not
    registered as special: the library would then recognise them inside user text.
    """
    backend = tokenizers.Tokenizer(model)
    split = [pre_tokenizers.Metaspace(prepend_scheme="always"), pre_tokenizers.Punctuation()]
    if single_digits:
        split.append(pre_tokenizers.Split(_DIGIT, "isolated"))
    backend.pre_tokenizer = pre_tokenizers.Sequence(split)
    backend.decoder = decoders.Metaspace(prepend_scheme="always")
    return backend


class SubwordTokenizer(Tokenizer):
    """Cased BPE that keeps word boundaries in its tokens, so decoding restores the spaces."""

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        single_digits: bool = False,
        frame: Frame = Frame(),
    ):
        self._backend = backend
        self._single_digits = single_digits
        self.frame = frame

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        size: int,
        min_character_count: int = 3,
        spelling: str = "",
        single_digits: bool = False,
    ) -> "SubwordTokenizer":
        """Learn `size` entries; characters rarer than `min_character_count` become <unk>.

        Some characters must stay unknown in training, or the model never learns <unk>. Characters
        of `spelling` are always known. With `single_digits` no entry has two digits. The sentences
        are read twice, so an iterator is first read into memory.
        """
        if isinstance(sentences, Iterator):
            sentences = list(sentences)
        counts: Counter[str] = Counter()
        for sentence in sentences:
            counts.update(_learnable(sentence))
        frequent = {c for c, count in counts.items() if count >= min_character_count}
        # The space counts as the trainer's word-boundary mark.
        alphabet = len(frequent | set(spelling) | {" "})
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=list(SPECIALS),
            limit_alphabet=alphabet,
            initial_alphabet=list(spelling),
            show_progress=False,
            max_token_length=MAX_TOKEN_CHARACTERS,
        )
        learner = _assemble(models.BPE(unk_token=SPECIALS[UNK]), single_digits)
        learner.train_from_iterator(map(_learnable, sentences), trainer)
        learned = json.loads(learner.to_str())["model"]
        values = {"vocabulary": learned["vocab"], "merges": learned["merges"]}
        return cls.from_json(values | {"single_digits": single_digits})

    @property
    def size(self) -> int:
        return self._backend.get_vocab_size()

    def placed(self, text: str) -> list[tuple[Token, int]]:
        text = normalise(text)
        encoded = self._backend.encode(text)
        placed = []
        for id, piece, (start, end) in zip(
            encoded.ids, encoded.tokens, encoded.offsets, strict=True
        ):
            # The network reads a typed "▁" as a space; show it as typed.
            typed = text[start : start + 1] == BOUNDARY
            surface = text[start:end] if id == UNK else piece
            starts_word = start == 0 or (not typed and surface.startswith((BOUNDARY, " ")))
            shown = surface.lstrip(BOUNDARY + " ")
            if typed and surface.startswith(BOUNDARY):
                shown = BOUNDARY + shown
            placed.append((Token(id, piece, shown, starts_word, unknown=id == UNK), start))
        return placed

    def units(self, text: str) -> list[str]:
        """Return the parts of a text that are merged independently, with their boundary marks."""
        return [unit for unit, _ in self._backend.pre_tokenizer.pre_tokenize_str(normalise(text))]

    def decode(self, ids: list[int]) -> str:
        pieces = ["⁇" if id == UNK else self.piece(id) for id in self.written(ids)]
        return unescaped(self._backend.decoder.decode(pieces).strip())

    def piece(self, id: int) -> str:
        return self._backend.id_to_token(id)  # ty: ignore[invalid-explicit-return]

    def to_json(self) -> dict[str, Any]:
        model = json.loads(self._backend.to_str())["model"]
        values = {"kind": "subwords", "vocabulary": model["vocab"], "merges": model["merges"]}
        values |= {"single_digits": True} if self._single_digits else {}
        return values | self.frame.to_json()

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "SubwordTokenizer":
        """Rebuild from `to_json`, once core.text.vocabulary has checked it."""
        merges = [tuple(merge) for merge in values["merges"]]
        model = models.BPE(values["vocabulary"], merges, unk_token=SPECIALS[UNK], fuse_unk=True)
        single_digits = bool(values.get("single_digits", False))
        return cls(_assemble(model, single_digits), single_digits, Frame.from_json(values))
