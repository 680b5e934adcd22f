"""Atomic file writes and hashes: what was there stays whole until what replaces it is whole."""

import glob
import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any


def write_atomic(file: Path, content: bytes) -> None:
    """Temporary file in the same folder, fsync, rename, fsync of the folder: all or nothing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.part")
    try:
        _write(part, content)
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync(file.parent)


def write_together(folder: Path, contents: dict[str, bytes], switch: str) -> None:
    """Several files by name, all or nothing even if the process is killed: the `switch` decides.

    The others wait beside it under a mark of its new content. The moment in which it is renamed
    makes them valid, and only then do they take their names; what a kill leaves undone of that
    `finish_together` does. Raises OSError naming the file, with the old files as they were.
    """
    folder.mkdir(parents=True, exist_ok=True)
    finish_together(folder, switch)
    _clean(folder, contents)  # of an attempt that was killed
    mark = _mark(contents[switch])
    others = [name for name in contents if name != switch]
    try:
        for name in [*others, switch]:
            _write(folder / f"{name}.part", contents[name])
        for name in others:
            (folder / f"{name}.part").replace(folder / f"{name}.{mark}.part")
        _sync(folder)
        (folder / f"{switch}.part").replace(folder / switch)
    except BaseException:
        if not _marked(folder, switch):
            _clean(folder, contents)
        raise
    try:
        _sync(folder)
    finally:
        finish_together(folder, switch)
        _sync(folder)


def finish_together(folder: Path, switch: str) -> None:
    """Give the files that belong to the switch as it is their names; mostly there is none to do.

    Raises OSError where the folder cannot be written to.
    """
    for part in _marked(folder, switch):
        with suppress(FileNotFoundError):  # another process was quicker
            part.replace(folder / part.name.removesuffix(".part").rpartition(".")[0])


def _marked(folder: Path, switch: str) -> list[Path]:
    """The files that wait for the switch as it is."""
    parts = list(folder.glob("*.????????.part"))
    if not parts or not (folder / switch).is_file():
        return []
    mark = _mark((folder / switch).read_bytes())
    return sorted(part for part in parts if part.name.endswith(f".{mark}.part"))


def _mark(content: bytes) -> str:
    return sha256(content)[:8]


def _clean(folder: Path, names: Iterable[str]) -> None:
    for name in map(glob.escape, names):
        for part in (*folder.glob(f"{name}.part"), *folder.glob(f"{name}.????????.part")):
            part.unlink(missing_ok=True)


def _write(file: Path, content: bytes) -> None:
    """Raises OSError naming the file that this is a part of."""
    try:
        with file.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        what = f"{error.strerror} (while writing {len(content):,} bytes)"
        raise OSError(error.errno, what, str(file).removesuffix(".part")) from None


def _sync(folder: Path) -> None:
    if os.name == "posix":  # elsewhere a folder cannot be opened to be synced
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def write_json(file: Path, values: Any) -> None:
    """A JSON file, written atomically."""
    write_atomic(file, json_bytes(values))


def json_bytes(values: Any) -> bytes:
    """What a JSON file holds. Raises ValueError for a number that is none."""
    text = json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False)
    return (text + "\n").encode()


def sha256(content: bytes) -> str:
    """The SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
