"""The app behind its security middleware: host checks, response headers and limits.

`make app` starts it. `streamlit run app/main.py` starts the same app without the middleware.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # streamlit puts only app/ on the path

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import streamlit as st
from starlette.middleware import Middleware

from app.serving.guard import Guard
from app.serving.headers import FRAME_ANCESTORS, frame_ancestors, headers
from app.serving.limits import Limits, raise_descriptors
from app.serving.uploads import Uploads
from app.streamlit_internals import set_default

try:
    LIMITS = Limits.from_environment().within(raise_descriptors())
    ANCESTORS = frame_ancestors(os.environ.get(FRAME_ANCESTORS))
    if not st.get_option("server.allowedHosts"):
        raise ValueError("server.allowedHosts is not set: start the app from the project's folder")
except ValueError as error:
    sys.exit(str(error))
HEADERS = headers(ANCESTORS)
UPLOADS = Uploads(LIMITS)
if any(site.startswith("https:") for site in ANCESTORS):
    # Uploads need the XSRF cookie, which browsers otherwise do not send from a third-party frame.
    set_default("server.xsrfCookieSameSite", "none", FRAME_ANCESTORS)


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncGenerator[None]:
    """Delete the uploads of ended sessions while the server runs."""
    sweeping = asyncio.create_task(UPLOADS.sweeping())
    yield
    sweeping.cancel()


app = st.App(
    Path(__file__).with_name("main.py"),
    middleware=[Middleware(Guard, limits=LIMITS, headers=HEADERS, uploads=UPLOADS)],
    lifespan=lifespan,
)
