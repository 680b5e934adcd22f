"""Opens the files of a folder that strangers may have filled: regular ones, and no links."""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from core.checkpoint.problem import missing, unusable

# A link is not followed and a pipe not waited for; both flags are POSIX's.
_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)


@contextmanager
def opened(file: Path, largest: int, size: int | None = None) -> Generator[BinaryIO]:
    """A regular file of at most `largest` bytes, and of exactly `size` where that is known.

    Raises CheckpointError for anything else; a device is not even opened.
    """
    try:
        _check_regular(file, os.lstat(file))
        descriptor = os.open(file, _FLAGS)
    except FileNotFoundError:
        raise missing(file) from None
    except OSError as error:
        if error.errno == errno.ELOOP:  # it has become a link since
            raise _link(file) from None
        raise unusable(file, f"it cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        _check_regular(file, found)
        if found.st_size > largest:
            raise unusable(file, f"{found.st_size:,} bytes, the limit is {largest:,}")
        if size is not None and found.st_size != size:
            raise unusable(file, f"{found.st_size:,} bytes, expected {size:,}")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            yield stream
    finally:
        os.close(descriptor)


def read(file: Path, largest: int, size: int | None = None) -> bytes:
    """The content of a file as `opened` opens it. Raises CheckpointError."""
    with opened(file, largest, size) as stream:
        return read_exactly(file, stream, os.fstat(stream.fileno()).st_size)


def read_exactly(file: Path, stream: BinaryIO, size: int) -> bytes:
    """The next bytes of an opened file. Raises CheckpointError where there are fewer."""
    try:
        content = stream.read(size)
    except OSError as error:
        raise unusable(file, f"it cannot be read: {error.strerror}") from None
    if len(content) != size:
        raise unusable(file, f"it ends after {len(content):,} of {size:,} bytes")
    return content


def _check_regular(file: Path, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise _link(file)
    if not stat.S_ISREG(found.st_mode):
        raise unusable(file, "it is no regular file")


def _link(file: Path) -> ValueError:
    return unusable(file, "it is a link, which is not followed")
