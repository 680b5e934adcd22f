"""Validate the header of a safetensors file before its weights are read.

The safetensors library checks only the container: it accepts duplicate names, empty dimensions and
any number of unexpected tensors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any, BinaryIO

from core.checkpoint.strict_json import parse
from core.files import read_exactly
from core.model.shapes import Shapes
from core.typed import Count, between, typed

MAX_HEADER_BYTES = 1 << 20
MAX_TENSORS = 2_000
MAX_VALUE = 65_504.0  # the largest float16; weights may be saved in this type
_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
_MAX_ITEMS = 1 << 16  # a tensor's entry has 12: 3 names and 3 values, two being lists


@dataclass(frozen=True)
class TensorEntry:
    """A tensor in the header of a safetensors file; the offsets count from the header's end."""

    dtype: str
    shape: tuple[Annotated[int, between(1, 1 << 40)], ...]
    data_offsets: tuple[Count, Count]


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
    header, entries, metadata = read_entries(stream)
    if wrong := sorted(set(shapes) ^ set(entries)):
        names = ", ".join(name[:80] for name in wrong[:5])
        raise ValueError(f"missing or unexpected weights: {names}")
    for name, shape in shapes.items():
        if (found := entries[name].shape) != shape:
            raise ValueError(f"{name} is {list(found[:8])}, not {list(shape)}")
    check_spans(entries, _ITEM_BYTES, size - len(header))
    if len(types := sorted({entry.dtype for entry in entries.values()})) > 1:
        raise ValueError(f"its weights are of several types: {', '.join(types)}")
    return header, typed(Mapping[str, str], metadata, "its header: __metadata__")


def read_entries(stream: BinaryIO) -> tuple[bytes, dict[str, TensorEntry], Any]:
    """Return a file's header with its length prefix, the tensors in it, and its metadata, unread.

    Raises ValueError for an invalid header; `check_spans` checks the offsets.
    """
    start = read_exactly(stream, 8)
    length = int.from_bytes(start, "little")
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"a header of {length:,} bytes, the limit is {MAX_HEADER_BYTES:,}")
    header = read_exactly(stream, length)
    count = header.count(b'"data_offsets"')  # counted before parsing creates the objects
    if count > MAX_TENSORS:
        raise ValueError(f"{count:,} tensors, the limit is {MAX_TENSORS:,}")
    values = typed(Mapping[str, Any], parse(header, _MAX_ITEMS), "its header")
    metadata = values.pop("__metadata__", {})
    entries = {name: typed(TensorEntry, entry, name[:80]) for name, entry in values.items()}
    return start + header, entries, metadata


def check_spans(
    entries: Mapping[str, TensorEntry], item_bytes: Mapping[str, int], size: int
) -> None:
    """Raise ValueError unless tensors of known types fill `size` bytes without gap or overlap."""
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].data_offsets):
        if entry.dtype not in item_bytes:
            known = ", ".join(item_bytes)
            raise ValueError(f"{name[:80]} is of type {entry.dtype[:20]!r}: it must be {known}")
        start, stop = entry.data_offsets
        if stop - start != prod(entry.shape) * item_bytes[entry.dtype]:
            raise ValueError(f"the data_offsets of {name[:80]} do not match its shape and type")
        if start != end:
            raise ValueError(f"its weights overlap or leave a gap at byte {end:,}")
        end = stop
    if end != size:
        raise ValueError(f"its weights take {end:,} bytes, but the file has {size:,}")


def check_range(name: str, tensor: Any) -> None:
    """Raise ValueError unless all values of a tensor are finite and within float16's range.

    This keeps all activations far below the largest float32.
    """
    low, high = tensor.aminmax()  # without a second tensor of this size
    if not (low >= -MAX_VALUE and high <= MAX_VALUE):  # also rejects NaN
        what = f"beyond ±{MAX_VALUE:,.0f}" if tensor.isfinite().all() else "that are not finite"
        raise ValueError(f"{name} contains values {what}")
