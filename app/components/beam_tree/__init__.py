"""Mounts the search tree: all beam hypotheses with their scores, navigable by arrow keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.components.beam_tree.payload import payload
from app.components.mount import component

if TYPE_CHECKING:  # importing torch takes seconds: wait until a model is loaded
    from core.search.tree import WrittenTree

__all__ = ["Chosen", "beam_tree"]

_mount = component(__file__, "main.js", ".beam-tree")


@dataclass(frozen=True)
class Chosen:
    """The pinned node, and the prefix that was just forced, if any.

    `force` holds the token ids to force, from the first token of the translation on. `text` holds
    the typed words to force after them, or "".
    """

    node: int
    force: tuple[int, ...] | None
    text: str


def beam_tree(written: WrittenTree, state: Any, *, hides_winner: bool = False, key: str) -> Chosen:
    """Show a tree; navigation is client-side and reports the pinned node.

    `state` is the component's last state, the session value of `key`. It determines the node that
    is pinned initially, so that the tree and the page below show the same node.
    """
    data = payload(written, hides_winner)
    node = _pinned(data, state)
    result = _mount(
        key=key,
        data={**data, "pinned": node},
        on_kept_change=lambda: None,
        on_force_change=lambda: None,
    )
    force = result.force
    if force and force["tree"] == data["tree"]:
        return Chosen(node, tuple(force["ids"]), str(force["text"]))
    return Chosen(node, None, "")


def _pinned(data: dict[str, Any], state: Any) -> int:
    """Return the node pinned last if it belongs to this tree, else the payload's `first` node."""
    pinned = (state or {}).get("kept")
    if not pinned or pinned["tree"] != data["tree"]:
        return data["first"]
    return min(pinned["node"], len(data["nodes"]) - 1)
