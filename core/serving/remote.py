"""The Backend for models behind an HTTP address, such as Ray Serve's.

The client's process needs no Ray and survives the loss of the server.
"""

from __future__ import annotations

import http.client
import urllib.request
from collections.abc import Sequence
from typing import Any

from core.checkpoint.folder import Card
from core.record.record import TranslationRecord
from core.serving.backend import SETTING, InspectRequest, TranslateRequest
from core.serving.queue import UnansweredError
from core.serving.wire import from_bytes, to_bytes
from core.translator import Translation

TIMEOUT_S = 15.0
"""Timeout of a batch in seconds; shorter than the queue's deadline."""
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class LostError(UnansweredError):
    """The server with the models does not answer; the message is one line for the user."""


class RemoteBackend:
    """Sends each batch to the server at an address as one HTTP request."""

    def __init__(self, address: str, card: Card, timeout_s: float = TIMEOUT_S) -> None:
        self._address = address
        self._model = card.folder.name, card.config_sha256, card.architecture
        self._timeout_s = timeout_s

    def translate(self, batch: Sequence[TranslateRequest]) -> list[Translation | Exception]:
        """Translate each text. Raises LostError and CheckpointError."""
        return self._request(batch)

    def inspect(self, batch: Sequence[InspectRequest]) -> list[TranslationRecord | Exception]:
        """Return a record with checks for each sentence. Raises LostError and CheckpointError."""
        return self._request(batch)

    def _request(self, batch: Sequence[Any]) -> list[Any]:
        content = to_bytes([self._model, list(batch)])
        try:
            request = urllib.request.Request(self._address, content)
            with _DIRECT.open(request, timeout=self._timeout_s) as response:
                answer = from_bytes(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise LostError(
                f"the server at {SETTING} does not answer ({str(reason)[:100] or 'no reason'}): "
                "try again in a minute"
            ) from None
        if isinstance(answer, Exception):
            raise answer
        return list(answer)
