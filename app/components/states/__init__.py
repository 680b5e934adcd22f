"""Mounts the grids of states: copy one from a sentence's pass into another's, or push one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.components.mount import component

__all__ = ["states"]

_mount = component(__file__, "main.js", ".states")


def states(data: dict[str, Any], *, key: str, on_chosen: Callable[[], None]) -> None:
    """Show `CopyData` or `PushData` of types.js; the visitor's choice is the state `chosen`."""
    _mount(key=key, data=data, on_chosen_change=on_chosen)
