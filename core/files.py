"""Atomic file writes and hashes: what was there stays whole until what replaces it is whole."""

import errno
import glob
import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """Where this user keeps what can be fetched or made again."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headlight"


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


def check_writable(file: Path) -> None:
    """Raises OSError where a file cannot be written; it tries, and leaves nothing behind."""
    if file.exists() and not file.is_file():
        if file.is_dir() or not os.access(file, os.W_OK):
            code = errno.EISDIR if file.is_dir() else errno.EACCES
            raise OSError(code, os.strerror(code), str(file))
        return  # a pipe, whose reader must not see it opened and closed, or a device
    file = file.resolve()
    missing = [folder for folder in file.parents if not folder.exists()]
    part = file.with_name(f"{file.name}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.open("wb").close()
        part.unlink()
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise OSError(error.errno, error.strerror, str(file)) from None
    finally:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()


def write_together(folder: Path, contents: dict[str, bytes], switch: str) -> None:
    """Several files by name, all or nothing even if the process is killed: the `switch` decides.

    The others are written beside those that are there, under names that hold a hash of the switch
    that asks for them. Its own rename is the one moment in which all of them become valid, and only
    then do they take their plain names; until they have, `current` finds them. What a killed
    attempt left goes with the next one. Raises OSError naming the file; before that moment with
    nothing changed or left behind.
    """
    folder.mkdir(parents=True, exist_ok=True)
    finish_together(folder, switch)
    _clean(folder, contents)
    mark = _mark(contents[switch])
    others = [name for name in contents if name != switch]
    try:
        for name in [*others, switch]:
            _write(folder / f"{name}.part", contents[name])
        for name in others:
            (folder / f"{name}.part").replace(folder / _waiting(name, mark))
        _sync(folder)
        (folder / f"{switch}.part").replace(folder / switch)
    except BaseException:
        # Under a switch that stays as it was, the others bear its mark before it is renamed.
        if (folder / f"{switch}.part").is_file() or not _marked(folder, switch):
            _clean(folder, contents)
        raise
    try:
        _sync(folder)
    finally:
        finish_together(folder, switch)
        _sync(folder)


def current(folder: Path, name: str, switch: str) -> Path:
    """Where the file lies that belongs to the switch as it is: mostly under its plain name."""
    mark = _mark_now(folder, switch)
    waiting = folder / _waiting(name, mark) if mark else None
    return waiting if waiting and waiting.is_file() else folder / name


def finish_together(folder: Path, switch: str) -> None:
    """Give the files that belong to the switch as it is their names; mostly there is none to do.

    Raises OSError where the folder cannot be written to.
    """
    for file in _marked(folder, switch):
        with suppress(FileNotFoundError):  # another process was quicker
            file.replace(folder / _plain(file.name))


def _marked(folder: Path, switch: str) -> list[Path]:
    """The files that wait for the switch as it is."""
    mark = _mark_now(folder, switch)
    return sorted(folder.glob(f"*-{mark}*")) if mark else []


_MARK = 12  # digits


def _mark(content: bytes) -> str:
    return sha256(content)[:_MARK]


def _mark_now(folder: Path, switch: str) -> str | None:
    file = folder / switch
    return _mark(file.read_bytes()) if file.is_file() else None


def _waiting(name: str, mark: str) -> str:
    """model.safetensors waits as model-0123456789ab.safetensors."""
    stem, dot, suffix = name.partition(".")
    return f"{stem}-{mark}{dot}{suffix}"


def _plain(waiting: str) -> str:
    stem, dot, suffix = waiting.partition(".")
    return f"{stem[: -_MARK - 1]}{dot}{suffix}"


def _clean(folder: Path, names: Iterable[str]) -> None:
    for name in map(glob.escape, names):
        for waiting in (f"{name}.part", _waiting(name, "[0-9a-f]" * _MARK)):
            for file in folder.glob(waiting):
                file.unlink(missing_ok=True)


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
