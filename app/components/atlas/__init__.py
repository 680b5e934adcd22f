"""Mounts the atlas of heads: every head at its place, a scatter plot, and one head in detail."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl

from app.components.atlas.payload import Shown, payload
from app.components.explorer.payload import pack
from app.components.mount import component
from core.atlas.atlas import Atlas

__all__ = ["Link", "Shown", "heads_atlas"]

_mount = component(__file__, "main.js", ".atlas")


@dataclass(frozen=True)
class Link:
    """A link that the visitor has just opened: "" is the first page, or "training"."""

    page: str
    query: dict[str, str]


def heads_atlas(atlas: Atlas, shown: Shown, *, key: str) -> Link | None:
    """Show an atlas; measures and heads are switched client-side, without a rerun.

    Returns the link to another page that the visitor has just opened, if any.
    """
    state = _mount(
        key=key,
        data=pack(payload(atlas, shown)),
        width="stretch",
        height="content",
        on_link_change=lambda: None,
    )
    if not (link := state.link):
        return None
    return Link(link["page"], dict(parse_qsl(link["query"], keep_blank_values=True)))
