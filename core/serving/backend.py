"""The Backend protocol: batches of frozen requests in, a result or an exception for each out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from core.config import DecodeConfig
from core.record.edits import Edits
from core.record.record import TranslationRecord

if TYPE_CHECKING:  # torch comes with it
    from core.translator import Translation

MAX_BATCH = 16
"""Sentences that are searched and fed together at most."""


@dataclass(frozen=True)
class TranslateRequest:
    """A text to be translated; equal requests have equal answers."""

    source: str
    decode: DecodeConfig = field(default=DecodeConfig())

    @property
    def shares(self) -> Hashable:
        """Requests for which this is equal can be answered in one batch; None: alone."""
        return self.decode


@dataclass(frozen=True)
class InspectRequest:
    """What `Translator.inspect` is asked; equal requests have equal answers."""

    source: str
    target: str | None = None
    edits: Edits = field(default=Edits())
    decode: DecodeConfig = field(default=DecodeConfig())
    target_ids: tuple[int, ...] | None = None
    activations: bool = False

    @property
    def shares(self) -> Hashable:
        """Requests for which this is equal can be answered in one batch; None: alone."""
        if self.edits != Edits() or self.target_ids is not None:
            return None
        return (None if self.target is not None else self.decode), self.activations


class Backend(Protocol):
    """One model, wherever it runs. It is called by one thread at a time.

    A batch holds at most `MAX_BATCH` requests, in any mixture; the answers stand in its order. What
    is wrong with one request is its own answer, an exception with one line for the reader (such as
    InputError, EditError); only what stops all of them, such as a lost machine, is raised.
    """

    def translate(self, batch: Sequence[TranslateRequest]) -> list[Translation | Exception]:
        """A translation of each text."""
        ...

    def inspect(self, batch: Sequence[InspectRequest]) -> list[TranslationRecord | Exception]:
        """A record of each sentence, with its checks.

        The tokens and hypotheses of a sentence are those that it has alone.
        """
        ...
