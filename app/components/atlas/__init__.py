"""Mounts the atlas of heads: every head at its place, a scatter plot, and one head in detail."""

from __future__ import annotations

from urllib.parse import parse_qsl

from app.components.atlas.payload import Shown, payload
from app.components.explorer.payload import pack
from app.components.mount import component
from core.atlas.atlas import Atlas

__all__ = ["Shown", "heads_atlas"]

_mount = component(__file__, "main.js", ".atlas")


def heads_atlas(atlas: Atlas, shown: Shown, *, key: str) -> dict[str, str] | None:
    """Show an atlas; measures and heads are switched client-side, without a rerun.

    Returns the query parameters for the first page if the visitor has just opened a quoted
    sentence there, else None.
    """
    state = _mount(
        key=key,
        data=pack(payload(atlas, shown)),
        width="stretch",
        height="content",
        on_sentence_change=lambda: None,
    )
    return dict(parse_qsl(state.sentence, keep_blank_values=True)) if state.sentence else None
