"""Allow-list and rate limit for client messages."""

from __future__ import annotations

import time
from collections.abc import Callable

from google.protobuf.message import DecodeError

from app.streamlit_internals import BackMsg

ALLOWED = {
    "rerun_script": "every interaction, and the first run of a page",
    "stop_script": "the Stop button; it ends the sender's own run",
    "file_urls_request": "requests an upload URL before uploading a record",
    "backend_operation_request": "only those in `OPERATIONS`",
}
"""The allowed kinds of BackMsg, and what the front end uses them for.

All others are dropped. `clear_cache` clears everyone's caches. `set_run_on_save` and
`load_git_info` belong to the developer menu, `debug_disconnect_websocket` and
`debug_shutdown_runtime` to Streamlit's tests. `app_heartbeat` is sent only on Streamlit's hosting
service; websocket pings already keep the connection open.
"""
OPERATIONS = {"deferred_file": "a download button whose file is created on demand"}
"""The allowed payloads of a backend operation.

All others are dropped: `install_skills` and `dismiss_skills_nudge` write to the home folder of the
server's user; `dataframe_chunk` serves tables over 150,000 rows, which the app does not have.
"""
FILE_NAMES = 8
"""Maximum file names per request for upload URLs: Streamlit creates a URL for each."""
BURST = 60
"""Messages that a connection may send at once before it is throttled."""
BYTES_PER_MESSAGE = 50_000
"""Larger messages count as several."""
FILE_COST = 10
"""The cost of a download, in messages: its file is created each time."""


class MalformedError(ValueError):
    """Raised for a frame that is not a BackMsg."""


def kind_of(frame: bytes) -> str | None:
    """Return the kind of an allowed message, or None to drop it. Raises MalformedError.

    The kind of a backend operation is the name of its payload, such as "deferred_file".
    If a frame sets several kinds, the last one counts, as in Streamlit, which uses the same parser.
    """
    message = BackMsg()
    try:
        message.ParseFromString(frame)
    except DecodeError:
        raise MalformedError(f"a frame of {len(frame)} bytes is not a message") from None
    kind = message.WhichOneof("type")
    if kind not in ALLOWED:
        return None
    if kind == "backend_operation_request":
        kind = message.backend_operation_request.WhichOneof("payload")
        return kind if kind in OPERATIONS else None
    if kind == "file_urls_request" and len(message.file_urls_request.file_names) > FILE_NAMES:
        return None
    return kind


def cost_of(kind: str | None, size: int) -> float:
    """Return the cost of a message of this kind and size in bytes, in messages."""
    return max(1.0, size / BYTES_PER_MESSAGE, FILE_COST if kind == "deferred_file" else 0)


class TokenBucket:
    """Limit one connection to `per_second` messages on average, and `BURST` at once."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._left = float(BURST)
        self._last = clock()

    def wait_s(self, cost: float) -> float:
        """Take `cost` tokens; return the seconds to wait before the message may pass."""
        now = self._clock()
        self._left = min(BURST, self._left + (now - self._last) * self._per_second)
        self._last = now
        self._left -= cost
        return max(0.0, -self._left / self._per_second)
