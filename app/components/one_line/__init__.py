"""Mounts a script that keeps a text area on one line: Enter applies the text, and the box grows."""

from __future__ import annotations

from app.components.mount import component

__all__ = ["one_line"]

_mount = component(__file__, "one_line.js")


def one_line(box: str, *, key: str = "one_line") -> None:
    """Keep the text area with widget key `box` on one line: Enter applies its text."""
    _mount(key=key, data=box, width="content", height="content")
