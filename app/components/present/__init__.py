"""Mounts an invisible script: in presentation mode, keys press the buttons of the stops."""

from __future__ import annotations

from app.components.mount import component

__all__ = ["present"]

_mount = component(__file__, "present.js")


def present(*, back: list[str], onward: list[str], leave: str, key: str = "present_keys") -> None:
    """Let ← and Page Up press Back, → and Page Down press Next, and Escape leave.

    The arguments are widget keys of buttons. From a list, press the first button that is on the
    page.
    """
    data = {"back": back, "onward": onward, "leave": [leave]}
    _mount(key=key, data=data, width="content", height="content")
