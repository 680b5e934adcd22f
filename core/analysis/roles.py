"""Measure a head's role on one sentence: the share of its weight on the role's cells."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.frozen import Floats
from core.record.record import RecordToken
from core.record.words import group_words


@dataclass(frozen=True)
class Strongest:
    """The head with the largest share of weight (0 to 1) on some cells; counted from 0."""

    layer: int
    head: int
    share: float


def strongest(shares_LH: Floats) -> Strongest:
    """Return the head with the largest of the shares [layer, head]; the first if tied."""
    layer, head = np.unravel_index(int(shares_LH.argmax()), shares_LH.shape)
    return Strongest(int(layer), int(head), float(shares_LH[layer, head]))


def on_previous(maps_LHQK: Floats) -> Floats:
    """Return the mean weight of a query on the previous token (self-attention): [layer, head]."""
    before = np.diagonal(maps_LHQK, offset=-1, axis1=-2, axis2=-1)
    return before.mean(-1) if before.shape[-1] else np.zeros(maps_LHQK.shape[:-2], maps_LHQK.dtype)


def on_next(maps_LHQK: Floats) -> Floats:
    """Return the mean weight of a query on the next token (self-attention): [layer, head].

    The result is 0 in a decoder, whose next tokens are masked, and for a single token.
    """
    after = np.diagonal(maps_LHQK, offset=1, axis1=-2, axis2=-1)
    return after.mean(-1) if after.shape[-1] else np.zeros(maps_LHQK.shape[:-2], maps_LHQK.dtype)


def on_itself(maps_LHQK: Floats, first: int = 0) -> Floats:
    """Return the mean weight of a query on its own position (self-attention): [layer, head].

    Queries before `first` are skipped: use 2 in a decoder, where the first queries have so few
    unmasked keys that every head would score high. Raises ValueError if no query is left.
    """
    own = np.diagonal(maps_LHQK, axis1=-2, axis2=-1)
    if first >= own.shape[-1]:
        raise ValueError(f"first is {first}, but the map has only {own.shape[-1]} queries")
    return own[..., first:].mean(-1)


def on_column(maps_LHQK: Floats, key: int) -> Floats:
    """Return the mean weight of all queries on one key: [layer, head]."""
    return maps_LHQK[..., key].mean(-1)


def on_cells(maps_LHQK: Floats, cells: Sequence[tuple[int, Sequence[int]]]) -> Floats:
    """Return each query's total weight on its keys, averaged over queries: [layer, head].

    `cells` are pairs (query, keys). Raises ValueError if there are none.
    """
    if not cells:
        raise ValueError("no cells given: name at least one query and its keys")
    return np.mean([maps_LHQK[..., query, list(keys)].sum(-1) for query, keys in cells], axis=0)


def positions(tokens: Sequence[RecordToken], word: str) -> list[list[int]]:
    """Return the positions of a word's tokens, one list per occurrence."""
    words = map(list, group_words(tokens))
    return [w for w in words if "".join(tokens[i].text for i in w) == word]
