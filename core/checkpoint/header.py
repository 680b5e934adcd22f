"""Reads the header of a safetensors file by hand: what it holds is known before a weight is read.

The library checks the container alone: a name that stands twice, an empty dimension or a
thousand tensors more than expected are fine with it.
"""

from collections.abc import Mapping
from math import prod
from typing import Any, BinaryIO

from core.checkpoint.strict_json import parse
from core.files import read_exactly
from core.model.shapes import Shapes

MOST_BYTES = 1 << 20  # of the header
MOST_TENSORS = 2_000
LARGEST_VALUE = 65_504.0  # of a float16, in which weights may be kept
_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
_MOST_ITEMS = 12 * MOST_TENSORS + 1_000  # a tensor has 3 names and 3 values, two of them lists


def largest_file(shapes: Shapes) -> int:
    """How many bytes a safetensors file with tensors of these shapes can have."""
    return 8 + MOST_BYTES + sum(map(prod, shapes.values())) * max(_ITEM_BYTES.values())


def read_header(stream: BinaryIO, size: int, shapes: Shapes) -> tuple[bytes, dict[str, str]]:
    """The header of an opened file of `size` bytes, its length in front, and its metadata.

    Raises ValueError unless it names exactly the tensors of these shapes, all of one type, and the
    rest of the file is what they take.
    """
    if len(shapes) > MOST_TENSORS:
        raise ValueError(f"{len(shapes):,} tensors, the limit is {MOST_TENSORS:,}")
    start = read_exactly(stream, 8)
    length = int.from_bytes(start, "little")
    if length > MOST_BYTES:
        raise ValueError(f"a header of {length:,} bytes, the limit is {MOST_BYTES:,}")
    header = read_exactly(stream, length)
    count = header.count(b'"data_offsets"')  # before thousands of objects are made of them
    if count > MOST_TENSORS:
        raise ValueError(f"{count:,} tensors, the limit is {MOST_TENSORS:,}")
    tensors = parse(header, _MOST_ITEMS)
    if not isinstance(tensors, dict):
        raise ValueError("its header is no object")
    metadata = tensors.pop("__metadata__", {})
    if not isinstance(metadata, dict) or any(type(v) is not str for v in metadata.values()):
        raise ValueError("its metadata is no object of texts")
    _compare(tensors, shapes, size - 8 - length)
    return start + header, metadata


def check_range(name: str, tensor: Any) -> None:
    """Raises ValueError unless each number of a tensor is finite and no larger than a float16's.

    That bounds what a network computes of any text far below the largest float32.
    """
    if not (tensor.abs() <= LARGEST_VALUE).all():  # false of NaN, too
        what = f"beyond ±{LARGEST_VALUE:,.0f}" if tensor.isfinite().all() else "that are not finite"
        raise ValueError(f"{name} holds values {what}")


def _compare(tensors: Mapping[str, Any], shapes: Shapes, size: int) -> None:
    if odd := sorted(set(shapes) ^ set(tensors)):
        names = ", ".join(name[:80] for name in odd[:5])
        raise ValueError(f"missing or unexpected weights: {names}")
    places, types = [], set()
    for name, shape in shapes.items():
        entry = tensors[name]
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"{name} needs a dtype, a shape and data_offsets, and nothing else")
        found, place, kind = entry["shape"], entry["data_offsets"], entry["dtype"]
        if not _are_counts(found) or 0 in found:
            raise ValueError(f"{name} has an empty dimension, or one that is no whole number")
        if tuple(found) != shape:
            raise ValueError(f"{name} is {found[:8]}, not {list(shape)}")
        if not isinstance(kind, str) or kind not in _ITEM_BYTES:
            raise ValueError(f"{name} is of type {kind!r}: it must be {', '.join(_ITEM_BYTES)}")
        if not _are_counts(place) or len(place) != 2:
            raise ValueError(f"{name} has no two whole numbers as its place")
        if place[1] - place[0] != prod(shape) * _ITEM_BYTES[kind]:
            raise ValueError(f"{name} has not the bytes that its shape and type take")
        places.append(tuple(place))
        types.add(kind)
    if len(types) > 1:
        raise ValueError(f"its weights are of several types: {', '.join(sorted(types))}")
    end = 0
    for start, stop in sorted(places):
        if start != end:
            raise ValueError(f"its weights overlap or leave a hole at byte {end:,}")
        end = stop
    if end != size:
        raise ValueError(f"its weights take {end:,} bytes, and it has {size:,} for them")


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(n) is int and n >= 0 for n in values)
