"""Atomic file writes and hashes: what was there stays whole until what replaces it is whole."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any


def write_atomic(file: Path, content: bytes) -> None:
    """Temporary file in the same folder, fsync, rename, fsync of the folder: all or nothing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    try:
        with part.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened to be synced
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_json(file: Path, values: Any) -> None:
    """A JSON file, written atomically."""
    text = json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False)
    write_atomic(file, (text + "\n").encode())


def sha256(content: bytes) -> str:
    """The SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
