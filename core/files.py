"""Atomic writes, hashes, and reads that are safe against links, pipes and huge files."""

import ctypes
import errno
import gc
import glob
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

MAX_CONFIG_BYTES = 64 << 10
"""Largest accepted config.json or metrics.json; the project's own have 2 to 9 KB."""

# Never wait for a pipe; follow a link only on request. Windows has only O_BINARY, and POSIX has all
# flags but O_BINARY.
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CHUNK = 4 << 20  # bytes of a file copied at once


def release_memory() -> None:
    """Return freed memory to the system, if the C library can; by default it is retained."""
    gc.collect()
    with suppress(OSError, TypeError, AttributeError):  # only glibc has malloc_trim
        ctypes.CDLL(None).malloc_trim(0)


def cache_folder() -> Path:
    """Return the user's cache folder.

    An empty or relative XDG_CACHE_HOME is ignored, as the XDG specification requires: the current
    folder may hold untrusted files. Raises RuntimeError if the user has no home folder.
    """
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():
        return given / "headlight"
    home = Path.home()
    if not home.is_absolute():
        raise RuntimeError(f"the home folder {str(home)!r} is not absolute: set HOME")
    return home / ".cache" / "headlight"


@contextmanager
def safe_open(
    file: Path, max_bytes: int, size: int | None = None, *, follow_links: bool = False
) -> Generator[BufferedReader]:
    """Open a regular file of at most `max_bytes`, and of exactly `size` bytes if given.

    The checks use the open descriptor, so the file cannot be swapped after them. Set `follow_links`
    only for a file that the user named, not for one inside an untrusted folder. Raises ValueError
    for anything but a regular file of the right size, and OSError if it cannot be opened.
    """
    if not follow_links:
        _check(os.lstat(file), max_bytes, size)
    try:
        descriptor = os.open(file, _FLAGS | (0 if follow_links else _NO_FOLLOW))
    except OSError as error:  # swapped since the check: a link, or a socket
        if follow_links or error.errno not in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise
        what = (
            "not a regular file" if error.errno == errno.ENXIO else "a link, which is not followed"
        )
        raise ValueError(f"it is {what}") from None
    try:
        _check(os.fstat(descriptor), max_bytes, size)
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            yield stream
    finally:
        os.close(descriptor)


def safe_read(
    file: Path, max_bytes: int, size: int | None = None, *, follow_links: bool = False
) -> bytes:
    """Read a file opened by `safe_open`. Raises ValueError and OSError."""
    with safe_open(file, max_bytes, size, follow_links=follow_links) as stream:
        return read_exactly(stream, os.fstat(stream.fileno()).st_size)


def read_exactly(stream: BinaryIO, size: int) -> bytes:
    """Read the next `size` bytes. Raises ValueError if the file ends earlier."""
    content = stream.read(size)
    if len(content) != size:
        raise ValueError(f"it ends after {len(content):,} of {size:,} bytes")
    return content


def _check(status: os.stat_result, max_bytes: int, size: int | None) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise ValueError("it is a link, which is not followed")
    if stat.S_ISDIR(status.st_mode):
        raise ValueError("it is a folder, not a regular file")
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a regular file")
    if status.st_size > max_bytes:
        raise ValueError(f"{status.st_size:,} bytes, the limit is {max_bytes:,}")
    if size is not None and status.st_size != size:
        raise ValueError(f"{status.st_size:,} bytes, expected {size:,}")


