"""Serialises a few maps of all layers and heads for the row of maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.components.tokens import sent
from core.record.record import RecordToken


@dataclass(frozen=True, eq=False)
class Scale:
    """Name and range of a map's values: 0..1, or with a `limit`, −limit..limit.

    `limit` is one number, or one per head [layer, head].
    """

    word: str
    limit: float | NDArray[np.floating] | None = None


WEIGHT = Scale("weight")
DIFFERENCE = Scale("difference", 1.0)  # of two weights


def own_scale(first: NDArray[np.floating], second: NDArray[np.floating]) -> Scale:
    """Return a scale that ends at each head's largest difference of two maps."""
    largest = np.abs(first.astype(np.float64) - second).max((2, 3))
    return Scale("difference", np.where(largest > 0, largest, 1.0))


@dataclass(frozen=True, eq=False)
class Map:
    """One map for all layers and heads: `values` [layer, head, query, key].

    `name` is its title, `short` its name in the readout. `note` is one text, or one per head
    [layer][head]. `mask` [query, key] applies to this map alone; None: the row's mask applies.
    `sides` are this map's own queries and keys, as many as the row's; None: the row's.
    """

    name: str
    short: str
    note: str | Sequence[Sequence[str]]
    values: NDArray[np.floating]
    scale: Scale = WEIGHT
    mask: NDArray[np.bool_] | None = None
    sides: Sequence[Side] | None = None


@dataclass(frozen=True, eq=False)
class Difference:
    """Map `first` of the row minus map `second`, by index; subtracted in the browser."""

    name: str
    short: str
    first: int
    second: int
    scale: Scale = DIFFERENCE


@dataclass(frozen=True)
class Side:
    """Tokens along one axis of the maps, their positions in the sentence, and the axis title."""

    tokens: Sequence[RecordToken]
    numbers: Sequence[int]
    words: str


def sides(
    tokens: Sequence[RecordToken], numbers: Sequence[int], language: str
) -> tuple[Side, Side]:
    """Return the query and key axes of self-attention: the same tokens twice."""
    return (
        Side(tokens, numbers, f"{language} token being read"),
        Side(tokens, numbers, f"{language} token"),
    )


@dataclass(frozen=True)
class Opened:
    """The layer and head to show, as indices into the row's layers and heads.

    The visitor's choice is kept until `turn` changes. `names` are the query parameters that store
    this choice in the URL; None keeps it out of the URL.
    """

    layer: int
    head: int
    turn: int
    names: Mapping[str, str] | None


@dataclass(frozen=True, eq=False)
class MapRow:
    """Maps side by side that share axes, layer and head.

    `site` starts the heading, such as "Encoder"; `layers` are the maps' layers, counted from 0;
    `mask` [query, key] is True where attention is allowed, None for no masked cells. `outlined` is
    a query whose row is outlined in all maps. The rows of `covered` are hatched until the visitor
    clicks one, or for good if they are `sealed`. `pinned` is a cell, (query, key), pinned at first.
    `about` is what the caption of a saved picture says of network, search and sentence.
    """

    site: str
    layers: Sequence[int]
    queries: Side
    keys: Side
    maps: Sequence[Map | Difference]
    mask: NDArray[np.bool_] | None = None
    opened: Opened | None = None
    outlined: int | None = field(default=None, kw_only=True)
    covered: Sequence[int] = field(default=(), kw_only=True)
    sealed: bool = field(default=False, kw_only=True)
    pinned: tuple[int, int] | None = field(default=None, kw_only=True)
    about: str = field(default="", kw_only=True)


def payload(row: MapRow) -> dict[str, Any]:
    """Return a row in the form that the component's JavaScript reads.

    The values are JSON-serialisable, except for `bytes` objects at the top level: `values_N` is map
    N of the row (from 0) as little-endian float32 in C order. `mask` has one bit per cell, and so
    has `mask_N`, the mask that only map N has.

    Raises ValueError for a row without a map, arrays or numbers that do not fit the tokens, an
    unmasked cell that is not finite or outside its scale, and a difference of maps that the row
    does not have.
    """
    cells = len(row.queries.tokens), len(row.keys.tokens)
    mask = np.ones(cells, bool) if row.mask is None else np.asarray(row.mask, bool)
    if mask.shape != cells:
        raise ValueError(f"the mask is {mask.shape}; the tokens make it {cells}")
    maps = {place: drawn for place, drawn in enumerate(row.maps) if isinstance(drawn, Map)}
    if not maps:
        raise ValueError("a row needs at least one map")
    heads = next(iter(maps.values())).values.shape[1]
    data: dict[str, Any] = {
        "site": row.site,
        "layers": [int(layer) for layer in row.layers],
        "heads": heads,
        "queries": _side(row.queries),
        "keys": _side(row.keys),
        "maps": [_described(drawn, maps, (len(row.layers), heads)) for drawn in row.maps],
        "opened": None if row.opened is None else asdict(row.opened),
        "outlined": row.outlined,
        "covered": list(row.covered),
        "sealed": row.sealed,
        "pinned": row.pinned,
        "about": row.about,
        "mask": np.packbits(mask).tobytes(),
    }
    for place, drawn in maps.items():
        shape = (len(row.layers), heads, *cells)
        if drawn.values.shape != shape:
            raise ValueError(f"{drawn.name} is {drawn.values.shape}; the row is {shape}")
        own = mask if drawn.mask is None else np.asarray(drawn.mask, bool)
        if own.shape != cells:
            raise ValueError(f"the mask of {drawn.name} is {own.shape}; the tokens make it {cells}")
        if drawn.mask is not None:
            data[f"mask_{place}"] = np.packbits(own).tobytes()
        data[f"values_{place}"] = _bytes(drawn, own, row.covered if row.sealed else ())
    return data


def _bytes(drawn: Map, mask: NDArray[np.bool_], sealed: Sequence[int]) -> bytes:
    """Return the values as float32; masked cells and sealed rows, which are not shown, as 0."""
    values = np.where(mask, drawn.values, 0).astype("<f4")
    values[:, :, list(sealed)] = 0
    limit = drawn.scale.limit
    high = np.ones(()) if limit is None else np.asarray(limit)[..., None, None]
    low = 0 if limit is None else -high
    slack = 1e-4 * high  # rounding
    if not ((values >= low - slack) & (values <= high + slack)).all():  # NaN is neither
        raise ValueError(f"{drawn.name} contains a value outside its scale")
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
        own = dict(zip(("queries", "keys"), map(_side, drawn.sides or ()), strict=False))
        return packed | own | {"note": drawn.note}
    if {drawn.first, drawn.second} - maps.keys():
        raise ValueError(f"{drawn.name} is a difference of maps that the row does not have")
    return packed | {"note": "", "minus": [drawn.first, drawn.second]}


def _side(side: Side) -> dict[str, Any]:
    if len(side.numbers) != len(side.tokens):
        raise ValueError(f"{len(side.tokens)} tokens have {len(side.numbers)} numbers")
    tokens = [
        {**sent(token), "number": int(number)}
        for token, number in zip(side.tokens, side.numbers, strict=True)
    ]
    return {"tokens": tokens, "words": side.words}
