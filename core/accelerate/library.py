"""Compile step.c once per machine and load it; without a compiler, fall back to torch.

HEADLIGHT_COMPILED=0 in the environment disables the library.
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
_TIMEOUT_S = 60  # for the compiler, which usually takes one second


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled step.c; None if disabled, without a compiler or after any failure."""
    if os.environ.get(SWITCH) == "0" or os.name != "posix":
        return None
    try:
        loaded = ctypes.CDLL(str(compiled(cache_folder() / "compiled")))
    except (OSError, RuntimeError, subprocess.SubprocessError):  # RuntimeError: no home folder
        return None
    pointer, number = c_void_p, c_int64
    loaded.panel.restype = number
    for name, arguments in {
        "product": (pointer, pointer, number, pointer),
        "top_k_log_probs": (pointer, number, number, number, number, pointer, pointer),
        "smoothed_cross_entropy": (
            *(c_int, pointer, number, number, pointer, c_double, c_double, pointer, pointer),
        ),
        "beam_candidates": (pointer, pointer, *[number] * 6, pointer, pointer, pointer),
        "decode": (
            *(pointer, *[number] * 6, pointer, pointer, number, number),
            *(pointer, pointer, number, *[pointer] * 5),
        ),
    }.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = None, arguments
    loaded.smoothed_cross_entropy.restype = c_double
    return loaded


def compiled(folder: Path) -> Path:
    """Return the library's file, compiled unless it exists.

    Its name contains a hash of the source, the compiler, the CPU's features and the flags. Raises
    OSError and SubprocessError.
    """
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    macros = _run(compiler, "-dM", "-E", "-x", "c", os.devnull)  # compiler version and CPU features
    content = b"\0".join((_SOURCE.read_bytes(), macros, *map(str.encode, _FLAGS)))
    file = folder / f"step-{hashlib.sha256(content).hexdigest()[:32]}.so"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not file.exists():
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            output = Path(temporary, file.name)
            _run(compiler, "-shared", "-fPIC", str(_SOURCE), "-o", str(output), "-lm")
            output.chmod(0o600)
            output.replace(file)
    _check_private(file)
    return file


def _run(compiler: str, *arguments: str) -> bytes:
    command = [compiler, *_FLAGS, *arguments]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=_TIMEOUT_S
    ).stdout


def _check_private(file: Path) -> None:
    """Raise PermissionError if another user could replace the file."""
    folder = file.parent.resolve()
    for place in (folder / file.name, folder, *folder.parents):
        status = place.lstat()  # of a symlink itself, not of its target
        writable = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
        if stat.S_ISLNK(status.st_mode) or writable or status.st_uid not in (0, os.getuid()):
            raise PermissionError(f"{place} can be changed by another user")
