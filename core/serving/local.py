"""The Backend for a Translator in this process, and the choice between it and a remote one."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from core.record.record import TranslationRecord
from core.serving.backend import SETTING, Backend, InspectRequest, TranslateRequest
from core.translator import Translation, Translator

Request = TypeVar("Request", TranslateRequest, InspectRequest)
T = TypeVar("T")


class LocalBackend:
    """Answers requests with a Translator, which is locked during each batch."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator

    def translate(self, batch: Sequence[TranslateRequest]) -> list[Translation | Exception]:
        """Translate each text; an invalid one gets an exception."""
        return _answers(batch, self._translated)

    def inspect(self, batch: Sequence[InspectRequest]) -> list[TranslationRecord | Exception]:
        """Return a record of each sentence; an invalid one gets an exception."""
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


def backend_of(translator: Translator) -> Backend:
    """Return the backend of a loaded model: remote if an address is set, otherwise local.

    The remote copy translates between the network's own languages only.
    """
    address = os.environ.get(SETTING)
    if address and not translator.card.listed:
        from core.serving.remote import RemoteBackend

        return RemoteBackend(address, translator.card)
    return LocalBackend(translator)


def _answers(
    batch: Sequence[Request], call: Callable[[Sequence[Request]], list[T]]
) -> list[T | Exception]:
    """Answer the requests in as few calls as possible; return the answers in request order."""
    groups: dict[Hashable, list[int]] = {}
    for i, one in enumerate(batch):
        groups.setdefault((one.batch_key, i if one.batch_key is None else None), []).append(i)
    answers: dict[int, T | Exception] = {}
    for indices in groups.values():
        answers |= zip(indices, _call_batch([batch[i] for i in indices], call), strict=True)
    return [answers[i] for i in range(len(batch))]


def _call_batch(
    batch: Sequence[Request], call: Callable[[Sequence[Request]], list[T]]
) -> list[T | Exception]:
    """Answer requests that share a batch; if that fails, answer each alone.

    So a request that is invalid or needs too much memory costs the other requests only time.
    """
    try:
        return [*call(batch)]
    except Exception as error:
        if len(batch) == 1:
            return [error]
    return [answer for one in batch for answer in _call_batch([one], call)]
