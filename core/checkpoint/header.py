"""Validate the header of a safetensors file before its weights are read.

The safetensors library checks only the container: it accepts duplicate names, empty dimensions and
any number of unexpected tensors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any, BinaryIO, TypedDict

from core.checkpoint.strict_json import parse
from core.files import read_exactly
from core.model.shapes import Shapes
from core.typed import Count, between, typed

MAX_HEADER_BYTES = 1 << 20
MAX_TENSORS = 2_000
MAX_VALUE = 65_504.0  # the largest float16; weights may be saved in this type
_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
_MAX_ITEMS = 12 * MAX_TENSORS + 1_000  # a tensor's entry: 3 names and 3 values, two being lists


@dataclass(frozen=True)
class TensorEntry:
    """A tensor in the header of a safetensors file; the offsets count from the header's end."""

    dtype: str
    shape: tuple[Annotated[int, between(1, 1 << 40)], ...]
    data_offsets: tuple[Count, Count]


class _Header(TypedDict, total=False):
    __metadata__: Mapping[str, str]


def max_file_bytes(shapes: Shapes) -> int:
    """Return the maximum size of a safetensors file with tensors of these shapes."""
    return 8 + MAX_HEADER_BYTES + sum(map(prod, shapes.values())) * max(_ITEM_BYTES.values())


def read_header(stream: BinaryIO, size: int, shapes: Shapes) -> tuple[bytes, dict[str, str]]:
    """Return the header of a file of `size` bytes, with its length prefix, and the file's metadata.

    Raises ValueError unless the header lists exactly tensors of these shapes, all of one type,
    which fill the rest of the file.
    """
    if len(shapes) > MAX_TENSORS:
        raise ValueError(f"{len(shapes):,} tensors, the limit is {MAX_TENSORS:,}")
    start = read_exactly(stream, 8)
    length = int.from_bytes(start, "little")
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"a header of {length:,} bytes, the limit is {MAX_HEADER_BYTES:,}")
    header = read_exactly(stream, length)
    count = header.count(b'"data_offsets"')  # counted before parsing creates the objects
    if count > MAX_TENSORS:
        raise ValueError(f"{count:,} tensors, the limit is {MAX_TENSORS:,}")
    tensors = typed(_Header, parse(header, _MAX_ITEMS), "its header")
    metadata = tensors.pop("__metadata__", {})
    _compare(tensors, shapes, size - 8 - length)
    return start + header, metadata


def check_range(name: str, tensor: Any) -> None:
    """Raise ValueError unless all values of a tensor are finite and within float16's range.

    This keeps all activations far below the largest float32.
    """
    if not (tensor.abs() <= MAX_VALUE).all():  # also rejects NaN
        what = f"beyond ±{MAX_VALUE:,.0f}" if tensor.isfinite().all() else "that are not finite"
        raise ValueError(f"{name} contains values {what}")


def _compare(tensors: Mapping[str, Any], shapes: Shapes, size: int) -> None:
    if wrong := sorted(set(shapes) ^ set(tensors)):
        names = ", ".join(name[:80] for name in wrong[:5])
        raise ValueError(f"missing or unexpected weights: {names}")
    offsets, types = [], set()
    for name, shape in shapes.items():
        entry = typed(TensorEntry, tensors[name], name)
        dtype, span = entry.dtype, entry.data_offsets
        if entry.shape != shape:
            raise ValueError(f"{name} is {list(entry.shape[:8])}, not {list(shape)}")
        if dtype not in _ITEM_BYTES:
            raise ValueError(
                f"{name} is of type {dtype[:20]!r}: it must be {', '.join(_ITEM_BYTES)}"
            )
        if span[1] - span[0] != prod(shape) * _ITEM_BYTES[dtype]:
            raise ValueError(f"the data_offsets of {name} do not match its shape and type")
        offsets.append(span)
        types.add(dtype)
    if len(types) > 1:
        raise ValueError(f"its weights are of several types: {', '.join(sorted(types))}")
    end = 0
    for start, stop in sorted(offsets):
        if start != end:
            raise ValueError(f"its weights overlap or leave a gap at byte {end:,}")
        end = stop
    if end != size:
        raise ValueError(f"its weights take {end:,} bytes, but the file has {size:,}")
