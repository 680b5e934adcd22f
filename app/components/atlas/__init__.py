"""Mounts the atlas of heads: a grid of all heads, a scatter plot, and one head in detail."""

from __future__ import annotations

from app.components.atlas.payload import Shown, payload
from app.components.explorer.payload import pack
from app.components.links import Link, opened_link
from app.components.mount import component
from core.atlas.atlas import Atlas

__all__ = ["Link", "Shown", "heads_atlas"]

_mount = component(__file__, "main.js", ".atlas")


def heads_atlas(atlas: Atlas, shown: Shown, *, key: str) -> Link | None:
    """Show an atlas; measures and heads are switched client-side, without a rerun.

    Returns the link to another page that the visitor has just opened, if any.
    """
    state = _mount(
        key=key,
        data=pack(payload(atlas, shown)),
        on_link_change=lambda: None,
    )
    return opened_link(state.link)
