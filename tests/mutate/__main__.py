"""Make one mistake at a time in a copy of the project, and list those that no test notices.

    python -m tests.mutate --map                          find the tests of each line, once
    python -m tests.mutate --seed 1 --sample 400          random mistakes in core and app
    python -m tests.mutate --seed 1 --sample 20 app/plan.py core/analysis
    python -m tests.mutate --mistakes [PATH …]            the mistakes of tests/mutate/mistakes.txt
    python -m tests.mutate --sample 20 --tests tests/app/test_plan.py -- app/plan.py
                                                          without a map: run these tests

Exits with 1 if a mistake goes unnoticed. A mistake that no test covers is not noticed.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from queue import SimpleQueue

from tests.mutate import covered
from tests.mutate.mutants import Mutant, mutants
from tests.mutate.run import ROOT, copy_of_the_project, in_fork, preload, tests

PATIENCE = 5
"""Tests that take this many times as long as without a mistake hang: they have noticed it."""
MISTAKES = Path(__file__).with_name("mistakes.txt")


def sources(paths: Sequence[str]) -> list[str]:
    """Return the tracked Python and JavaScript files of core and app below some paths."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *(paths or ["core", "app"])],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split("\0")
    return [
        name for name in listed if name.endswith((".py", ".js")) and name[:4] in ("core", "app/")
    ]


def mistakes(paths: Sequence[str] = ()) -> Iterator[Mutant]:
    """Yield the listed mistakes; ValueError unless the old text of each occurs exactly once."""
    for number, line in enumerate(MISTAKES.read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        file, old, new = line.split(" | ")
        if paths and not any(file.startswith(path) for path in paths):
            continue
        text = (ROOT / file).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise ValueError(f"line {number}: {old!r} occurs {text.count(old)} times in {file}")
        start = text.index(old)
        yield Mutant(file, text.count("\n", 0, start) + 1, start, start + len(old), new)


def drawn(found: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Draw mutants that parse, without replacement."""
    order = random.Random(seed).sample(found, len(found))
    valid = (one for one in order if one.parses((ROOT / one.file).read_text(encoding="utf-8")))
    return list(islice(valid, count))


def is_noticed(copy: Path, mutant: Mutant, names: Sequence[str], limit: float) -> bool:
    """Make a mistake in a copy, run its tests until one fails, and restore the file."""
    path = copy / mutant.file
    before = path.read_text(encoding="utf-8")
    path.write_text(mutant.apply(before), encoding="utf-8")
    try:
        return bool(names) and in_fork(copy, lambda: tests(names), limit, copy / "log") != 0
    finally:
        path.write_text(before, encoding="utf-8")


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders (core app)")
    parser.add_argument("--map", action="store_true", help="find the tests of each line first")
    parser.add_argument("--mistakes", action="store_true", help="the listed mistakes instead")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (0)")
    parser.add_argument("--sample", type=int, metavar="N", help="N random ones (all)")
    parser.add_argument("--tests", nargs="+", metavar="FILE", help="run these tests, not the map's")
    parser.add_argument("--jobs", type=int, default=1, help="mistakes to test in parallel (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result to a file")
    options = parser.parse_args()
    preload()
    if options.map:
        covered.make_map(options.jobs)
        return 0
    found = (
        list(mistakes(options.paths))
        if options.mistakes
        else [one for file in sources(options.paths) for one in mutants(ROOT, file)]
    )
    chosen = found if options.sample is None else drawn(found, options.sample, options.seed)
    known = None if options.tests else covered.Map()
    with tempfile.TemporaryDirectory(prefix="mutate-") as name:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            copies.put(copy_of_the_project(Path(name) / str(number)))

        def tried(mutant: Mutant) -> tuple[str, bool]:
            names = known.tests_of(mutant.file, mutant.line) if known else options.tests
            limit = 60 + PATIENCE * known.seconds(names) if known else covered.LIMIT
            copy, start = copies.get(), time.monotonic()
            try:
                noticed = is_noticed(copy, mutant, names, limit)
            finally:
                copies.put(copy)
            said = mutant.told((ROOT / mutant.file).read_text(encoding="utf-8"))
            word = "noticed" if noticed else "UNNOTICED"
            print(f"{word:9} {time.monotonic() - start:5.1f} s  {said}", flush=True)  # noqa: T201
            return said, noticed

        with ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(tried, chosen))
    unnoticed = [said for said, noticed in results if not noticed]
    share = 1 - len(unnoticed) / max(1, len(results))
    print(f"{len(results)} of {len(found):,} mistakes, {share:.1%} noticed", *unnoticed, sep="\n")  # noqa: T201
    if options.json:
        outcome = {"noticed": len(results) - len(unnoticed), "unnoticed": unnoticed}
        options.json.write_text(json.dumps(outcome, indent=1), encoding="utf-8")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
