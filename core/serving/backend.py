"""The Backend protocol: maps a batch of frozen requests to results or exceptions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from core.config import DecodeConfig
from core.record.edits import Edits
from core.record.record import TranslationRecord

if TYPE_CHECKING:  # imports torch
    from core.translator import Translation

SETTING = "HEADLIGHT_BACKEND"
"""The environment variable with the address of a server, such as http://127.0.0.1:8000."""
MAX_BATCH = 16
"""Maximum number of requests in a batch."""


@dataclass(frozen=True)
class TranslateRequest:
    """A request to translate a text; equal requests have equal answers."""

    source: str
    decode: DecodeConfig = field(default=DecodeConfig())

    @property
    def batch_key(self) -> Hashable:
        """Requests with equal keys can share a batch; a request with the key None cannot."""
        return self.decode


@dataclass(frozen=True)
class InspectRequest:
    """The arguments of `Translator.inspect`; equal requests have equal answers."""

    source: str
    target: str | None = None
    edits: Edits = field(default=Edits())
    decode: DecodeConfig = field(default=DecodeConfig())
    target_ids: tuple[int, ...] | None = None
    activations: bool = False

    @property
    def batch_key(self) -> Hashable:
        """Requests with equal keys can share a batch; a request with the key None cannot."""
        if self.edits != Edits() or self.target_ids is not None:
            return None
        return (None if self.target is not None else self.decode), self.activations


class Backend(Protocol):
    """A local or remote model. Only one thread may call it at a time.

    A batch holds at most `MAX_BATCH` requests, in any mixture; answers have the same order. An
    invalid request is answered with an exception whose message is one line for the user, such as
    InputError. Only failures of the whole batch, such as a lost machine, are raised.
    """

    def translate(self, batch: Sequence[TranslateRequest]) -> list[Translation | Exception]:
        """Translate each text."""
        ...

    def inspect(self, batch: Sequence[InspectRequest]) -> list[TranslationRecord | Exception]:
        """Return a record with checks for each sentence; its tokens do not depend on the batch."""
        ...
