"""Open the files of another project; say in one line what is wrong with one, and what to do."""

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from core.checkpoint.strict_json import parse
from core.files import printable, read_exactly, safe_open
from core.typed import typed

_POINTER = b"version https://git-lfs.github.com/spec/"
_PAGES = (b"<!doctype html", b"<html")


def shown(path: Path) -> str:
    """Return a path for a message: one printable line of at most 300 characters."""
    return printable(str(path))[:300]


@contextmanager
def opened(file: Path, max_bytes: int) -> Generator[BufferedReader]:
    """Open a regular file, or a link to one, of at most `max_bytes`.

    Raises ValueError for anything else: a missing file, a pipe, a folder, a Git LFS pointer (what
    `git clone` writes without git-lfs), or a web page saved instead of the file.
    """
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(safe_open(file, max_bytes, follow_links=True))
        except FileNotFoundError:
            raise ValueError(_missing(file)) from None
        except (ValueError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ValueError(
                f"{shown(file)} cannot be read ({reason}): check the path, and get the file again"
            ) from None
        start = stream.peek(64)[:64]
        if start.startswith(_POINTER):
            raise ValueError(
                f"{shown(file)} is a Git LFS pointer, not the file itself: run `git lfs pull` in "
                "its folder"
            )
        if start.lstrip().lower().startswith(_PAGES):
            raise ValueError(f"{shown(file)} is a web page: download the file itself")
        yield stream


def read(file: Path, max_bytes: int) -> bytes:
    """Return the content of a file opened by `opened`. Raises ValueError."""
    with opened(file, max_bytes) as stream:
        return read_exactly(stream, os.fstat(stream.fileno()).st_size)


def read_json(kind: Any, file: Path, max_bytes: int, max_items: int) -> Any:
    """Return the JSON of a file opened by `opened`, as `kind` (see core.typed).

    Raises ValueError.
    """
    content = read(file, max_bytes)
    try:
        return typed(kind, parse(content, max_items))
    except ValueError as error:
        raise ValueError(
            f"{shown(file)} cannot be read ({printable(str(error))[:200]}): get the file again"
        ) from None


@contextmanager
def naming(file: Path) -> Generator[None]:
    """Put the file's name in front of a setting that no network here may have (ValueError)."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{shown(file)}: {error}: such a network cannot be converted") from None


def _missing(file: Path) -> str:
    if file.is_symlink():
        return f"{shown(file)} is a link to a missing file: get the whole folder again"
    folder = file.parent
    names = [entry.name for entry in os.scandir(folder)] if folder.is_dir() else []
    if odd := sorted(name for name in names if name.endswith((".yml", ".yaml"))):
        return (
            f"{shown(file)} is missing, but {printable(odd[0])[:100]} is in Marian's own format, "
            "in which OPUS-MT distributes networks: convert them with transformers' "
            "convert_marian_to_pytorch, and give the folder that it writes"
        )
    return f"{shown(file)} is missing: give the whole folder, as save_pretrained writes it"
