"""Measure speed: run a benchmark by its name, print its rows, write them as JSON.

    python -m core.benchmark NAME [--rounds N] [--json FILE]

An entry point of the group `headlight.benchmarks` is a dictionary of benchmarks by their names.
Where nothing is installed, it is `BENCHMARKS` in a module `benchmark` of a package beside core.
"""

import argparse
import importlib
import importlib.util
import os
import pkgutil
import platform
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

from core.command import main, write_result

GROUP = "headlight.benchmarks"
_BESIDE = Path(__file__).resolve().parents[1]

Row = dict[str, Any]


# What yields one row a measurement, each the median of so many rounds, and the packages whose
# versions matter for its figures.
Benchmark = tuple[Callable[[int], Iterator[Row]], tuple[str, ...]]


def benchmarks() -> dict[str, Benchmark]:
    """All that are installed, by name; where none is, those of the packages beside core."""
    registered: dict[str, Benchmark] = {}
    for point in entry_points(group=GROUP):
        registered |= point.load()
    if not registered:
        for package in pkgutil.iter_modules([str(_BESIDE)]):
            name = f"{package.name}.benchmark"
            if package.ispkg and package.name != "core" and importlib.util.find_spec(name):
                registered |= importlib.import_module(name).BENCHMARKS
    return registered


def run(arguments: argparse.Namespace) -> None:
    """Measure, print, and write the JSON."""
    known = benchmarks()
    if arguments.what not in known:
        names = ", ".join(sorted(known)) or "none is installed"
        raise ValueError(f"no benchmark {arguments.what!r} is known: choose from {names}")
    measure, packages = known[arguments.what]
    rows = list(measure(arguments.rounds))
    for row in rows:
        print(f"{row['what']:<46} {row['shape']:<26} {row['value']:>8g} {row['unit']}")  # noqa: T201
    versions = {name: version(name) for name in ("torch", *packages)}
    write_result(arguments.json, {"machine": machine(), "versions": versions, "rows": rows})


def machine() -> str:
    """The processor's name and the number of cores."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m core.benchmark", description=__doc__)
    p.add_argument("what", metavar="NAME", help="such as page")
    p.add_argument("--rounds", type=int, default=21)
    p.add_argument("--json", type=Path, help="write the rows here")
    return p


if __name__ == "__main__":
    main(parser(), run)
