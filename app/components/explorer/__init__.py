"""Mounts the attention explorer: two sentences, every head's map, one line of words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from app.components.explorer.payload import pack

__all__ = ["explorer"]

_HERE = Path(__file__).parent
_SCRIPTS = (
    "colour.js",
    "tokens.js",
    "data.js",
    "focus.js",
    "sentences.js",
    "badge.js",
    "readout.js",
    "overview.js",
    "geometry.js",
    "map.js",
    "address.js",
    "keyboard.js",
    "main.js",
)
"""The files share one scope, in this order: Streamlit takes a single module, one default export."""


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


_mount = st.components.v2.component(
    "explorer",
    html=_read("explorer.html"),
    css=_read("explorer.css"),
    js="\n".join(_read(name) for name in _SCRIPTS),
)


def explorer(payload: dict[str, Any], *, key: str = "explorer") -> None:
    """Show the explorer for one translation.

    `payload` comes from `app.components.explorer.payload.payload`. Switching kinds, layers and
    heads and pointing at things happen in the browser alone: nothing comes back, and no script run
    is caused.
    """
    _mount(key=key, data=pack(payload), width="stretch", height="content")
