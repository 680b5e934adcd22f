"""The app behind a guard of its own: foreign hosts are refused, headers say what a page may do.

`make app` starts it. `streamlit run app/main.py` is the same app without the guard, for which a
proxy has to do the same: see the README of this folder.
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from streamlit import config
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


def inline_scripts() -> str:
    """The scripts that stand in Streamlit's own page, each by its hash: no other one may run."""
    page = Path(st.__file__).with_name("static") / "index.html"
    texts = re.findall(r"<script>(.*?)</script>", page.read_text(encoding="utf-8"), re.DOTALL)
    hashes = (b64encode(sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in hashes)


# A component's script reaches the browser as a text that is imported from a blob; its style and
# Streamlit's own are inline. Nothing is fetched from elsewhere, and nothing is sent there.
POLICY = "; ".join(
    [
        "default-src 'self'",
        f"script-src 'self' blob: {inline_scripts()}",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "media-src 'self' blob:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",  # a page's address holds the sentence
}
CLOSED = "/_stcore/metrics"  # how many visitors there are, and what they keep, is nobody's business


class Guard:
    """Refuses requests that name another host or come from another's page; adds the headers.

    Streamlit itself checks the host of a socket only, and asks a service outside for this machine's
    address when a socket is opened from a foreign page.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not is_host_allowed(headers.get("host")) or self._foreign(headers):
            await self._refuse(scope, receive, send)
        elif scope["path"].rstrip("/").endswith(CLOSED):
            await PlainTextResponse("not found", 404)(scope, receive, send)
        else:
            await self.app(scope, receive, self._with_headers(send))

    @staticmethod
    def _foreign(headers: Headers) -> bool:
        """Whether a browser says that a page of another origin has made the request."""
        origin = headers.get("origin")
        if origin is None or origin in config.get_option("server.corsAllowedOrigins"):
            return False
        return urlsplit(origin).netloc != headers.get("host")

    @staticmethod
    async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await PlainTextResponse("this host is not served here", 403)(scope, receive, send)

    @staticmethod
    def _with_headers(send: Send) -> Send:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        return sent


app = st.App(Path(__file__).with_name("main.py"), middleware=[Middleware(Guard)])
