"""Mounts the search tree: every hypothesis of a beam, walked by arrow keys, with its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.components.beam_tree.payload import payload
from app.components.mount import component

if TYPE_CHECKING:  # torch takes seconds: it is imported when a model is loaded
    from core.search.tree import WrittenTree

__all__ = ["Chosen", "beam_tree"]

_mount = component(__file__, "main.js", ".beam-tree")


@dataclass(frozen=True)
class Chosen:
    """What a person did: the node that is pinned, and what was just forced, if anything.

    `force` are ids to follow from the start, `text` is typed and comes behind them.
    """

    node: int
    force: tuple[int, ...] | None
    text: str


def beam_tree(written: WrittenTree, state: Any, *, key: str) -> Chosen:
    """Show a tree; walking it happens in the browser, which tells where one stopped.

    `state` is what the component said last, the session's value of `key`. From it the browser is
    sent the node that a tree opens on, so that the ring stands where the page below looks.
    """
    data = payload(written)
    node = _pinned(data, state)
    result = _mount(
        key=key,
        data={**data, "pinned": node},
        width="stretch",
        height="content",
        on_kept_change=lambda: None,
        on_force_change=lambda: None,
    )
    force = result.force
    if force and force["tree"] == data["tree"]:
        return Chosen(node, tuple(force["ids"]), str(force["text"]))
    return Chosen(node, None, "")


def _pinned(data: dict[str, Any], state: Any) -> int:
    """The node that is looked at: the one pinned last, if it was in this very tree."""
    pinned = (state or {}).get("kept")
    if not pinned or pinned["tree"] != data["tree"]:
        return data["first"]
    return min(pinned["node"], len(data["nodes"]) - 1)
