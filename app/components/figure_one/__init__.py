"""Mounts the paper's figure 1 for one network: blocks link to pages, and those shown are filled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.components.links import Link, opened_link
from app.components.mount import component

__all__ = ["Link", "figure_one"]

_mount = component(__file__, "main.js", ".figure-one")


def figure_one(drawing: Mapping[str, Any], *, key: str, follow: str = "") -> Link | None:
    """Show what `draw` laid out; return the link that the visitor has just opened, if any.

    `follow` is the widget key of an explorer. The figure highlights the kind of attention that this
    explorer shows; it reads the kind in the browser, because Python never receives it.
    """
    state = _mount(
        key=key,
        data={**drawing, "follow": follow},
        on_link_change=lambda: None,
    )
    return opened_link(state.link)
