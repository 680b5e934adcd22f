"""Extend uvicorn's protocol class: close silent HTTP connections, limit connections per peer."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.serving.connections import PROXIES, notice
from app.serving.limits import Limits, raise_descriptors
from app.streamlit_internals import max_client_message_bytes, set_uvicorn_options

if TYPE_CHECKING:
    from asyncio import Transport


TOO_LONG = 431
"""The status that h11 suggests for a request line or header over its limit, 64 KB."""
TOO_LONG_LINE = (
    b"This link is too long for the server: open the page without what follows the question mark. "
    b"Links made here have at most 2,000 characters."
)
LINGER_S = 2.0
"""Seconds in which the rest of a refused request is read and dropped."""


class BoundedProtocol(H11Protocol):
    """Close a connection that sends no complete request for `silent_s` seconds.

    One peer may hold `max_per_peer` connections, unless it is a listed proxy. Websockets are
    counted until accepted; from then on, `app.serving.connections` counts them.
    """

    silent_s: ClassVar[float] = Limits.silent_s
    max_per_peer: ClassVar[int] = 2 * Limits.connections
    peers: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: Transport) -> None:
        super().connection_made(transport)
        self._peer = self.client[0] if self.client else ""
        self._last_cycle: Any = None
        self._refused = False
        self.peers[self._peer] += 1
        proxies = [name.strip() for name in os.environ.get(PROXIES, "").split(",")]
        if self.peers[self._peer] > self.max_per_peer and not {self._peer, "*"} & {*proxies}:
            notice("peer", f"closed a connection of {self._peer}, which has {self.max_per_peer}")
            transport.abort()
            return
        self.loop.call_later(self.silent_s, self._check)

    def _check(self) -> None:
        """Close the connection if it has had no request since the last check and has none now."""
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return  # closed, or upgraded to a websocket
        if self.cycle is self._last_cycle and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()
            return
        self._last_cycle = self.cycle
        self.loop.call_later(self.silent_s, self._check)

    def send_400_response(self, msg: str) -> None:
        """Refuse a request; answer one with an over-long link or header by a line to read."""
        error = sys.exc_info()[1]  # uvicorn passes no reason
        if not isinstance(error, h11.RemoteProtocolError) or error.error_status_hint != TOO_LONG:
            super().send_400_response(msg)
            return
        headers = [
            ("content-type", "text/plain; charset=utf-8"),
            ("content-length", str(len(TOO_LONG_LINE))),
            ("connection", "close"),
        ]
        response = h11.Response(status_code=TOO_LONG, headers=headers)
        for event in (response, h11.Data(TOO_LONG_LINE), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        # A connection that is closed while the browser sends is reset, and its page stays blank.
        self._refused = True
        self.loop.call_later(LINGER_S, self.transport.close)

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            super().data_received(data)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._release()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._release()
        super().connection_lost(exc)

    def _release(self) -> None:
        """Stop counting this connection."""
        self.peers[self._peer] -= 1
        if self.peers[self._peer] <= 0:
            del self.peers[self._peer]


def limit_connections() -> None:
    """Make Streamlit start uvicorn with this protocol and a limit on the size of client messages.

    Streamlit's own message limit applies in both directions: with it, uvicorn would read 20 MB of
    each connection before the app could reject the message. Raises ValueError for an invalid limit.
    """
    limits = Limits.from_environment().within(raise_descriptors())
    BoundedProtocol.silent_s = limits.silent_s
    BoundedProtocol.max_per_peer = 2 * limits.connections
    # One more byte, so that the app itself can still report that a message is too large.
    set_uvicorn_options(
        lambda: {"http": BoundedProtocol, "ws_max_size": max_client_message_bytes() + 1}
    )
