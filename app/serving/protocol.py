"""uvicorn's HTTP connections, bounded below the app: nobody holds one open without a request."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from streamlit.runtime.runtime_util import get_max_widget_state_size_bytes
from streamlit.web.server.starlette import starlette_server
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.serving.connections import PROXIES, notice
from app.serving.limits import Limits, raise_descriptors

if TYPE_CHECKING:
    from asyncio import Transport


class BoundedProtocol(H11Protocol):
    """Closes a connection that sends no complete request for `silent_s` seconds.

    One peer holds `most_per_peer` connections, unless it is a proxy that is named. A websocket
    counts only until it is accepted; `app.serving.connections` counts it from there.
    """

    silent_s: ClassVar[float] = Limits.silent_s
    most_per_peer: ClassVar[int] = 2 * Limits.connections
    peers: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: Transport) -> None:
        super().connection_made(transport)
        self._peer = self.client[0] if self.client else ""
        self._seen: Any = None
        self.peers[self._peer] += 1
        named = [name.strip() for name in os.environ.get(PROXIES, "").split(",")]
        if self.peers[self._peer] > self.most_per_peer and not {self._peer, "*"} & {*named}:
            notice("peer", f"closed a connection of {self._peer}, which has {self.most_per_peer}")
            transport.abort()
            return
        self.loop.call_later(self.silent_s, self._look)

    def _look(self) -> None:
        """Close the connection if it had no request since the last look and has none now."""
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return  # gone, or a websocket by now
        if self.cycle is self._seen and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()
            return
        self._seen = self.cycle
        self.loop.call_later(self.silent_s, self._look)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._gone()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()
        super().connection_lost(exc)

    def _gone(self) -> None:
        """Count this connection no more; its timer finds nothing to do."""
        self.peers[self._peer] -= 1
        if self.peers[self._peer] <= 0:
            del self.peers[self._peer]


def bound() -> None:
    """Have Streamlit start uvicorn with these connections and a limit on what is read of a message.

    Streamlit has no option for either. Its own limit of a message is for both directions: 20 MB
    would be read of each connection before the app could refuse them.
    """
    limits = Limits.of().fitting(raise_descriptors())
    BoundedProtocol.silent_s = limits.silent_s
    BoundedProtocol.most_per_peer = 2 * limits.connections
    usual = starlette_server._get_uvicorn_config_kwargs

    def bounded() -> dict[str, Any]:
        # One byte more, so that the app itself still says that a message is too large.
        largest = get_max_widget_state_size_bytes() + 1
        return usual() | {"http": BoundedProtocol, "ws_max_size": largest}

    starlette_server._get_uvicorn_config_kwargs = bounded  # ty: ignore[invalid-assignment]
