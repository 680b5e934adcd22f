"""Atomic writes, hashes, and reads that neither a link, a pipe nor a huge file can hold up."""

import errno
import glob
import hashlib
import json
import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

MOST_SETTINGS = 64 << 10
"""Bytes of config.json and of metrics.json: the project's own have 2 to 5 KB."""

# A pipe is not waited for, and a link is followed only where the caller says so. POSIX has all of
# these flags, Windows has the last one only.
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def cache_folder() -> Path:
    """Where this user keeps what can be fetched or made again.

    As the XDG specification says, an XDG_CACHE_HOME that is empty or relative is ignored: what is
    in the current folder may be a stranger's. Raises RuntimeError for a user without a home.
    """
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():
        return given / "headlight"
    home = Path.home()
    if not home.is_absolute():
        raise RuntimeError(f"the home folder {str(home)!r} is not absolute: set HOME")
    return home / ".cache" / "headlight"


@contextmanager
def opened(
    file: Path, largest: int, size: int | None = None, *, links: bool = False
) -> Generator[BinaryIO]:
    """A regular file of at most `largest` bytes, and of exactly `size` where that is known.

    It is looked at through its descriptor, so that nothing put in its place can be read instead.
    `links` follows links: for a file that a person named, not for one that a folder brought along.
    Raises ValueError for anything but a regular file, and OSError.
    """
    if not links:
        _check(os.lstat(file), largest, size)
    descriptor = os.open(file, _FLAGS | (0 if links else _NO_LINK))
    try:
        _check(os.fstat(descriptor), largest, size)
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            yield stream
    finally:
        os.close(descriptor)


def read(file: Path, largest: int, size: int | None = None, *, links: bool = False) -> bytes:
    """The content of a file as `opened` opens it. Raises ValueError and OSError as that does."""
    with opened(file, largest, size, links=links) as stream:
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
    if stat.S_ISDIR(found.st_mode):
        raise ValueError("it is a folder, no regular file")
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no regular file")
    if found.st_size > largest:
        raise ValueError(f"{found.st_size:,} bytes, the limit is {largest:,}")
    if size is not None and found.st_size != size:
        raise ValueError(f"{found.st_size:,} bytes, expected {size:,}")


def printable(text: str) -> str:
    """One line without control characters and `code` marks: files of strangers are quoted in it."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split()).replace("`", "'")


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
        _created(part).close()
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
    """The mark of the switch as it is; None where there is none that can be settings."""
    try:
        return _mark(read(folder / switch, MOST_SETTINGS))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


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
        with _created(file) as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        what = f"{error.strerror} (while writing {len(content):,} bytes)"
        raise OSError(error.errno, what, str(file).removesuffix(".part")) from None


def _created(file: Path) -> BinaryIO:
    """A new file, open for writing. What a folder brought along under this name goes.

    Opened as it is, a link would lead the content into another file, and a pipe be waited for.
    """
    file.unlink(missing_ok=True)
    return file.open("xb")


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
