"""Serialises a search tree for the tree component."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from app.look.glossary import TERMS
from app.look.labels import label
from core.text.tokenizer import EOS

if TYPE_CHECKING:  # importing torch takes seconds: wait until a model is loaded
    from core.search.tree import SearchTree, WrittenTree


_NODE = (
    *("parent", "id", "step", "rank", "log_prob"),
    *("total", "score", "status", "forced", "next"),
)


def payload(written: WrittenTree, hides_winner: bool = False) -> dict[str, Any]:
    """Return a tree in the form that the component's JavaScript reads.

    A node is a list: the fields of `TreeNode` that `_NODE` names, in that order. `first` is the
    node to pin if no node of this tree was pinned before. `tree` is a hash of the tree. `meanings`
    explains the terms in the component's panel. With `hides_winner`, the finished translations and
    all scores are left out.
    """
    tree = written.tree
    values = {
        "beam": tree.decode.beam,
        "alpha": tree.decode.length_penalty,
        "limit": tree.limit,
        "first": first_node(tree),
        "tokens": {
            str(id): {
                "label": label(token),
                "special": token.special,
                "unknown": token.unknown,
                "end": id == EOS,
            }
            for id, token in written.tokens.items()
        },
        "nodes": [[getattr(node, name) for name in _NODE] for node in tree.nodes],
        "hypotheses": [
            {"text": text, "end": end, "log_prob": h.log_prob, "score": h.score}
            for text, end, h in zip(written.texts, tree.ends, tree.hypotheses, strict=True)
            if not hides_winner
        ],
    }
    name = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
    meanings = {term: TERMS[term] for term in ("log-probability", "length penalty", "score")}
    return {"tree": name, "meanings": meanings, **values}


def first_node(tree: SearchTree) -> int:
    """Return the node to show first: the last forced one, or the last before the results differ.

    It is at least the winner's first token.
    """
    path, *others = (tree.path(end) for end in tree.ends)
    shared = sum(all(node in other for other in others) for node in path) if others else 0
    return path[max(0, min(tree.forced or shared, len(path)) - 1)]
