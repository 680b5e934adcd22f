"""Find the tests of a line by coverage: which tests run it, or read its file.

The map is made once per version, in a fork for each test file:
    python -m tests.mutate --map
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.mutate.run import ROOT, copy_of_the_project, in_fork, tests

FILE = ROOT / ".pytest_cache/tests_of_lines.json"
LIMIT = 1800
"""Time limit, in seconds, of one test file."""
BUDGET = 120
"""Seconds of tests that are run for one mistake, at most."""
READ = "read"
"""In place of a line: tests that read the file, or run it while they are imported."""


class Recorder:
    """A pytest plugin that notes, for each test, the lines it ran, the files it read, its time."""

    def __init__(self, root: Path) -> None:
        import coverage

        self.root = root
        self.times: dict[str, float] = {}
        self.read: set[str] = set()
        sources = [str(root / "core"), str(root / "app")]
        self.coverage = coverage.Coverage(data_file=None, source=sources, config_file=False)
        self.coverage.start()
        sys.addaudithook(self._note_open)

    def _note_open(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and ".js" in arguments[0]:
            self.read.add(arguments[0])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        # What a fixture runs concerns all tests of the file.
        self.coverage.switch_context(item.nodeid.split("::")[0])
        self.times[item.nodeid] = -time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self.coverage.switch_context(item.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.times[nodeid] += time.monotonic()

    def found(self) -> dict[str, Any]:
        """Return times by test, and tests by file and line."""
        self.coverage.stop()
        data, lines = self.coverage.get_data(), {}
        for file in data.measured_files():
            by_line = data.contexts_by_lineno(file)
            lines[self._name(file)] = {
                str(line): [test or READ for test in named] for line, named in by_line.items()
            }
        read = sorted({self._name(file) for file in self.read if file.startswith(str(self.root))})
        return {"times": self.times, "lines": lines, "read": read}

    def _name(self, file: str) -> str:
        return str(Path(file).relative_to(self.root))


def make_map(jobs: int) -> None:
    """Run each test file under coverage and write the map."""
    files = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/**/test_*.py"))
    merged: dict[str, Any] = {"times": {}, "lines": defaultdict(lambda: defaultdict(list))}
    with tempfile.TemporaryDirectory(prefix="mutate-") as name:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            copies.put(copy_of_the_project(Path(name) / str(number)))

        def measured(file: str) -> tuple[str, dict[str, Any] | None]:
            copy = copies.get()
            out = copy / "covered.json"
            out.unlink(missing_ok=True)

            def job() -> int:
                recorder = Recorder(copy)
                code = tests([file], bytecode=True, plugins=[recorder])
                out.write_text(json.dumps(recorder.found()), encoding="utf-8")
                return code

            try:
                code = in_fork(copy, job, LIMIT, copy / "log")
                whole = code in (0, 5) and out.exists()
                return file, json.loads(out.read_text(encoding="utf-8")) if whole else None
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(jobs) as pool:
            for file, found in pool.map(measured, files):
                print(file, "failed" if found is None else len(found["times"]), flush=True)  # noqa: T201
                if found:
                    _merge(merged, file, found)
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(merged), encoding="utf-8")


def _merge(merged: dict[str, Any], file: str, found: dict[str, Any]) -> None:
    merged["times"] |= found["times"]
    merged["times"][file] = sum(found["times"].values())
    for name, lines in found["lines"].items():
        for line, named in lines.items():
            merged["lines"][name][line] += [file if test == READ else test for test in named]
    for name in found["read"]:
        merged["lines"][name][READ].append(file)


class Map:
    """The tests of each line."""

    def __init__(self) -> None:
        if not FILE.is_file():
            raise ValueError("there is no map of tests: make it with python -m tests.mutate --map")
        self.found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))

    def tests_of(self, file: str, line: int) -> list[str]:
        """Return the tests that run a line (of scripts: that read or name it), cheapest first."""
        lines, times = self.found["lines"].get(file, {}), self.found["times"]
        named = lines.get(str(line), []) or [test for tests in lines.values() for test in tests]
        if file.endswith(".js"):
            named = [*named, *_naming(file)]
        cheapest = sorted(dict.fromkeys(named), key=lambda test: times.get(test, 0.0))
        spent = accumulate(times.get(test, 0.0) for test in cheapest)
        return [test for test, total in zip(cheapest, spent, strict=True) if total <= BUDGET]

    def seconds(self, tests: Sequence[str]) -> float:
        """Return how long tests took when the map was made."""
        return sum(self.found["times"].get(test, 0.0) for test in tests)


def _naming(file: str) -> Iterator[str]:
    """Yield the test files that name a script's folder; a server of theirs may read it."""
    folder = Path(file).parent.name
    for path in ROOT.glob("tests/app/test_*.py"):
        if folder in path.read_text(encoding="utf-8"):
            yield str(path.relative_to(ROOT))
