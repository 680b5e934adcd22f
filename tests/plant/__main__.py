"""Inject each fault into a copy of the project, run its tests there, and list unnoticed faults.

    python -m tests.plant                     all faults
    python -m tests.plant --area why          one list
    python -m tests.plant --only "swapped"    faults whose name matches

Exits with 1 if a fault goes unnoticed, or if the tests fail without any fault. Libraries are
imported once and each run is a fork, so a fault costs little more than its tests.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.plant.fault import ROOT, Fault, faults

LIMIT = 600
"""Time limit, in seconds, for the tests of one fault; a timeout counts as noticed."""
LIMIT_OF_ALL = 3600
"""Time limit, in seconds, for all chosen tests without a fault."""
PRELOADED = (
    "torch numpy pandas plotly.graph_objects pyarrow streamlit.testing.v1 pytest scipy.stats"
)


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


def run_tests(copy: Path, tests: Sequence[str], log: Path, *, bytecode: bool, limit: float) -> str:
    """Run tests in a copy, in a fork; return "passed", "failed", "timed out" or another reason."""
    child = os.fork()
    if child == 0:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(copy)
        sys.dont_write_bytecode = not bytecode
        os.environ["PYTHONDONTWRITEBYTECODE"] = "" if bytecode else "1"
        sys.path[:] = [str(copy), *(p for p in sys.path if Path(p or ".").resolve() != ROOT)]
        for name in [n for n in sys.modules if n.split(".")[0] in ("app", "core", "tests")]:
            del sys.modules[name]
        import pytest

        code = 3
        try:
            code = int(pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]))
        finally:
            sys.stdout.flush()
            os._exit(code)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            # 2: a collection error, for example a fault that breaks an import
            return {0: "passed", 1: "failed", 2: "failed"}.get(code, f"pytest ended with {code}")
        time.sleep(0.02)
    os.killpg(child, 9)
    os.waitpid(child, 0)
    return "timed out"


def try_fault(copy: Path, fault: Fault) -> str:
    """Inject one fault into a copy, run its tests and restore the file."""
    path = copy / fault.file
    before, times = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(fault.planted(before), encoding="utf-8")
    try:
        return run_tests(copy, fault.tests, copy / "plant.log", bytecode=False, limit=LIMIT)
    finally:
        path.write_text(before, encoding="utf-8")
        os.utime(path, (times.st_atime, times.st_mtime))  # keeps the byte code valid


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.plant",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--area", help="one list of faults, by file name")
    parser.add_argument("--only", default="", metavar="REGEX", help="faults whose name matches")
    parser.add_argument("--jobs", type=int, default=1, help="faults to test in parallel")
    options = parser.parse_args()
    chosen = [
        fault
        for fault in faults()
        if options.area in (None, fault.area) and re.search(options.only, fault.name)
    ]
    if not chosen:
        parser.error("no fault has this area and name")
    for fault in chosen:
        fault.planted((ROOT / fault.file).read_text(encoding="utf-8"))
    for name in PRELOADED.split():
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="plant-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(max(1, options.jobs)):
            copies.put(copy_of_the_project(Path(folder) / str(number)))
        first = copies.get()
        tests = list(dict.fromkeys(test for fault in chosen for test in fault.tests))
        state = run_tests(first, tests, first / "plant.log", bytecode=True, limit=LIMIT_OF_ALL)
        if state != "passed":
            tail = (first / "plant.log").read_text(encoding="utf-8", errors="replace")[-3000:]
            print(f"{tail}\nwithout any fault, the tests did not pass: {state}")  # noqa: T201
            return 1
        copies.put(first)

        def timed(fault: Fault) -> tuple[Fault, str, float]:
            copy = copies.get()
            start = time.monotonic()
            try:
                return fault, try_fault(copy, fault), time.monotonic() - start
            finally:
                copies.put(copy)

        unnoticed = []
        with ThreadPoolExecutor(max(1, options.jobs)) as pool:
            for fault, state, seconds in pool.map(timed, chosen):
                noticed = state in ("failed", "timed out")
                if not noticed:
                    unnoticed.append(f"{fault.area}/{fault.name}: {state}")
                verdict = "noticed" if noticed else "UNNOTICED"
                line = f"{verdict:9} {seconds:5.1f} s  {fault.area}/{fault.name} ({state})"
                print(line, flush=True)  # noqa: T201
    print(f"{len(chosen)} faults, {len(unnoticed)} unnoticed", *unnoticed, sep="\n")  # noqa: T201
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
