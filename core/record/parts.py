"""Tokens, hypotheses and checks of a record, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from core.typed import AnyFloat


@dataclass(frozen=True, slots=True)
class RecordToken:
    """One token: id, vocabulary entry (`piece`) and displayed text; see core.text.tokenizer."""

    id: int
    piece: str
    text: str
    starts_word: bool
    special: bool
    unknown: bool


@dataclass(frozen=True, slots=True)
class RecordHypothesis:
    """One finished hypothesis; `log_prob` is in nats, `score` divides it by the length penalty."""

    text: str
    ids: tuple[int, ...]
    log_prob: float
    score: float


@dataclass(frozen=True, slots=True)
class RecordCheck:
    """One check of a record, computed independently of the model.

    `figure` is the largest error or the number of violations; `words` explain the check.
    """

    name: str
    passed: bool
    figure: AnyFloat
    limit: AnyFloat
    words: str

    def __post_init__(self) -> None:
        if self.passed != (self.figure <= self.limit):
            raise ValueError(
                f"{self.name}: {self.figure} with a limit of {self.limit} contradicts "
                f"passed={self.passed}"
            )
