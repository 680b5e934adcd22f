"""Pieces: a SentencePiece model, unigram (Kudo 2018) or BPE, by the tokenizers library."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers
from tokenizers import models

from core.text.charsmap import Character, CharacterMap
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

_UNKNOWN = "\U0010ffff"  # stands for unknown text in the model; typing it also gives <unk>


class PieceTokenizer(Tokenizer):
    """The pieces of one side, with the ids of a vocabulary that both sides may share.

    A text passes through `normalise`, as in the project's other tokenizers, and then through
    SentencePiece's character map. The segmentation is the one with the largest sum of `scores`, the
    log-probabilities of its pieces. With `bpe` it is built from characters, by repeatedly joining
    the two neighbours that make the piece with the highest score. It differs from SentencePiece's
    only where `normalise` removes or simplifies characters. A stretch of text that this side's
    model does not know gets, as in Marian, the id of the vocabulary's piece with the same text, if
    there is one and it is not special.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        scores: Sequence[float | None],
        charsmap: bytes = b"",
        unlisted: Mapping[str, float] | None = None,
        *,
        bpe: bool = False,
        frame: Frame = Frame(),
    ):
        """Build from the pieces with ids from 4 on, and their scores.

        A piece that only the other side's model has, or that is special, gets the score None.
        `unlisted` holds the
        scores of pieces of this side's model that have no id; they are read as <unk>.
        """
        self._scores, self._charsmap, self._unlisted = list(scores), charsmap, dict(unlisted or {})
        self.frame, self.is_bpe = frame, bpe
        self._pieces = [*SPECIALS, *vocabulary]
        special = frame.special.union(range(len(SPECIALS)))
        self._ids = {piece: id for id, piece in enumerate(self._pieces) if id not in special}
        listed = zip(vocabulary, scores, strict=True)
        known = [(piece, score) for piece, score in listed if score is not None]
        entries = [(_UNKNOWN, 0.0), *known, *self._unlisted.items()]
        self._model = tokenizers.Tokenizer(
            _bpe(entries) if bpe else models.Unigram(entries, 0, byte_fallback=False)
        )
        self._characters = CharacterMap(charsmap)

    @property
    def size(self) -> int:
        return len(self._pieces)

    @property
    def log_probs(self) -> dict[str, float]:
        """The log-probability of each piece of this side's model."""
        listed = zip(self._pieces[len(SPECIALS) :], self._scores, strict=True)
        return {piece: score for piece, score in listed if score is not None} | self._unlisted

    def segmented(self, text: str) -> list[tuple[str, int]]:
        """Return the pieces of a text, with their boundary marks, and their ids."""
        read = "".join(character.text for character in _marked(self._characters(normalise(text))))
        offsets = self._model.encode(read).offsets if read else ()
        return [(read[start:end], self._ids.get(read[start:end], UNK)) for start, end in offsets]

    folds_quotes = False

    def placed(self, text: str) -> list[tuple[Token, int]]:
        text = normalise(text)
        marked = _marked(self._characters(text))
        read = "".join(character.text for character in marked)
        placed: list[tuple[Token, int]] = []
        for start, end in self._model.encode(read).offsets if read else ():
            piece = read[start:end]
            starts_word = not start or piece.startswith(BOUNDARY)
            id = self._ids.get(piece, UNK)
            typed = text[marked[start].start : marked[end - 1].end].strip()
            shown = typed if id == UNK else piece.lstrip(BOUNDARY)
            token = Token(id, self._pieces[id], shown, starts_word, unknown=id == UNK)
            placed.append((token, marked[start].start))
        return placed

    def decode(self, ids: list[int]) -> str:
        pieces = ["⁇" if id == UNK else self._pieces[id] for id in self.written(ids)]
        return unescaped("".join(pieces).replace(BOUNDARY, " ").strip())

    def piece(self, id: int) -> str:
        return self._pieces[id]

    def to_json(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "kind": "pieces",
            "vocabulary": self._pieces[len(SPECIALS) :],
            "scores": self._scores,
            "charsmap": base64.b64encode(self._charsmap).decode(),
        }
        values |= {"unlisted": self._unlisted} if self._unlisted else {}
        return values | ({"bpe": True} if self.is_bpe else {}) | self.frame.to_json()

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "PieceTokenizer":
        """Rebuild from `to_json`, once core.text.vocabulary has checked it."""
        return cls(
            values["vocabulary"],
            values["scores"],
            base64.b64decode(values["charsmap"]),
            values.get("unlisted"),
            bpe=values.get("bpe", False),
            frame=Frame.from_json(values),
        )


def merges_of(log_probs: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return the pairs of pieces that make another piece, by its score, best first."""
    ids = {piece: id for id, piece in enumerate(log_probs)}
    merges = []
    for piece in sorted(log_probs, key=lambda piece: -log_probs[piece]):
        pairs = ((piece[:at], piece[at:]) for at in range(1, len(piece)))
        known = [pair for pair in pairs if pair[0] in ids and pair[1] in ids]
        merges += sorted(known, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
    return merges


def _bpe(entries: Sequence[tuple[str, float]]) -> models.BPE:
    """Return a model with the entries' places as ids; the first is the unknown piece."""
    ids = {piece: id for id, (piece, _) in enumerate(entries)}
    merges = merges_of(dict(entries[1:]))
    return models.BPE(ids, merges, unk_token=entries[0][0], fuse_unk=True)


def _marked(characters: Sequence[Character]) -> list[Character]:
    """Put a boundary mark at the beginning and for each run of spaces inside; drop outer spaces."""
    marked: list[Character] = []
    space = Character(" ", 0, 0)  # SentencePiece's dummy prefix
    is_space = True
    for character in characters:
        if character.text == " ":
            space = space if is_space else character
            is_space = True
            continue
        if is_space:
            marked.append(space._replace(text=BOUNDARY))
        is_space = False
        marked.append(character)
    while marked and marked[-1].text == BOUNDARY:  # only a "▁" in the text can be last
        marked.pop()
    return marked
