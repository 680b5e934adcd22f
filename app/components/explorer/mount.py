"""Mounts the attention explorer: both sentences, every head's map, a readout."""

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

    `payload` comes from `app.components.explorer.payload.payload`. Switching and hovering are
    client-side. Data that the payload lacks is requested through the component's state (`quantity`,
    `exact`, `page`, `effects`), which `answers.answered` reads. `on_edit` is called before the
    rerun when "What if" has triggered an `edit`.
    Returns the URL's query if the link into the shown head was just clicked, else None.
    """
    state = _mount(
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
    return state.inside
