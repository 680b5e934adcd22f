"""Turns a few maps of all layers and heads into the values and raw bytes that the row draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.components.tokens import described
from core.record.record import RecordToken


@dataclass(frozen=True, eq=False)
class Scale:
    """What a map's numbers are: from 0 to 1, or of either sign between −limit and limit.

    `limit` is one number, or one for each head, [layer, head].
    """

    word: str
    limit: float | NDArray[np.floating] | None = None


WEIGHT = Scale("weight")
DIFFERENCE = Scale("difference", 1.0)  # of two weights


@dataclass(frozen=True, eq=False)
class Map:
    """One map of every layer and head: `values` [layer, head, query, key].

    `name` stands above it, `short` before its number in the line that reads a cell out. `note` is
    one for all heads, or one for each, [layer][head].
    """

    name: str
    short: str
    note: str | Sequence[Sequence[str]]
    values: NDArray[np.floating]
    scale: Scale = WEIGHT


@dataclass(frozen=True, eq=False)
class Difference:
    """The first of two maps of the row minus the second, by their places; the browser subtracts."""

    name: str
    short: str
    first: int
    second: int
    scale: Scale = DIFFERENCE


@dataclass(frozen=True)
class Side:
    """Tokens along one side of the maps, their places in the sentence, and what they do."""

    tokens: Sequence[RecordToken]
    numbers: Sequence[int]
    words: str


def sides(
    tokens: Sequence[RecordToken], numbers: Sequence[int], language: str
) -> tuple[Side, Side]:
    """Queries and keys of self-attention: the same tokens twice."""
    return (
        Side(tokens, numbers, f"{language} token being read"),
        Side(tokens, numbers, f"{language} token"),
    )


@dataclass(frozen=True)
class Opened:
    """The layer and head that a row is turned to, as places in its layers and heads.

    What is chosen in the browser stays until `turn` is another. `names` are the parameters of the
    page's address under which the browser keeps its choice; None keeps it out of the address.
    """

    layer: int
    head: int
    turn: int
    names: Mapping[str, str] | None


@dataclass(frozen=True, eq=False)
class MapRow:
    """Maps beside each other that share axes, layer and head.

    `site` opens the heading, such as "Encoder"; `layers` are the layers that the maps hold, counted
    from 0; `mask` [query, key] says True = may attend, None that every cell is open.
    """

    site: str
    layers: Sequence[int]
    queries: Side
    keys: Side
    maps: Sequence[Map | Difference]
    mask: NDArray[np.bool_] | None = None
    opened: Opened | None = None


def payload(row: MapRow) -> dict[str, Any]:
    """Describe a row in the form that the component's JavaScript reads.

    JSON-able values and, at the top level, `bytes`: `values_N` are those of the N-th map as
    little-endian float32 in C order, `mask` has one bit a cell.

    Raises ValueError for a map of another shape, for an open cell that is not finite or leaves its
    scale, and for a difference of what is no map of the row.
    """
    cells = len(row.queries.tokens), len(row.keys.tokens)
    mask = np.ones(cells, bool) if row.mask is None else np.asarray(row.mask, bool)
    if mask.shape != cells:
        raise ValueError(f"the mask is {mask.shape}; the tokens make it {cells}")
    maps = {place: drawn for place, drawn in enumerate(row.maps) if isinstance(drawn, Map)}
    if not maps:
        raise ValueError("a row needs a map")
    heads = next(iter(maps.values())).values.shape[1]
    data: dict[str, Any] = {
        "site": row.site,
        "layers": [int(layer) for layer in row.layers],
        "heads": heads,
        "queries": _side(row.queries),
        "keys": _side(row.keys),
        "maps": [_described(drawn, maps, (len(row.layers), heads)) for drawn in row.maps],
        "opened": None if row.opened is None else asdict(row.opened),
        "mask": np.packbits(mask).tobytes(),
    }
    for place, drawn in maps.items():
        shape = (len(row.layers), heads, *cells)
        if drawn.values.shape != shape:
            raise ValueError(f"{drawn.name} is {drawn.values.shape}; the row is {shape}")
        data[f"values_{place}"] = _bytes(drawn, mask)
    return data


def _bytes(drawn: Map, mask: NDArray[np.bool_]) -> bytes:
    """Values as they are; masked cells, which nobody sees, as 0."""
    values = np.where(mask, drawn.values, 0).astype("<f4")
    limit = drawn.scale.limit
    high = np.ones(()) if limit is None else np.asarray(limit)[..., None, None]
    low = 0 if limit is None else -high
    slack = 1e-4 * high  # rounding
    if not ((values >= low - slack) & (values <= high + slack)).all():  # NaN is neither
        raise ValueError(f"{drawn.name} holds a value outside its scale")
    return values.tobytes()


def _described(
    drawn: Map | Difference, maps: dict[int, Map], heads: tuple[int, int]
) -> dict[str, Any]:
    limit = drawn.scale.limit
    packed = {
        "name": drawn.name,
        "short": drawn.short,
        "word": drawn.scale.word,
        "limits": None if limit is None else np.broadcast_to(limit, heads).tolist(),
    }
    if isinstance(drawn, Map):
        return packed | {"note": drawn.note}
    if {drawn.first, drawn.second} - maps.keys():
        raise ValueError(f"{drawn.name} is the difference of what is no map of the row")
    return packed | {"note": "", "minus": [drawn.first, drawn.second]}


def _side(side: Side) -> dict[str, Any]:
    if len(side.numbers) != len(side.tokens):
        raise ValueError(f"{len(side.tokens)} tokens have {len(side.numbers)} numbers")
    tokens = [
        {**described(token), "number": int(number)}
        for token, number in zip(side.tokens, side.numbers, strict=True)
    ]
    return {"tokens": tokens, "words": side.words}
