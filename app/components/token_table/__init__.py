"""Mounts a padded batch as a table: each token over its id, padding hatched, wide ones scrolled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.components.mount import component

__all__ = ["payload", "token_table"]

_mount = component(__file__, "table.js", ".token-table")


def payload(
    ids: NDArray[np.int64], words: Sequence[Sequence[str]] | None, title: str, first: int = 1
) -> dict[str, Any]:
    """Describe a padded batch [sentence, place], id 0 being padding.

    `words` are each sentence's tokens as shown, without the padding; None where only ids were
    typed. A cell is [id, word], its word null where there is none. The columns are numbered from
    `first`, as everywhere: 1 for a source, 0 for a target fed in, which opens with <bos>.
    """
    sentences, places = ids.shape
    return {
        "title": title,
        "first": first,
        "note": f"int64 [sentence, position] = [{sentences}, {places}] · hatched: padding, id 0",
        "rows": [
            [
                [int(id), words[row][place] if words and place < len(words[row]) else None]
                for place, id in enumerate(line)
            ]
            for row, line in enumerate(ids)
        ],
    }


def token_table(
    ids: NDArray[np.int64],
    words: Sequence[Sequence[str]] | None,
    title: str,
    first: int = 1,
    *,
    key: str,
) -> None:
    """Show a padded batch, as `payload` describes it."""
    _mount(key=key, data=payload(ids, words, title, first), width="stretch", height="content")
