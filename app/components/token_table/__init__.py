"""Mounts a padded batch as a table: tokens above their ids, padding on grey, scrollable."""

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
    """Return the component's data for a padded batch [sentence, position]; id 0 is padding.

    `words` are the displayed tokens of each sentence, without padding, or None if only ids are
    known. A cell is [id, token or null]. Columns are numbered from `first`: 1 for a source, 0 for
    a decoder input, which starts with <bos>.
    """
    sentences, positions = ids.shape
    return {
        "title": title,
        "first": first,
        "note": f"int64 [sentence, position] = [{sentences}, {positions}] · grey: padding, id 0",
        "rows": [
            [
                [int(id), words[row][column] if words and column < len(words[row]) else None]
                for column, id in enumerate(line)
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
    """Show a padded batch; arguments as for `payload`."""
    _mount(key=key, data=payload(ids, words, title, first))
