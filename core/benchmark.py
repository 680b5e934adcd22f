"""Measure speed: run a benchmark by its name, print its rows, write them as JSON.

    python -m core.benchmark NAME [--rounds N] [--json FILE]

`why` times the questions of core.experiments on one sentence and one thread. The others come from
elsewhere: an entry point of the group `headlight.benchmarks` is a dictionary of them by name; where
nothing is installed, it is `BENCHMARKS` in a module `benchmark` of a package beside core.
"""

import argparse
import importlib
import importlib.util
import os
import pkgutil
import platform
import statistics
import time
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


WHY = (  # what is asked, its name, its arguments behind the record, and how often at most
    ("head_effects:head_effects", "every head off by itself", (), 21),
    ("head_effects:pair_effects", "every pair of heads of a kind off", ("cross",), 3),
    ("score_split:score_split", "split of a score", ("cross", 2, 3, 5, 6), 21),
    ("lens:lens", "decoder's states read", (), 21),
    ("attribution:attributions", "seven answers by source words", (), 5),
    ("attribution:shapley", "Shapley values of all subsets", (), 3),
)
_SENTENCE = "Drei Männer in blauen Hemden stehen vor einem Haus."  # 10 words and marks
_CHECKPOINT = Path(__file__).resolve().parents[1] / "checkpoints/scratch-de-en"


def why_rows(rounds: int) -> Iterator[Row]:
    """Each question of one record, a row each; there is no baseline, so `ratio` is None."""
    import torch

    from core.translator import Translator

    torch.set_num_threads(1)
    translator = Translator.load(_CHECKPOINT, device="cpu")
    record = translator.inspect(_SENTENCE)
    for function, what, arguments, most in WHY:
        module, name = function.split(":")
        ask = getattr(importlib.import_module(f"core.experiments.{module}"), name)
        times = []
        for _ in range(min(rounds, most)):
            start = time.perf_counter()
            answer = ask(translator, record, *arguments)
            if isinstance(answer, Iterator):
                for _step in answer:
                    pass
            times.append(1000 * (time.perf_counter() - start))
        yield {
            "what": what,
            "contestant": "headlight",
            "shape": f"shipped model, {len(record.source)} tokens",
            "batch": 1,
            "beam": 5,
            "length": len(record.source),
            "value": round(statistics.median(times), 1),
            "unit": "ms",
            "ratio": None,
        }


def benchmarks() -> dict[str, Benchmark]:
    """The own one, and all that are installed; where none is, those of the packages beside core."""
    registered: dict[str, Benchmark] = {}
    for point in entry_points(group=GROUP):
        registered |= point.load()
    if not registered:
        for package in pkgutil.iter_modules([str(_BESIDE)]):
            name = f"{package.name}.benchmark"
            if package.ispkg and package.name != "core" and importlib.util.find_spec(name):
                registered |= importlib.import_module(name).BENCHMARKS
    return {"why": (why_rows, ()), **registered}


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
