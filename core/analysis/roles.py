"""What a head does on one sentence: how much of its weight goes where a role would send it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.record.record import Floats, RecordToken
from core.record.words import group_words


@dataclass(frozen=True)
class Strongest:
    """The head that does something most, counted from 0, and the share of its weight in 0..1."""

    layer: int
    head: int
    share: float


def strongest(shares_LH: Floats) -> Strongest:
    """The head with the largest share of [layer, head]; the first of equals."""
    layer, head = np.unravel_index(int(shares_LH.argmax()), shares_LH.shape)
    return Strongest(int(layer), int(head), float(shares_LH[layer, head]))


def on_previous(maps_LHQK: Floats) -> Floats:
    """Mean weight of a query on the token before it, for self-attention: [layer, head]."""
    return np.diagonal(maps_LHQK, offset=-1, axis1=-2, axis2=-1).mean(-1)


def on_itself(maps_LHQK: Floats, first: int = 0) -> Floats:
    """Mean weight of a query on its own place, for self-attention: [layer, head].

    `first` is the first query that counts: 2 in a decoder, whose earlier queries have so few open
    cells that every head would seem to do this. Raises ValueError if there is no such query.
    """
    own = np.diagonal(maps_LHQK, axis1=-2, axis2=-1)
    if first >= own.shape[-1]:
        raise ValueError(f"no query from {first} on: the map has {own.shape[-1]}")
    return own[..., first:].mean(-1)


def on_column(maps_LHQK: Floats, key: int) -> Floats:
    """Mean weight of all queries on one key: [layer, head]."""
    return maps_LHQK[..., key].mean(-1)


def on_cells(maps_LHQK: Floats, cells: Sequence[tuple[int, Sequence[int]]]) -> Floats:
    """Mean over (query, its keys) of the weight that the query gives to those keys: [layer, head].

    Raises ValueError if there is no cell to look at.
    """
    if not cells:
        raise ValueError("no cell to look at: name at least one query and its keys")
    return np.mean([maps_LHQK[..., query, list(keys)].sum(-1) for query, keys in cells], axis=0)


def positions(tokens: Sequence[RecordToken], word: str) -> list[list[int]]:
    """Return the positions of a word's tokens, once for each time it occurs."""
    words = map(list, group_words(tokens))
    return [w for w in words if "".join(tokens[i].text for i in w) == word]
