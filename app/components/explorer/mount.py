"""Mounts the attention explorer: two sentences, every head's map, one line of words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.components.explorer.markup import markup
from app.components.explorer.payload import pack
from app.components.mount import mounting

_FILES = markup()
_mount = mounting("explorer", html=_FILES.html, css=_FILES.css, script=_FILES.script)


def explorer(
    payload: dict[str, Any],
    *,
    key: str = "explorer",
    on_edit: Callable[[], None] = lambda: None,
) -> str | None:
    """Show the explorer for one translation.

    `payload` comes from `app.components.explorer.payload.payload`. Switching kinds, layers, heads
    and views and pointing at things happen in the browser alone. What the payload does not hold is
    asked for in the component's state, which `answers.answered` reads: `quantity`, `exact`, `page`,
    `effects`. `on_edit` is called, before the page runs again, when "What if" has put its `edit`
    there, which is there once.
    Returns the address's query if the way inside the shown head was just clicked, else None.
    """
    told = _mount(
        key=key,
        data=pack(payload),
        width="stretch",
        height="content",
        on_quantity_change=lambda: None,
        on_exact_change=lambda: None,
        on_page_change=lambda: None,
        on_effects_change=lambda: None,
        on_inside_change=lambda: None,
        on_edit_change=on_edit,
    )
    return told.inside
