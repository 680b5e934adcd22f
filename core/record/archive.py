"""Safe reader for untrusted .npz files: sizes are checked before anything is unpacked.

An untrusted file may hold a pickle, claim terabytes or nest its JSON without end, and each library
that reads it raises different errors. This module turns all of them into a one-line ValueError.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from core.checkpoint.strict_json import parse
from core.files import printable, safe_open

_MAX_MEMBERS = 4_096
_MAX_JSON_ITEMS = 500_000  # about 100 bytes each in memory
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those that numpy writes


class Archive:
    """An opened .npz file whose unpacked size is within a limit.

    Reading an array that is missing, or of another type or shape, raises ValueError.
    """

    def __init__(self, opened: zipfile.ZipFile, max_bytes: int):
        members = opened.infolist()
        if len(members) > _MAX_MEMBERS:
            raise ValueError(f"{len(members):,} arrays, the limit is {_MAX_MEMBERS:,}")
        self._zip = opened
        self._members = {member.filename: member for member in members}
        if len(self._members) != len(members):
            raise ValueError("two of its arrays have the same name")
        if (total := sum(member.file_size for member in members)) > max_bytes:
            raise ValueError(
                f"it unpacks to {total / 1e6:,.0f} MB, the limit is {in_megabytes(max_bytes)}"
            )

    def has(self, name: str) -> bool:
        """Return whether an array of this name exists."""
        return f"{name}.npy" in self._members

    def json(self, name: str, max_bytes: int, finite: bool = True) -> Any:
        """Return metadata stored as JSON in an array of bytes; see core.checkpoint.strict_json."""
        member = self._members.get(f"{name}.npy")
        if member is not None and member.file_size > max_bytes:
            raise ValueError(f"its metadata takes more than {in_megabytes(max_bytes)}")
        try:
            return parse(self.array(name, [np.uint8], 1).tobytes(), _MAX_JSON_ITEMS, finite)
        except ValueError as error:
            raise ValueError(f"its metadata cannot be read: {error}") from None

    def shape(self, name: str, dtypes: Sequence[DTypeLike], axes: int) -> tuple[int, ...]:
        """Return the shape of an array with one of these types and `axes` axes; read no data."""
        return self._header(name, dtypes, axes)[0]

    def array(self, name: str, dtypes: Sequence[DTypeLike], axes: int) -> NDArray:
        """Return an array with one of these types and `axes` axes, read-only."""
        shape, dtype, fortran_order, start = self._header(name, dtypes, axes)
        size = math.prod(shape) * dtype.itemsize
        with self._zip.open(self._members[f"{name}.npy"]) as stream:
            content = stream.read(start + size)[start:]
        return np.ndarray(shape, dtype, content, order="F" if fortran_order else "C")

    def _header(
        self, name: str, dtypes: Sequence[DTypeLike], axes: int
    ) -> tuple[tuple[int, ...], np.dtype, bool, int]:
        """Return an array's shape, type, whether it is in Fortran order, and its data's offset."""
        wrong = ValueError(f"{name} is missing or not an array of the right type")
        member = self._members.get(f"{name}.npy")
        if member is None or member.compress_type not in _COMPRESSIONS:
            raise wrong
        try:
            with self._zip.open(member) as stream:
                version = np.lib.format.read_magic(stream)
                shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
                start = stream.tell()
        except Exception:  # from zipfile, zlib, tokenize, ast or numpy
            raise wrong from None
        if version != (1, 0) or dtype not in [np.dtype(kind) for kind in dtypes]:
            raise wrong
        if len(shape) != axes or min(shape, default=0) < 0:
            raise ValueError(f"{name} has shape {_shape_text(shape)} and should be {axes}-D")
        if start + math.prod(shape) * dtype.itemsize != member.file_size:
            raise ValueError(f"the size of {name} does not fit its shape {_shape_text(shape)}")
        return shape, dtype, fortran_order, start


@contextmanager
def archive(
    file: Path | str | BinaryIO, what: str, remedy: str, max_bytes: int, max_file_bytes: int
) -> Generator[Archive]:
    """Open an .npz file of at most `max_file_bytes` that unpacks to at most `max_bytes`.

    Any error, including those from inside the block, becomes a ValueError of one printable line:
    "FILE is not `what` (reason): `remedy`".
    """
    name = file if isinstance(file, Path | str) else getattr(file, "name", "the file")
    try:
        if isinstance(file, Path | str):
            source = safe_open(Path(file), max_file_bytes, follow_links=True)
            with source as stream, zipfile.ZipFile(stream) as found:
                yield Archive(found, max_bytes)
        else:
            if (size := file.seek(0, 2)) > max_file_bytes:
                raise ValueError(f"{size:,} bytes, the limit is {max_file_bytes:,}")
            file.seek(0)
            with zipfile.ZipFile(file) as found:
                yield Archive(found, max_bytes)
    except ValueError as error:
        reason = str(error)
    except OSError as error:
        reason = error.strerror or "it cannot be read"
    except Exception:  # any error of the libraries that unpack an untrusted file
        reason = "it has another format, or is damaged"
    else:
        return
    raise ValueError(f"{printable(str(name))} is not {what} ({printable(reason)[:300]}): {remedy}")


def in_megabytes(size: int) -> str:
    """Format a limit in bytes as megabytes."""
    return f"{size >> 20} MB"


def _shape_text(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape[:8]))})"