def printable(text: str) -> str:
    """Reduce untrusted text to one line without control characters and Markdown code marks."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split()).replace("`", "'")


def write_atomic(file: Path, content: bytes) -> None:
    """Write a temporary file in the same folder, fsync, rename, and fsync the folder."""
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
    """Check that a file could be written, without changing it. Raises OSError if it could not."""
    if file.exists() and not file.is_file():
        if file.is_dir() or not os.access(file, os.W_OK):
            code = errno.EISDIR if file.is_dir() else errno.EACCES
            raise OSError(code, os.strerror(code), str(file))
        return  # a device or a pipe, whose reader must not see it opened and closed
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


Content = bytes | Path
"""What to write: bytes, or a file to copy, which may be larger than memory."""


def content_size(content: Content) -> int:
    """Return the number of bytes of a content."""
    return content.stat().st_size if isinstance(content, Path) else len(content)


def write_transaction(folder: Path, contents: Mapping[str, Content], manifest: str) -> None:
    """Write several named files, either all or none, even if the process is killed.

    The content of `manifest` must be bytes. The other files are first staged under names that
    contain a hash of the new manifest. Renaming the manifest into place commits them. Then they
    are renamed to their plain names; until then, `committed_file` finds them under their staged
    names. The next call removes the staged files of a killed call.

    Raises OSError naming the file; an error before the commit leaves the old files in effect.
    """
    folder.mkdir(parents=True, exist_ok=True)
    finish_commit(folder, manifest)
    _remove_staged(folder, contents)
    own = contents[manifest]
    if isinstance(own, Path):
        raise TypeError("the manifest must be given as bytes")
    tag = _tag(own)
    others = [name for name in contents if name != manifest]
    try:
        for name in [*others, manifest]:
            _write(folder / f"{name}.part", contents[name])
        for name in others:
            (folder / f"{name}.part").replace(folder / _staged_name(name, tag))
        _sync(folder)
        (folder / f"{manifest}.part").replace(folder / manifest)
    except BaseException:
        # If the new manifest equals the old one, staged files count as committed before the rename.
        if (folder / f"{manifest}.part").is_file() or not _committed(folder, manifest):
            _remove_staged(folder, contents)
        raise
    try:
        _sync(folder)
    finally:
        finish_commit(folder, manifest)
        _sync(folder)


def write_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Let `write` create a folder elsewhere, then rename it into place: all or nothing, if killed.

    `folder` must be missing or empty. A killed call leaves a hidden folder in the same place, which
    the next call for the same name removes. Raises OSError.
    """
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".writing-{folder.name[:100]}-"
    for stale in folder.parent.glob(f"{glob.escape(prefix)}*"):
        with suppress(OSError), _locked(stale):  # another process may be writing into it
            shutil.rmtree(stale, ignore_errors=True)
    with (
        TemporaryDirectory(prefix=prefix, dir=folder.parent, ignore_cleanup_errors=True) as place,
        _locked(Path(place)),
    ):
        new = Path(place) / folder.name
        write(new)
        _sync(new)
        if folder.is_dir():
            folder.rmdir()  # Windows replaces no folder, not even an empty one
        new.replace(folder)
    with suppress(OSError):  # the folder is complete; only a power failure could still undo this
        _sync(folder.parent)


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Hold a lock that ends with the process. Raises OSError if another process holds it."""
    if os.name != "posix":  # Windows cannot open folders, nor remove those with open files
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def committed_file(folder: Path, name: str, manifest: str) -> Path:
    """Return the path of the file that the current manifest refers to, staged or plain."""
    tag = _current_tag(folder, manifest)
    staged = folder / _staged_name(name, tag) if tag else None
    return staged if staged and staged.is_file() else folder / name


def finish_commit(folder: Path, manifest: str) -> None:
    """Rename the staged files of the current manifest to their plain names, if there are any.

    Raises OSError if the folder is not writable.
    """
    for file in _committed(folder, manifest):
        with suppress(FileNotFoundError):  # another process has renamed it
            file.replace(folder / _plain_name(file.name))


def _committed(folder: Path, manifest: str) -> list[Path]:
    """Return the staged files of the current manifest."""
    tag = _current_tag(folder, manifest)
    return sorted(folder.glob(f"*-{tag}*")) if tag else []


_TAG_DIGITS = 12


def _tag(content: bytes) -> str:
    return sha256(content)[:_TAG_DIGITS]


def _current_tag(folder: Path, manifest: str) -> str | None:
    """Return the tag of the current manifest, or None if it is missing or invalid."""
    try:
        return _tag(safe_read(folder / manifest, MAX_CONFIG_BYTES))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def _staged_name(name: str, tag: str) -> str:
    """Return the staged name: model.safetensors → model-0123456789ab.safetensors."""
    stem, dot, suffix = name.partition(".")
    return f"{stem}-{tag}{dot}{suffix}"


def _plain_name(staged: str) -> str:
    stem, dot, suffix = staged.partition(".")
    return f"{stem[: -_TAG_DIGITS - 1]}{dot}{suffix}"


def _remove_staged(folder: Path, names: Iterable[str]) -> None:
    for name in map(glob.escape, names):
        for pattern in (f"{name}.part", _staged_name(name, "[0-9a-f]" * _TAG_DIGITS)):
            for file in folder.glob(pattern):
                file.unlink(missing_ok=True)


def _write(file: Path, content: Content) -> None:
    """Write and fsync. Raises OSError naming the file without its `.part`."""
    try:
        with _created(file) as stream:
            if isinstance(content, Path):
                with content.open("rb") as other:
                    shutil.copyfileobj(other, stream, _CHUNK)
            else:
                stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        what = f"{error.strerror} (while writing {content_size(content):,} bytes)"
        raise OSError(error.errno, what, str(file).removesuffix(".part")) from None


def _created(file: Path) -> BinaryIO:
    """Create a file and open it for writing; remove whatever had its name.

    Opening an existing link would write into its target, and opening a pipe would block.
    """
    file.unlink(missing_ok=True)
    return file.open("xb")


def _sync(folder: Path) -> None:
    if os.name == "posix":  # Windows cannot open folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_json(file: Path, values: Any) -> None:
    """Write a JSON file atomically."""
    write_atomic(file, json_bytes(values))


def json_bytes(values: Any) -> bytes:
    """Encode values as JSON text. Raises ValueError for NaN and infinities."""
    text = json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False)
    return (text + "\n").encode()


def sha256(content: Content) -> str:
    """Return the SHA-256 of bytes or of a file in hexadecimal."""
    if isinstance(content, Path):
        with content.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    return hashlib.sha256(content).hexdigest()
