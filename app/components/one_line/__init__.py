"""Mounts what makes one line of a text area: Enter is its button, and it grows with its text."""

from __future__ import annotations

from app.components.mount import component

__all__ = ["one_line"]

_mount = component(__file__, "one_line.js")


def one_line(box: str, *, key: str = "one_line") -> None:
    """Let the text area with the widget key `box` be one line, take Enter and hold no break."""
    _mount(key=key, data=box, width="content", height="content")
