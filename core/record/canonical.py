"""The canonical bytes of JSON values, for hashes that programs in several languages agree on."""

from __future__ import annotations

import struct
from typing import Any


def canonical_bytes(value: Any) -> bytes:
    """Return texts as UTF-16-LE behind their length in bytes (uint32), and numbers as float64.

    A list is the number of its items and these; an object is the number of its names and, sorted by
    name, each name with its value. Booleans are 0 and 1, and −0 is 0. All is little-endian.
    """
    parts: list[bytes] = []
    _append(value, parts)
    return b"".join(parts)


def _append(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, str):
        text = value.encode("utf-16-le", "surrogatepass")
        parts += [struct.pack("<I", len(text)), text]
    elif isinstance(value, dict):
        parts.append(struct.pack("<d", len(value)))
        for name in sorted(value):
            _append(name, parts)
            _append(value[name], parts)
    elif isinstance(value, list | tuple):
        parts.append(struct.pack("<d", len(value)))
        for item in value:
            _append(item, parts)
    else:
        parts.append(struct.pack("<d", float(value) + 0.0))
