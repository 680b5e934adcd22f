"""Build record tokens from the vocabulary entries and word marks of other tokenizers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from core.record.parts import RecordToken

_SPECIAL = re.compile(r"<[^<>\s]+>|<\|[^<>\s]+\|>|\[[A-Z]+\]|>>[^<>\s]+<<")
_BEGINS = ("▁", "Ġ")  # SentencePiece, byte-level BPE
_CONTINUES, _CONTINUED, _ENDS = "##", "@@", "</w>"  # WordPiece, subword-nmt, GPT-1
_NO_ID = -1


def tokens_of(pieces: Sequence[str], what: str) -> tuple[RecordToken, ...]:
    """Return a token for each piece: its text without word marks, and -1 for the missing id.

    If no piece has a mark, every token starts a word. Raises ValueError, in one line, for a text in
    place of a list, for an empty list, and for items that are not texts.
    """
    if isinstance(pieces, str):
        raise ValueError(f"{what} is one text: pass the list of its tokens")
    pieces = list(pieces)
    if not pieces:
        raise ValueError(f"{what} has no tokens: pass one for each row or column of its maps")
    for piece in pieces:
        if not isinstance(piece, str):
            raise ValueError(f"{what} holds {str(piece)[:40]!r}, which is not a text: pass tokens")
    starts = _starts(pieces)
    return tuple(_token(*one) for one in zip(pieces, starts, strict=True))


def vocabulary_tokens(tokenizer: Any, ids: Sequence[int], what: str) -> tuple[RecordToken, ...]:
    """Return the tokens with these ids in a Hugging Face tokenizer.

    The tokenizer says which are special; its unknown token is not special here.
    """
    ids = [int(id) for id in ids]
    pieces = [str(piece) for piece in tokenizer.convert_ids_to_tokens(ids)]
    byte_level = any(piece.startswith("Ġ") for piece in pieces)
    special, unknown = set(tokenizer.all_special_ids), tokenizer.unk_token_id
    tokens = []
    for id, token in zip(ids, tokens_of(pieces, what), strict=True):
        control = id in special and id != unknown
        text = tokenizer.decode([id]).strip() if byte_level and not control else token.text
        text = token.piece if control else text
        token = replace(token, id=id, text=text, special=control, unknown=id == unknown)
        tokens.append(token)
    return tuple(tokens)


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


def _token(piece: str, starts_word: bool) -> RecordToken:
    if _SPECIAL.fullmatch(piece):
        unknown = piece.strip("<>[]").lower() == "unk"
        return RecordToken(_NO_ID, piece, piece, True, not unknown, unknown)
    text = piece.removesuffix(_CONTINUED).removesuffix(_ENDS)
    if _is_continuing(text):
        text = text.removeprefix(_CONTINUES)
    for mark in _BEGINS:
        text = text.removeprefix(mark)
    return RecordToken(_NO_ID, piece, text, starts_word, False, False)
