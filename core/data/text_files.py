"""Text files: downloaded and verified, or provided by the user; read line by line."""

import bz2
import gzip
import lzma
import sys
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.files import cache_folder, printable, sha256, write_atomic
from core.text.line import warning

Find = Callable[[str], Path]
"""Maps the name of a corpus file to its local path."""


def finder(name: str, home: str | None, digests: dict[str, str], data: Path | None) -> Find | None:
    """Return a function that finds files in `data` or, without `data`, downloads and verifies them.

    Returns None if there is neither `data` nor a `home` to download from.
    """
    if data is not None:
        return lambda filename: _local_file(name, filename, data)
    if home is None:
        return None

    def find(filename: str) -> Path:
        file = cache_folder() / name / filename
        if not file.is_file():
            _fetch(home + filename, file, digests[filename])
        elif sha256(file.read_bytes()) != digests[filename]:
            raise ValueError(f"{file} has changed since the download: delete it to fetch it again")
        return file

    return find


_MAGIC: tuple[tuple[bytes, Callable[[Any], Any]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"\xfd7zXZ\x00", lzma.open),
    (b"BZh", bz2.open),
)
_ZSTD = b"\x28\xb5\x2f\xfd"
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def stream_lines(file: Path, max_line: int | None = None) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, plain or compressed by gzip, xz or bzip2, one at a time.

    Only \\n ends a line; a byte-order mark at the start is dropped. The file is opened once, so it
    may be a pipe. Raises ValueError if it is missing, unreadable or not text, or if a line has more
    than `max_line` bytes.
    """
    try:
        with file.open("rb") as raw:
            start = raw.peek(6)[:6]
            if start.startswith(_ZSTD):
                raise ValueError(f"{file} is compressed with zstd: unpack it first")
            unpack = next((opener for magic, opener in _MAGIC if start.startswith(magic)), None)
            with unpack(raw) if unpack else nullcontext(raw) as lines:
                if max_line is not None:
                    lines = _limited(lines, max_line, file)
                yield from decode_lines(lines, str(file))
    except FileNotFoundError:
        raise ValueError(f"{file} does not exist: check the path") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from None


def _limited(stream: Any, max_line: int, file: Path) -> Iterator[bytes]:
    """Yield lines without ever reading more than `max_line` bytes and one. Raises ValueError."""
    number = 1
    while line := stream.readline(max_line + 1):
        if len(line) > max_line:
            raise ValueError(
                f"{file} line {number} has more than {max_line:,} bytes: give one sentence or word "
                "per line"
            )
        yield line
        number += 1


def decode_lines(lines: Iterable[bytes], name: str, first: int = 1) -> Iterator[str]:
    """Decode UTF-8 lines without their \\n and without a byte-order mark in line 1.

    `first` is the number of the first line. Raises ValueError for UTF-16 and for a file whose
    lines end with \\r only. Also raises it, with the line number, for a line that has a NUL byte or
    is not UTF-8.
    """
    for number, line in enumerate(lines, start=first):
        if number == 1:
            if line.startswith(_UTF16):
                raise ValueError(f"{name} is UTF-16: convert it to UTF-8 first")
            line = line.removeprefix(_BOM)
            if not line.endswith(b"\n") and b"\r" in line.rstrip(b"\r"):
                raise ValueError(f"{name} ends its lines with \\r only: convert them to \\n first")
        if b"\0" in line:
            raise ValueError(
                f"{name} line {number} contains a NUL byte: it is not text, or it is UTF-16; "
                "convert it to UTF-8 first"
            )
        try:
            yield line.removesuffix(b"\n").decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name} line {number} is not UTF-8 (byte {error.start}): convert it first"
            ) from None


def refuse_pipes(files: Iterable[Path], reader: str) -> None:
    """Raise ValueError for a pipe among files that the `reader` needs to read more than once."""
    for file in files:
        if file.exists() and not file.is_file():
            raise ValueError(
                f"{file} is no regular file, and {reader} reads it more than once: give a file"
            )


def read_lines(file: Path) -> list[str]:
    """Return all lines of `stream_lines` as a list."""
    return list(stream_lines(file))


@dataclass(frozen=True)
class LinePairs:
    """Pairs of the lines of two files; each iteration reads the files again."""

    source: Path
    target: Path

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield (source, target).

        Raises ValueError at once if both sides are the same pipe, or after the last line of the
        shorter file if the other has more lines.
        """
        if self._same_pipe():
            raise ValueError(f"{self.source} is the source and the target: give two files or pipes")
        source, target = stream_lines(self.source), stream_lines(self.target)
        count = 0
        for left in source:
            right = next(target, None)
            if right is None:
                raise self._unequal(count + 1 + sum(1 for _ in source), count)
            yield left, right
            count += 1
        if rest := sum(1 for _ in target):
            raise self._unequal(count, count + rest)

    def _same_pipe(self) -> bool:
        both = self.source, self.target
        if not all(file.exists() and not file.is_file() for file in both):
            return False
        return self.source.samefile(self.target)

    def _unequal(self, source: int, target: int) -> ValueError:
        return ValueError(
            f"{self.source} has {source:,} lines and {self.target} has {target:,}: "
            "a parallel corpus needs the same number, line for line"
        )


_WARNED_LINES = 12  # of one file, at most


def write_marks_of_pairs(source: Path, target: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Warn on stderr about lines of two files that contain marks of other tools."""
    files = source, target
    marked: tuple[list[str], list[str]] = [], []
    counts = [0, 0]
    for number, pair in enumerate(pairs, start=1):
        for side, words in enumerate(map(warning, pair)):
            if words and len(marked[side]) < _WARNED_LINES:
                marked[side].append(f"{files[side].name} line {number} has {words}")
            counts[side] += bool(words)
    for lines, count in zip(marked, counts, strict=True):
        rest = count - len(lines)
        for line in lines + [f"and {rest:,} more lines"] * (rest > 0):
            sys.stderr.write(printable(line) + "\n")


def _local_file(name: str, filename: str, data: Path) -> Path:
    plain = filename.removesuffix(".gz")
    names = (filename, plain, Path(plain).name)
    candidates = [folder / f for folder in (data / name, data) for f in names]
    for file in candidates:
        if file.is_file():
            return file
    raise ValueError(
        f"{candidates[0]} does not exist: put {Path(plain).name} into the --data folder"
    )


def _fetch(url: str, file: Path, digest: str) -> None:
    """Download and verify a file, then store it."""
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            content = response.read()
    except OSError as error:
        raise ValueError(
            f"cannot download {url} ({error}): check the network or pass --data"
        ) from None
    if sha256(content) != digest:
        raise ValueError(f"{url} has SHA-256 {sha256(content)}, not {digest}: it is not kept")
    write_atomic(file, content)
