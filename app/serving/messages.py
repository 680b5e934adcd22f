"""Which of a browser's messages reach Streamlit: those that a page needs, and not too many."""

from __future__ import annotations

import time
from collections.abc import Callable

from google.protobuf.message import DecodeError
from streamlit.proto.BackMsg_pb2 import BackMsg

ALLOWED = {
    "rerun_script": "every click, choice and typed text, and the first run of a page",
    "stop_script": "the button Stop, shown while a page runs; it ends the sender's own run",
    "file_urls_request": "the browser asks where to send a record before it uploads one",
    "backend_operation_request": "only as `OPERATIONS` says",
}
"""The kinds of BackMsg that are let in, and what the front end sends each for.

All others are dropped: `clear_cache` empties the caches of everybody; `set_run_on_save` and
`load_git_info` belong to the menus of a developer; `debug_disconnect_websocket` and
`debug_shutdown_runtime` to Streamlit's own tests; `app_heartbeat` is sent only when Streamlit's
hosting service asks the page for one, and websocket pings already keep the connection open.
"""
OPERATIONS = {"deferred_file": "a download button, whose file is made when it is pressed"}
"""The payloads of a backend operation that are let in.

All others are dropped: `install_skills` and `dismiss_skills_nudge` write into the home of whoever
runs the server; `dataframe_chunk` serves tables beyond 150,000 rows, of which the app has none.
"""
FILE_NAMES = 8
"""Names in one request for upload addresses: Streamlit makes an address for each."""
BURST = 60
"""Messages that a connection may send at once before they are slowed down."""
BYTES_A_MESSAGE = 50_000
"""A larger message counts as several."""
FILE_COST = 10
"""As many messages a download counts: its file is made anew each time."""


class MalformedError(ValueError):
    """A frame that is no BackMsg."""


def kind_of(frame: bytes) -> str | None:
    """The kind of a message that is let in, or None if it is to be dropped. Raises MalformedError.

    Two fields of one frame are one message, the last one, as in Streamlit, which reads the frame
    with the same parser.
    """
    message = BackMsg()
    try:
        message.ParseFromString(frame)
    except DecodeError:
        raise MalformedError(f"a frame of {len(frame)} bytes is no message") from None
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
    """As how many messages one of a kind and size in bytes counts."""
    return max(1.0, size / BYTES_A_MESSAGE, FILE_COST if kind == "deferred_file" else 0)


class Pace:
    """A token bucket for one connection: `per_second` on average, `BURST` at once."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._left = float(BURST)
        self._last = clock()

    def wait_s(self, cost: float) -> float:
        """Seconds to wait before a message of this cost is handed on, which is then paid."""
        now = self._clock()
        self._left = min(BURST, self._left + (now - self._last) * self._per_second)
        self._last = now
        self._left -= cost
        return max(0.0, -self._left / self._per_second)
