"""Compile step.c, once on a machine, and load it; without a compiler torch does its work.

HEADLIGHT_COMPILED=0 in the environment switches it off.
"""

import ctypes
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from ctypes import c_double, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path

from core.files import cache_folder

SWITCH = "HEADLIGHT_COMPILED"
_SOURCE = Path(__file__).with_name("step.c")
_FLAGS = "-std=gnu11 -O3 -march=native -ffp-contract=fast -fopenmp-simd -fno-math-errno".split()
_PATIENCE = 60  # seconds that a compiler may take; one is usual


@cache
def library() -> ctypes.CDLL | None:
    """The compiled step.c; None without a compiler, and for whatever else goes wrong with it."""
    if os.environ.get(SWITCH) == "0" or os.name != "posix":
        return None
    try:
        found = ctypes.CDLL(str(compiled(cache_folder() / "compiled")))
    except (OSError, RuntimeError, subprocess.SubprocessError):
        return None
    pointer, number = c_void_p, c_int64
    found.panel.restype = number
    for name, arguments in {
        "product": (pointer, pointer, number, c_int, pointer),
        "likeliest": (pointer, number, number, number, number, pointer, pointer),
        "smoothed": (
            *(c_int, pointer, number, number, pointer, c_double, c_double, pointer, pointer),
        ),
        "continuations": (pointer, pointer, *[number] * 6, pointer, pointer, pointer),
        "decode": (
            *(pointer, number, number, number, number, number, pointer, pointer, number, number),
            *(pointer, pointer, number, pointer, pointer, pointer, pointer),
        ),
    }.items():
        function = getattr(found, name)
        function.restype, function.argtypes = None, arguments
    found.smoothed.restype = c_double
    return found


def compiled(folder: Path) -> Path:
    """The library in this folder; its name says of which source, compiler and processor it is.

    Raises OSError, SubprocessError, or RuntimeError (of a user without a home) where none can be.
    """
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    known = _run(compiler, "-dM", "-E", "-x", "c", os.devnull)  # version; what `native` stands for
    content = b"\0".join((_SOURCE.read_bytes(), known, *map(str.encode, _FLAGS)))
    file = folder / f"step-{hashlib.sha256(content).hexdigest()[:32]}.so"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not file.exists():
        with tempfile.TemporaryDirectory(dir=folder) as part:
            made = Path(part, file.name)
            _run(compiler, "-shared", "-fPIC", str(_SOURCE), "-o", str(made), "-lm")
            made.chmod(0o600)
            made.replace(file)
    _check_private(file)
    return file


def _run(compiler: str, *arguments: str) -> bytes:
    command = [compiler, *_FLAGS, *arguments]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=_PATIENCE
    ).stdout


def _check_private(file: Path) -> None:
    """Raises PermissionError where another user could put a library of theirs in this place."""
    folder = file.parent.resolve()
    for place in (folder / file.name, folder, *folder.parents):
        status = place.lstat()  # of a link itself: what it leads to was not looked at
        open_to_others = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
        if stat.S_ISLNK(status.st_mode) or open_to_others or status.st_uid not in (0, os.getuid()):
            raise PermissionError(f"{place} could be another user's")
