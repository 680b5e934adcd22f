"""Read the tokens of one side from a Hugging Face tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from core.record.adapters.tokens import tokens_of
from core.record.parts import RecordToken


class Vocabulary:
    """The entries and special ids of one side.

    A MarianTokenizer with `separate_vocabs` has a table per side, but its `convert_ids_to_tokens`
    and its special ids each know one of them: there, both are read from the side's own table.
    """

    def __init__(self, tokenizer: Any, side: Literal["source", "target"]) -> None:
        """Raise ValueError, in one line, for an object that is not a tokenizer."""
        self._tokenizer, self._side = tokenizer, side
        if not callable(getattr(tokenizer, "convert_ids_to_tokens", None)):
            raise ValueError(
                f"the {side} tokenizer is {type(tokenizer).__name__}, which has no "
                "convert_ids_to_tokens: pass the tokenizer of the model"
            )
        table = None
        if self.separate:
            table = getattr(tokenizer, "encoder" if side == "source" else "target_encoder", None)
        self._ids: dict[str, int] | None = table if isinstance(table, dict) else None
        self._pieces = {id: piece for piece, id in (self._ids or {}).items()}

    @property
    def separate(self) -> bool:
        """Whether the tokenizer has a table per side."""
        return bool(getattr(self._tokenizer, "separate_vocabs", False))

    def special(self, name: str) -> int | None:
        """Return the id of the special token `name`, such as "pad", or None."""
        if self._ids is None:
            return getattr(self._tokenizer, f"{name}_token_id", None)
        return self._ids.get(str(getattr(self._tokenizer, f"{name}_token", None)))

    def tokens(self, ids: Sequence[int]) -> tuple[RecordToken, ...]:
        """Return the tokens with these ids; the unknown token is not special here.

        Raises ValueError, in one line, for an id that the vocabulary lacks.
        """
        ids = [int(id) for id in ids]
        unknown, pieces = self.special("unk"), [self._piece(id) for id in ids]
        byte_level = any(piece.startswith("Ġ") for piece in pieces)
        special = self._all_special()
        tokens = []
        for id, token in zip(ids, tokens_of(pieces, self._side), strict=True):
            control = id in special and id != unknown
            decode = byte_level and not control
            text = self._tokenizer.decode([id]).strip() if decode else token.text
            text = token.piece if control else text
            token = replace(token, id=id, text=text, special=control, unknown=id == unknown)
            tokens.append(token)
        return tuple(tokens)

    def _piece(self, id: int) -> str:
        try:
            read = self._tokenizer.convert_ids_to_tokens
            piece = read([id])[0] if self._ids is None else self._pieces.get(id)
        except Exception:  # a tokenizer may raise anything for an id that it lacks
            piece = None
        unknown = getattr(self._tokenizer, "unk_token", None)
        stands_in = piece == unknown and self.special("unk") not in (None, id)
        if not isinstance(piece, str) or stands_in:
            raise ValueError(
                f"the tokenizer has no {self._side} token with id {id}: pass the tokenizer of this "
                "model, and source_tokenizer= if its sides have two"
            )
        return piece

    def _all_special(self) -> set[int]:
        if self._ids is None:
            return set(getattr(self._tokenizer, "all_special_ids", ()))
        names = getattr(self._tokenizer, "all_special_tokens", ())
        return {self._ids[name] for name in map(str, names) if name in self._ids}
