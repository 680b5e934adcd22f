"""Mounts a script that makes a text area hold one line: Enter applies it, the box grows with it."""

from __future__ import annotations

from app.components.mount import component

__all__ = ["one_line"]

_mount = component(__file__, "one_line.js")


def one_line(box: str, *, key: str = "one_line") -> None:
    """Make the text area with widget key `box` hold one line: Enter applies it.

    On a phone, choosing an example then closes the sidebar.
    """
    _mount(key=key, data=box, width="content", height="content")
