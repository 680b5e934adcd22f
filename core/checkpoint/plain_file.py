"""Opens the files of a folder that strangers may have filled: regular ones, and no links."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

# A link is not followed and a pipe not waited for; both flags are POSIX's.
_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)


@contextmanager
def opened(file: Path, largest: int, size: int | None = None) -> Generator[BinaryIO]:
    """A regular file of at most `largest` bytes, and of exactly `size` where that is known.

    Raises ValueError for anything else, which is not even opened, and OSError.
    """
    _check(os.lstat(file), largest, size)
    descriptor = os.open(file, _FLAGS)
    try:
        _check(os.fstat(descriptor), largest, size)  # it may have become another file since
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            yield stream
    finally:
        os.close(descriptor)


def read(file: Path, largest: int, size: int | None = None) -> bytes:
    """The content of a file as `opened` opens it. Raises ValueError and OSError as that does."""
    with opened(file, largest, size) as stream:
        return read_exactly(stream, os.fstat(stream.fileno()).st_size)


def read_exactly(stream: BinaryIO, size: int) -> bytes:
    """The next bytes of an opened file. Raises ValueError where there are fewer."""
    content = stream.read(size)
    if len(content) != size:
        raise ValueError(f"it ends after {len(content):,} of {size:,} bytes")
    return content


def _check(found: os.stat_result, largest: int, size: int | None) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise ValueError("it is a link, which is not followed")
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no regular file")
    if found.st_size > largest:
        raise ValueError(f"{found.st_size:,} bytes, the limit is {largest:,}")
    if size is not None and found.st_size != size:
        raise ValueError(f"{found.st_size:,} bytes, expected {size:,}")
