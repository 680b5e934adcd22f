"""Build record tokens from the vocabulary entries and word marks of other tokenizers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from itertools import islice, pairwise

from core.record.limits import MAX_RECORD_TOKENS
from core.record.parts import RecordToken

_SPECIAL = re.compile(r"<[^<>\s]+>|<\|[^<>\s]+\|>|\[[A-Z]+\]|>>[^<>\s]+<<|｟mrk_[^｟｠\s]+｠")
_STARTS = frozenset(
    ("<pad>", "<s>", "<bos>", "<sos>", "<start>", "<go>", "[cls]", "[bos]", "[pad]")
)
_BEGINS = ("▁", "Ġ")  # SentencePiece, byte-level BPE
_CONTINUES, _CONTINUED, _ENDS = "##", "@@", "</w>"  # WordPiece, subword-nmt, GPT-1
_JOINER, _FEATURE = "￭", "￨"  # OpenNMT: attached on this side; features such as the case follow
_NO_ID = -1


def tokens_of(pieces: Sequence[str], what: str) -> tuple[RecordToken, ...]:
    """Return a token for each piece: its text without word marks, and -1 for the missing id.

    If no piece has a mark, every token starts a word. Raises ValueError, in one line, for a text in
    place of a list, for an empty or too long list, and for items that are not texts.
    """
    if isinstance(pieces, str):
        raise ValueError(f"{what} is one text: pass the list of its tokens")
    if isinstance(pieces, Mapping | Set) or not hasattr(pieces, "__iter__"):
        raise ValueError(f"{what} is {type(pieces).__name__}: pass the list of its tokens")
    limit = MAX_RECORD_TOKENS + 1  # with the token fed in first
    given, pieces = pieces, list(islice(iter(pieces), limit + 1))
    if len(pieces) > limit:
        count = f"{len(given):,}" if hasattr(given, "__len__") else f"more than {limit}"
        raise ValueError(f"{count} tokens of the {what} are too many: the limit is {limit - 1}")
    if not pieces:
        raise ValueError(f"{what} has no tokens: pass one for each row or column of its maps")
    for piece in pieces:
        if not isinstance(piece, str):
            shown = (
                repr(str(piece)[:40]) if isinstance(piece, int | float) else type(piece).__name__
            )
            raise ValueError(f"{what} holds {shown}, which is not a text: pass tokens")
    pieces = [str(piece) for piece in pieces]
    starts = _starts([_without_features(piece) for piece in pieces])
    return tuple(_token(*one) for one in zip(pieces, starts, strict=True))


def begins_with_start(target: Sequence[RecordToken], start: RecordToken) -> bool:
    """Return whether produced tokens begin like the tokens fed in.

    They begin with `start`; or with a start token of other tools, while `start` is this project's.
    """
    first = target[0].piece
    return first == start.piece or (start.piece == "<bos>" and first.lower() in _STARTS)


def join(tokens: Sequence[RecordToken]) -> str:
    """Return the text of the tokens, with a space before each word and no special tokens."""
    shown = [token for token in tokens if not token.special]
    return "".join(f" {t.text}" if t.starts_word else t.text for t in shown).strip()


def _starts(pieces: list[str]) -> list[bool]:
    """Return whether each piece starts a word; a special piece and the one after it always do."""
    if any(piece.startswith(_BEGINS) for piece in pieces):
        starts = [piece.startswith(_BEGINS) for piece in pieces]
    elif any(_is_continuing(piece) for piece in pieces):
        starts = [not _is_continuing(piece) for piece in pieces]
    elif any(piece.startswith(_JOINER) or piece.endswith(_JOINER) for piece in pieces):
        apart = [not own.startswith(_JOINER) for own in pieces]
        starts = [
            True,
            *(a and not b.endswith(_JOINER) for a, b in zip(apart[1:], pieces, strict=False)),
        ]
    elif any(piece.endswith(_CONTINUED) for piece in pieces):
        starts = [True, *(not before.endswith(_CONTINUED) for before, _ in pairwise(pieces))]
    elif any(piece.endswith(_ENDS) for piece in pieces):
        starts = [True, *(before.endswith(_ENDS) for before, _ in pairwise(pieces))]
    else:
        return [True] * len(pieces)
    special = [bool(_SPECIAL.fullmatch(piece)) for piece in pieces]
    after = [True, *special[:-1]]
    return [any(one) for one in zip(starts, special, after, strict=True)]


def _is_continuing(piece: str) -> bool:
    return piece.startswith(_CONTINUES) and len(piece) > len(_CONTINUES)


def _without_features(piece: str) -> str:
    return piece.partition(_FEATURE)[0] or piece


def _token(piece: str, starts_word: bool) -> RecordToken:
    if _SPECIAL.fullmatch(piece):
        unknown = piece.strip("<>[]").lower() == "unk"
        return RecordToken(_NO_ID, piece, piece, True, not unknown, unknown)
    text = _without_features(piece).removeprefix(_JOINER).removesuffix(_JOINER)
    text = text.removesuffix(_CONTINUED).removesuffix(_ENDS)
    if _is_continuing(text):
        text = text.removeprefix(_CONTINUES)
    for mark in _BEGINS:
        text = text.removeprefix(mark)
    return RecordToken(_NO_ID, piece, text, starts_word, False, False)
