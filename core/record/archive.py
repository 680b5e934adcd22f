"""The one reader of .npz files: what one would unpack to is known before any of it is unpacked.

A file may be a stranger's. Its zip may hold what numpy.load would take for a pickle, or claim
terabytes; its JSON may be nested without end; each library that meets such a file raises errors of
its own. Here all of them are one ValueError of one line.
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

_MOST_MEMBERS = 4_096  # of an archive
_MOST_ITEMS = 500_000  # of its JSON: each takes some 100 bytes once it is read
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what numpy writes


class Archive:
    """An opened .npz file whose members' sizes are known and within the limit.

    Every method raises ValueError for what the archive lacks or should not hold.
    """

    def __init__(self, opened: zipfile.ZipFile, largest: int):
        members = opened.infolist()
        if len(members) > _MOST_MEMBERS:
            raise ValueError(f"{len(members):,} arrays, the limit is {_MOST_MEMBERS:,}")
        self._zip = opened
        self._members = {member.filename: member for member in members}
        if len(self._members) != len(members):
            raise ValueError("two of its arrays have the same name")
        if (total := sum(member.file_size for member in members)) > largest:
            raise ValueError(f"it unpacks to {total / 1e6:,.0f} MB, the limit is {mega(largest)}")

    @property
    def names(self) -> set[str]:
        """What its arrays are called."""
        return {name.removesuffix(".npy") for name in self._members}

    def words(self, name: str, largest: int, finite: bool = True) -> Any:
        """The JSON that an array of bytes holds; see core.checkpoint.strict_json.parse."""
        member = self._members.get(f"{name}.npy")
        if member is not None and member.file_size > largest:
            raise ValueError(f"its {name} take more than {mega(largest)}")
        try:
            return parse(self.array(name, [np.uint8], 1).tobytes(), _MOST_ITEMS, finite)
        except ValueError as error:
            raise ValueError(f"its {name} cannot be read: {error}") from None

    def shape(self, name: str, dtypes: Sequence[DTypeLike], axes: int) -> tuple[int, ...]:
        """The shape of an array of one of these types and so many axes, from its header alone."""
        return self._header(name, dtypes, axes)[0]

    def array(self, name: str, dtypes: Sequence[DTypeLike], axes: int) -> NDArray:
        """Such an array, read-only."""
        shape, dtype, by_column, start = self._header(name, dtypes, axes)
        size = math.prod(shape) * dtype.itemsize
        with self._zip.open(self._members[f"{name}.npy"]) as stream:
            content = stream.read(start + size)[start:]
        return np.ndarray(shape, dtype, content, order="F" if by_column else "C")

    def _header(
        self, name: str, dtypes: Sequence[DTypeLike], axes: int
    ) -> tuple[tuple[int, ...], np.dtype, bool, int]:
        """Shape, type, whether it lies by columns, and where in its member the numbers begin."""
        member = self._members.get(f"{name}.npy")
        if member is None or member.compress_type not in _PACKED:
            raise ValueError(f"{name} is missing or no array of the right kind")
        try:
            with self._zip.open(member) as stream:
                version = np.lib.format.read_magic(stream)
                shape, by_column, dtype = np.lib.format.read_array_header_1_0(stream)
                start = stream.tell()
        except Exception:  # of zipfile, zlib, tokenize, ast or numpy
            raise ValueError(f"{name} is missing or no array of the right kind") from None
        if version != (1, 0) or dtype not in [np.dtype(kind) for kind in dtypes]:
            raise ValueError(f"{name} is missing or no array of the right kind")
        if len(shape) != axes or min(shape, default=0) < 0:
            raise ValueError(f"{name} is {_said(shape)} and should have {axes} axes")
        if start + math.prod(shape) * dtype.itemsize != member.file_size:
            raise ValueError(f"{name} {_said(shape)} has not the bytes that its shape takes")
        return shape, dtype, by_column, start


@contextmanager
def archive(
    file: Path | str | BinaryIO, what: str, remedy: str, largest: int, largest_file: int
) -> Generator[Archive]:
    """Open an .npz file of at most `largest_file` bytes that unpacks to at most `largest`.

    Raises ValueError, one printable line that says what the file is not (`what`) and what helps
    (`remedy`), and nothing else, also of what is found inside the block.
    """
    name = file if isinstance(file, Path | str) else getattr(file, "name", "the file")
    try:
        if isinstance(file, Path | str):
            source = safe_open(Path(file), largest_file, follow_links=True)
            with source as stream, zipfile.ZipFile(stream) as found:
                yield Archive(found, largest)
        else:
            if (size := file.seek(0, 2)) > largest_file:
                raise ValueError(f"{size:,} bytes, the limit is {largest_file:,}")
            file.seek(0)
            with zipfile.ZipFile(file) as found:
                yield Archive(found, largest)
    except ValueError as error:
        reason = str(error)
    except OSError as error:
        reason = error.strerror or "it cannot be read"
    except Exception:  # whatever a stranger's file makes of the libraries that unpack it
        reason = "it is of another kind, or damaged"
    else:
        return
    raise ValueError(f"{printable(str(name))} is not {what} ({printable(reason)[:300]}): {remedy}")


def mega(size: int) -> str:
    """A limit in bytes as a person reads it."""
    return f"{size >> 20} MB"


def _said(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape[:8]))})"
