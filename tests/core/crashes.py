"""Crash injection: kill a process, or let the disk fail, at a chosen step of saving."""

import hashlib
import io
import itertools
import json
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file

Before = Callable[[str], None]
"""Called with the name of a step, just before the step."""


class _File(io.FileIO):
    """A file that calls `before` halfway through each write."""

    before: Before

    def write(self, content) -> int:
        half = memoryview(content)[: len(content) // 2]
        super().write(half)
        self.before("write")
        return len(half) + (super().write(memoryview(content)[len(half) :]) or 0)


@contextmanager
def steps(folder: Path, before: Before) -> Generator[None]:
    """Call `before` at each open for writing, write, fsync, rename, removal and mkdir in a folder.

    Opening a folder, as a later fsync needs, also counts as a step.
    """
    opened, open_folder, sync = io.open, os.open, os.fsync
    inside = str(folder)

    def open_file(file, mode="r", *rest, **named):
        if not set("wx") & set(mode) or not str(file).startswith(inside):
            return opened(file, mode, *rest, **named)
        before("open")
        raw = _File(file, "xb" if "x" in mode else "wb")
        raw.before = before
        return io.BufferedWriter(raw)

    def announced(name: str, function: Callable) -> Callable:
        def step(path, *rest, **named):
            if str(path).startswith(inside) and not (name == "mkdir" and Path(path).is_dir()):
                before(name)
            return function(path, *rest, **named)

        return step

    def open_by_flags(path, flags, *rest, **named):
        if not flags & (os.O_WRONLY | os.O_RDWR) and not Path(path).is_dir():
            return open_folder(path, flags, *rest, **named)  # a read
        return announced("open", open_folder)(path, flags, *rest, **named)

    def synced(descriptor: int) -> None:
        before("fsync")
        sync(descriptor)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(io, "open", open_file)
        patched.setattr(os, "open", open_by_flags)
        patched.setattr(os, "fsync", synced)
        for name in ("replace", "unlink", "mkdir"):
            patched.setattr(os, name, announced(name, getattr(os, name)))
        yield


def child(work: Callable[[], object]) -> int:
    """Start the work in a child process without output; return the process id."""
    number = os.fork()
    if number == 0:
        status = 1
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            work()
            status = 0
        finally:
            os._exit(status)
    return number


def ended(number: int) -> int:
    """Return a child's exit code, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def killed(folder: Path, at: int, work: Callable[[], object]) -> bool:
    """Do the work in a child, killed before step `at`; return False if the work ended earlier."""
    count = itertools.count(1)

    def die(_: str) -> None:
        if next(count) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def dying() -> None:
        with steps(folder, die):
            work()

    code = ended(child(dying))
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def fails(folder: Path, at: int, code: int, work: Callable[[], object]) -> str | None:
    """Do the work, but let step `at` fail with error number `code`; return the error message.

    Return "" if the work succeeded nevertheless, None if it ended before that step.
    """
    count = itertools.count(1)

    def fail(name: str) -> None:
        if next(count) == at:
            raise OSError(code, os.strerror(code))

    try:
        with steps(folder, fail):
            work()
    except (OSError, ValueError) as error:  # ValueError: a check before any work
        return str(error)
    return None if next(count) <= at else ""


def fingerprint(state: Path) -> str:
    """Return the SHA-256 of a saved training state: its tensors, step, epoch and curve.

    Times and speeds in the curve are left out: they differ between equal runs.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(load_file(state).items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    with safe_open(state, "pt") as opened:
        progress = json.loads(opened.metadata()["progress"])
    clocks = ("seconds", "tokens_per_second")
    curve = [{k: v for k, v in row.items() if k not in clocks} for row in progress["curve"]]
    digest.update(json.dumps([progress["step"], progress["epoch"], curve]).encode())
    return digest.hexdigest()
