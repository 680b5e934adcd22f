"""Filter, throttle and time out the messages of one websocket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.serving.connections import notice
from app.serving.limits import Limits
from app.serving.messages import MalformedError, TokenBucket, cost_of, kind_of
from app.streamlit_internals import max_client_message_bytes

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Send

PROTOCOL_ERROR, NOT_BINARY, POLICY, TOO_LARGE = 1002, 1003, 1008, 1009


class GuardedWebsocket:
    """The `receive` and `send` callables that Streamlit gets for one websocket."""

    def __init__(self, receive: Receive, send: Send, limits: Limits) -> None:
        self._receive = receive
        self._send = send
        self._limits = limits
        self._bucket = TokenBucket(limits.messages_per_s)
        self._deadline = asyncio.get_running_loop().time() + limits.idle_s
        self._ran = False  # whether a page was ever run
        self._closed = False

    async def receive(self) -> Message:
        """Return the next allowed message, or a disconnect message."""
        while not self._closed:
            try:
                async with asyncio.timeout_at(None if self._ran else self._deadline):
                    message = await self._receive()
            except TimeoutError:
                notice("idle", f"closed a connection that ran no page in {self._limits.idle_s} s")
                return await self._close(POLICY, "no page was requested")
            if message["type"] != "websocket.receive":
                return message
            frame = message.get("bytes")
            if frame is None:
                return await self._close(NOT_BINARY, "text")
            if len(frame) > max_client_message_bytes():
                return await self._close(TOO_LARGE, "too large")
            try:
                kind = kind_of(frame)
            except MalformedError:
                return await self._close(PROTOCOL_ERROR, "not a message")
            if wait_s := self._bucket.wait_s(cost_of(kind, len(frame))):
                await asyncio.sleep(wait_s)
            if kind is not None:
                self._ran = self._ran or kind == "rerun_script"
                return message
            notice("dropped", "dropped a message of a kind that no page sends")
        return {"type": "websocket.disconnect", "code": POLICY}

    async def send(self, message: Message) -> None:
        """Send a message unless this class has closed the connection."""
        if not self._closed:
            await self._send(message)

    async def _close(self, code: int, reason: str) -> Message:
        self._closed = True
        await self._send({"type": "websocket.close", "code": code, "reason": reason})
        return {"type": "websocket.disconnect", "code": code}
