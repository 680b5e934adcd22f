"""Push a state towards a word and translate again, with a random push beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from core.config import DecodeConfig
from core.kinds import Side
from core.record.edits import Edits, Push, RandomPush
from core.record.parts import RecordToken
from core.record.record import TranslationRecord
from core.text.tokenizer import UNK

if TYPE_CHECKING:
    from pandas import DataFrame


class Inspector(Protocol):
    """The part of a Translator that steering uses."""

    def tokens(self, text: str, side: str) -> tuple[RecordToken, ...]: ...
    def inspect(self, source: str, *, edits: Edits, decode: DecodeConfig) -> TranslationRecord: ...


@dataclass(frozen=True)
class Steered:
    """Records of a sentence: as it was, pushed towards a word, and pushed at random as far."""

    plain: TranslationRecord
    pushed: TranslationRecord
    random: TranslationRecord

    def to_dataframe(self) -> DataFrame:
        """Return the three translations with their log-probabilities in nats and their edits."""
        from pandas import DataFrame

        rows = [
            (name, record.translation, record.log_prob, record.edits.to_text())
            for name, record in vars(self).items()
        ]
        return DataFrame(rows, columns=["which", "translation", "log_prob", "edits"])


def steer(
    translator: Inspector,
    record: TranslationRecord,
    position: int,
    new: str | int,
    old: str | int | None = None,
    *,
    layer: int,
    strength: float,
    side: Side = "encoder",
    seed: int = 0,
) -> Steered:
    """Push the state of one token towards a word of the target, away from `old`; translate again.

    `new` and `old` are words of one target token, or its id; `layer` 0 is the embeddings.
    `strength` is the length of the push, see `core.record.state_edits.Push`; `seed` fixes the
    random direction. The search has the record's settings, or the default ones if its target was
    given. Edits of the record stay. Raises EditError without a lens, and for a position, layer or
    token that does not exist; ValueError for a word of several tokens.
    """
    new_id, old_id = target_id(translator, new), None if old is None else target_id(translator, old)
    pushes = (
        Push(side, layer, position, old_id, new_id, strength),
        RandomPush(side, layer, position, seed, strength),
    )
    decode = record.decode or DecodeConfig()
    pushed, random = (
        translator.inspect(
            record.source_text, edits=record.edits.plus(Edits(pushes=(one,))), decode=decode
        )
        for one in pushes
    )
    return Steered(record, pushed, random)


def target_id(translator: Inspector, word: str | int) -> int:
    """Return the id of a word that is one token of the target. Raises ValueError for others."""
    if isinstance(word, int):
        return word
    *tokens, _ = translator.tokens(word, "target")
    if len(tokens) != 1:
        parts = " ".join(token.text for token in tokens[:20])
        raise ValueError(
            f"{word[:40]!r} is {len(tokens)} tokens ({parts}): choose a word of one token"
            if tokens
            else "there is no word to push towards: type one"
        )
    if tokens[0].id == UNK:
        raise ValueError(f"{word[:40]!r} is unknown to the network: choose another word")
    return tokens[0].id
