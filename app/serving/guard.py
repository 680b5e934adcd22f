"""The ASGI middleware: reject foreign hosts and origins, enforce limits, add headers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

from app.serving import uploads
from app.serving.connections import OpenCounter, address_of, notice
from app.serving.limits import Limits
from app.serving.uploads import UploadRefusedError, Uploads
from app.serving.websocket import GuardedWebsocket
from app.streamlit_internals import is_host_allowed

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CLOSED = "/_stcore/metrics"  # do not expose session counts or memory statistics
HEALTH = "/_stcore/health"
POLICY_VIOLATION = 1008
TRY_AGAIN_LATER = 1013


class Guard:
    """ASGI middleware around Streamlit.

    Without it, Streamlit checks only the host of websockets and limits neither connections nor
    uploads. When a foreign page opens a websocket, Streamlit even asks an external service for this
    machine's address.
    """

    def __init__(
        self, app: ASGIApp, limits: Limits, headers: Mapping[str, str], uploads: Uploads
    ) -> None:
        self.app = app
        self._limits = limits
        self._headers = headers
        self._uploads = uploads
        self._pages = OpenCounter("pages", limits.connections, limits.connections_per_address)
        # A browser fetches several files at once; each request may hold a descriptor or two.
        self._requests = OpenCounter("requests", 2 * limits.connections, limits.connections)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        path = scope["path"].rstrip("/")
        if not is_host_allowed(headers.get("host")) or self._foreign(headers):
            await self._refuse(scope, receive, send, 403, "this host is not served here")
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif path.endswith(CLOSED):
            await PlainTextResponse("not found", 404)(scope, receive, send)
        elif path.endswith(HEALTH):  # answered even when all limits are reached
            await self.app(scope, receive, self._with_headers(send))
        else:
            await self._request(scope, receive, self._with_headers(send), headers)

    @staticmethod
    def _foreign(headers: Headers) -> bool:
        """Whether the Origin header names an origin other than the app's."""
        origin = headers.get("origin")
        if origin is None or origin in st.get_option("server.corsAllowedOrigins"):
            return False
        return urlsplit(origin).netloc != headers.get("host")

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = address_of(scope)
        if reason := self._pages.refusal(address):
            notice("full", f"refused a page to {address}: {reason}")
            await self._refuse(scope, receive, send, 503, reason)
            return
        with self._pages.one_more(address):
            websocket = GuardedWebsocket(receive, send, self._limits)
            await self.app(scope, websocket.receive, websocket.send)

    async def _request(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        address = address_of(scope)
        reason = self._requests.refusal(address)
        if reason is None and scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            reason = self._pages.refusal(address)  # show the reason instead of a dead page
        if reason:
            notice("full", f"refused a request of {address}: {reason}")
            await self._refuse(scope, receive, send, 503, reason)
            return
        with self._requests.one_more(address):
            if scope["method"] == "PUT" and uploads.PATH in scope["path"]:
                await self._upload(scope, receive, send, address)
            else:
                await self.app(scope, receive, send)

    async def _upload(self, scope: Scope, receive: Receive, send: Send, address: str) -> None:
        header = Headers(scope=scope).get("content-length", "")
        length = int(header) if header.isascii() and header.isdigit() else None
        try:
            with self._uploads.admitted(scope["path"], length, address):
                async with asyncio.timeout(self._limits.upload_s):
                    await self.app(scope, receive, send)
        except UploadRefusedError as refused:
            notice("upload", f"refused an upload of {address}: {refused}")
            await self._refuse(scope, receive, send, refused.status, str(refused))
        except TimeoutError:
            reason = f"the upload took longer than {self._limits.upload_s} s, the limit"
            await self._refuse(scope, receive, send, 408, reason)

    @staticmethod
    async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, reason: str) -> None:
        """Respond with a status and a one-line reason; refuse a websocket before it opens."""
        if scope["type"] == "websocket":
            if status == 403:
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
                return
            if "websocket.http.response" not in scope.get("extensions", {}):
                await send(
                    {"type": "websocket.close", "code": TRY_AGAIN_LATER, "reason": reason[:120]}
                )
                return
        later = {"Retry-After": "60"} if status in (429, 503) else None
        await PlainTextResponse(reason, status, headers=later)(scope, receive, send)

    def _with_headers(self, send: Send) -> Send:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        return sent
