"""Mounts the test: questions answered by pointing, scored and kept in the browser only."""

from __future__ import annotations

from typing import Any

from app.components.mount import component

__all__ = ["quiz"]

_mount = component(__file__, "main.js", ".quiz")


def quiz(data: dict[str, Any], *, key: str) -> None:
    """Show the test; its script sends nothing back, so there is no result.

    `data` is what `app.views.quiz.items.payload` returns.
    """
    _mount(key=key, data=data, width="stretch", height="content")
