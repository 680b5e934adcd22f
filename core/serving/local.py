"""The Backend over a Translator of this process: requests that can share a batch are put in one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from core.record.record import TranslationRecord
from core.serving.backend import InspectRequest, TranslateRequest
from core.translator import Translation, Translator

Request = TypeVar("Request", TranslateRequest, InspectRequest)
T = TypeVar("T")


class LocalBackend:
    """Answers by a Translator, which holds its lock for each batch."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator

    def translate(self, batch: Sequence[TranslateRequest]) -> list[Translation | Exception]:
        """A translation of each text, or what is wrong with it."""
        return _answers(batch, self._translated)

    def inspect(self, batch: Sequence[InspectRequest]) -> list[TranslationRecord | Exception]:
        """A record of each sentence, or what is wrong with it."""
        return _answers(batch, self._inspected)

    def _translated(self, batch: Sequence[TranslateRequest]) -> list[Translation]:
        return self._translator.translate([one.source for one in batch], batch[0].decode)

    def _inspected(self, batch: Sequence[InspectRequest]) -> list[TranslationRecord]:
        first = batch[0]
        if len(batch) == 1:
            return [
                self._translator.inspect(
                    first.source,
                    first.target,
                    first.edits,
                    decode=first.decode,
                    target_ids=first.target_ids,
                    activations=first.activations,
                )
            ]
        targets = None if first.target is None else [one.target or "" for one in batch]
        return self._translator.inspect_many(
            [one.source for one in batch],
            targets,
            decode=first.decode,
            activations=first.activations,
        )


def _answers(
    batch: Sequence[Request], call: Callable[[Sequence[Request]], list[T]]
) -> list[T | Exception]:
    """The answers to a batch, its requests put together as far as they can be."""
    groups: dict[Hashable, list[int]] = {}
    for i, one in enumerate(batch):
        groups.setdefault((one.shares, i if one.shares is None else None), []).append(i)
    found: dict[int, T | Exception] = {}
    for places in groups.values():
        together = [batch[i] for i in places]
        found |= zip(places, _together(together, call), strict=True)
    return [found[i] for i in range(len(batch))]


def _together(
    batch: Sequence[Request], call: Callable[[Sequence[Request]], list[T]]
) -> list[T | Exception]:
    """The answers to requests that share a batch; where it fails, each is answered by itself.

    So one that is refused, or one that needs more memory than there is, costs the others time only.
    """
    try:
        return [*call(batch)]
    except Exception as error:
        if len(batch) == 1:
            return [error]
    return [answer for one in batch for answer in _together([one], call)]
