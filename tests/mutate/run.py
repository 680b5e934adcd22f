"""Run tests in a copy of the project, in forks of a process that has imported the libraries."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRELOADED = (
    "torch numpy pandas plotly.graph_objects pyarrow streamlit.testing.v1 pytest scipy.stats"
)


def preload() -> None:
    """Import the libraries that most tests need, once for all forks."""
    for name in PRELOADED.split():
        importlib.import_module(name)


def copy_of_the_project(folder: Path) -> Path:
    """Copy the tracked and untracked files that git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def in_fork(copy: Path, job: Callable[[], int], limit: float, log: Path) -> int | None:
    """Run a job in a fork whose project is the copy; return its exit status, None if it hung."""
    child = os.fork()
    if child == 0:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(copy)
        sys.path[:] = [str(copy), *(p for p in sys.path if Path(p or ".").resolve() != ROOT)]
        for name in [n for n in sys.modules if n.split(".")[0] in ("app", "core", "tests")]:
            del sys.modules[name]
        code = 3
        try:
            code = job()
        finally:
            sys.stdout.flush()
            os._exit(code)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, 9)
    os.waitpid(child, 0)
    return None


def tests(names: Sequence[str], *, bytecode: bool = False, plugins: Sequence[object] = ()) -> int:
    """Run tests in this process until one fails; return pytest's exit status."""
    import pytest

    sys.dont_write_bytecode = not bytecode
    os.environ["PYTHONDONTWRITEBYTECODE"] = "" if bytecode else "1"
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    return int(pytest.main([*options, *names], plugins=list(plugins)))
