"""The app behind its guard: foreign hosts are refused, what visitors may take is bounded.

`make app` starts it. `streamlit run app/main.py` is the same app without the guard, for which a
proxy has to do the same: see the README of this folder.
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
from streamlit import config

from app.serving.guard import Guard
from app.serving.headers import FRAME_ANCESTORS, frame_ancestors, headers
from app.serving.limits import Limits, raise_descriptors
from app.serving.uploads import Uploads

try:
    LIMITS = Limits.of().fitting(raise_descriptors())
    ANCESTORS = frame_ancestors(os.environ.get(FRAME_ANCESTORS))
    if not config.get_option("server.allowedHosts"):
        raise ValueError("no hosts are allowed: start the app from the project's folder")
except ValueError as error:
    sys.exit(str(error))
HEADERS = headers(ANCESTORS)
UPLOADS = Uploads(LIMITS)
COOKIE = "server.xsrfCookieSameSite"
if any(site.startswith("https:") for site in ANCESTORS) and not config.is_manually_set(COOKIE):
    # An upload needs Streamlit's XSRF cookie: without this no browser sends it in others' frames.
    config.set_option(COOKIE, "none", FRAME_ANCESTORS)


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncGenerator[None]:
    """Free the uploads of ended visits while the server runs."""
    sweeping = asyncio.create_task(UPLOADS.sweeping())
    yield
    sweeping.cancel()


app = st.App(
    Path(__file__).with_name("main.py"),
    middleware=[Middleware(Guard, limits=LIMITS, headers=HEADERS, uploads=UPLOADS)],
    lifespan=lifespan,
)
