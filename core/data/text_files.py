"""Text files: fetched once and verified, or vouched for by the user; read line by line."""

import gzip
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.files import cache_folder, sha256, write_atomic

Find = Callable[[str], Path]
"""From the name of a corpus's file to where it lies on this machine."""


def finder(name: str, home: str | None, digests: dict[str, str], data: Path | None) -> Find | None:
    """Find files below `data`, or else in the user's cache, fetched from `home` and verified.

    None where there is neither `data` nor a home that serves the corpus file by file.
    """
    if data is not None:
        return lambda filename: _vouched_for(name, filename, data)
    if home is None:
        return None

    def find(filename: str) -> Path:
        file = cache_folder() / name / filename
        if not file.is_file():
            _fetch(home + filename, file, digests[filename])
        elif sha256(file.read_bytes()) != digests[filename]:
            raise ValueError(f"{file} has changed since it was fetched: delete it to fetch it anew")
        return file

    return find


def stream_lines(file: Path) -> Iterator[str]:
    """The lines of a plain or gzipped UTF-8 file, one in memory at a time.

    A line ends with \\n and nothing else. Raises ValueError where the file is no text.
    """
    try:
        with file.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
        with gzip.open(file) if zipped else file.open("rb") as lines:
            yield from decoded(lines, str(file))
    except FileNotFoundError:
        raise ValueError(f"{file} does not exist: check the path") from None
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{file} cannot be read: {error}") from None


def decoded(lines: Iterable[bytes], name: str, first: int = 1) -> Iterator[str]:
    """Lines of UTF-8, without their \\n. Raises ValueError for one that is none, by its number."""
    for number, line in enumerate(lines, start=first):
        if b"\0" in line:
            raise ValueError(
                f"{name} line {number} holds a NUL byte: it is no text, or UTF-16; "
                "convert it to UTF-8 first"
            )
        try:
            yield line.removesuffix(b"\n").decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name} line {number} is not UTF-8 (byte {error.start}): convert it first"
            ) from None


def read_lines(file: Path) -> list[str]:
    """All lines of `stream_lines`."""
    return list(stream_lines(file))


@dataclass(frozen=True)
class LinePairs:
    """Line i of one file beside line i of the other, read anew each time one iterates."""

    source: Path
    target: Path

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yields (source, target). Raises ValueError if the counts differ, where one ends."""
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

    def _unequal(self, source: int, target: int) -> ValueError:
        return ValueError(
            f"{self.source.name} has {source:,} lines and {self.target.name} has {target:,}: "
            "a parallel corpus needs the same number, line for line"
        )


def _vouched_for(name: str, filename: str, data: Path) -> Path:
    plain = filename.removesuffix(".gz")
    names = (filename, plain, Path(plain).name)
    candidates = [folder / f for folder in (data / name, data) for f in names]
    for file in candidates:
        if file.is_file():
            return file
    raise ValueError(f"{candidates[0]} does not exist: --data needs a folder with {name}/")


def _fetch(url: str, file: Path, digest: str) -> None:
    """Download, verify, then keep: a broken download never counts as one."""
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            content = response.read()
    except OSError as error:
        raise ValueError(
            f"cannot fetch {url} ({error}): check the network or pass --data"
        ) from None
    if sha256(content) != digest:
        raise ValueError(f"{url} has SHA-256 {sha256(content)}, expected {digest}: not kept")
    write_atomic(file, content)
