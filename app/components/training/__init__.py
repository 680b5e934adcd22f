"""Mounts the training page: an explorer of one sentence, moved through the points of training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.components.assets import palette, read
from app.components.explorer.markup import markup
from app.components.explorer.payload import pack
from app.components.mount import mounting

__all__ = ["training"]

_HERE = Path(__file__).parent
_FILES = markup(_HERE / "main.js")
_mount = mounting(
    "training",
    html=read(_HERE / "training.html").replace("{{explorer}}", _FILES.html, 1),
    css="\n".join([_FILES.css, palette(".training"), read(_HERE / "training.css")]),
    script=_FILES.script,
    entry="renderTraining",
)


def training(payload: dict[str, Any], *, key: str) -> None:
    """Show the snapshots of a run. All points are sent once; the browser moves between them."""
    _mount(key=key, data=pack(payload))
