"""Atomic file writes and hashes: what was there stays whole until what replaces it is whole."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any


def write_atomic(file: Path, content: bytes) -> None:
    """Temporary file in the same folder, fsync, rename, fsync of the folder: all or nothing."""
    write_together(file.parent, {file.name: content})


def write_together(folder: Path, contents: dict[str, bytes]) -> None:
    """Several files at once, by name: all are written and synced before the first is renamed.

    So a full disk leaves the old ones as they were. Raises OSError naming the file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    parts = {name: folder / f"{name}.part" for name in contents}
    try:
        for name, content in contents.items():
            with parts[name].open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        for name in contents:
            parts[name].replace(folder / name)
    except OSError as error:
        for part in parts.values():
            part.unlink(missing_ok=True)
        what = f"{error.strerror} (while writing {len(content):,} bytes)"
        raise OSError(error.errno, what, str(folder / name)) from None
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
