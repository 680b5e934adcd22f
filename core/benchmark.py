"""Measure speed: run a benchmark by its name, print its rows, write them as JSON.

    python -m core.benchmark decode|capture|train|page|scale|why [--rounds N] [--json FILE]

`decode` is this project's search against what a user would pick instead, `capture` what all maps
cost, `train` training against torch.nn.Transformer's, `scale` growth with length, batch, beam and
corpus, `why` the questions of core.experiments. Others come from elsewhere: an entry point of the
group `headlight.benchmarks` is a dictionary of them by name; where nothing is installed, it is
`BENCHMARKS` in a module `benchmark` of a package beside core. The alternatives are an extra:
pip install -e .[benchmark].
"""

import argparse
import importlib
import importlib.util
import os
import pkgutil
import platform
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

from core.benchmarks.contest import Row, show
from core.benchmarks.options import Missing, Options, Size
from core.command import Parser, main, whole_number, write_result

GROUP = "headlight.benchmarks"
OWN = ("decode", "capture", "train", "scale", "why")
_BESIDE = Path(__file__).resolve().parents[1]
_CHECKPOINT = _BESIDE / "checkpoints/scratch-de-en"

# What yields one row a measurement, each the median of so many rounds, and the packages whose
# versions matter for its figures.
Benchmark = tuple[Callable[[int], Iterator[Row]], tuple[str, ...]]


def others() -> dict[str, Benchmark]:
    """All that are installed; where none is, those of the packages beside core."""
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
    """Measure, print each row as it comes, and write the JSON."""
    rows, missing, packages = [], [], ("torch", "numpy")
    for found, needed in _measured(arguments):
        packages = tuple(dict.fromkeys((*packages, *needed)))
        if isinstance(found, Missing):
            missing.append(found)
            print(f"without {found.contestant}: {found.reason}", flush=True)  # noqa: T201
        else:
            rows.append(found)
            print(show(found), flush=True)  # noqa: T201
    versions = {name: installed for name in packages if (installed := _version(name))}
    result = {"machine": machine(), "versions": versions, "rows": rows}
    write_result(arguments.json, result | {"missing": [one._asdict() for one in missing]})


def _measured(arguments: argparse.Namespace) -> Iterator[tuple[Row | Missing, tuple[str, ...]]]:
    """What the benchmark yields, each beside the packages whose versions matter.

    Raises ValueError for a name that is not known, and for an option that this one does not take.
    """
    name, given = arguments.what, _given(arguments)
    if name in OWN:
        benchmark = importlib.import_module(f"core.benchmarks.{name}")
        takes = {"threads", *benchmark.TAKES}
        rows, packages = benchmark.rows, benchmark.PACKAGES
    else:
        known = others()
        if name not in known:
            names = ", ".join(sorted((*known, *OWN)))
            raise ValueError(f"no benchmark {name!r} is known: choose from {names}")
        measure, packages = known[name]
        takes = set()

        def rows(options: Options) -> Iterator[Row | Missing]:
            return measure(options.rounds)

    if odd := sorted(given.keys() - takes):
        raise ValueError(f"the benchmark {name} takes no --{_flag(odd[0])}")
    if "random" not in given and "checkpoint" in takes:
        given.setdefault("checkpoint", _CHECKPOINT)
    elif "checkpoint" in given:
        raise ValueError("weights are a checkpoint's or random ones: leave out one of the two")
    for row in rows(Options(arguments.rounds, arguments.seconds, **given)):
        yield row, packages


def _flag(field: str) -> str:
    return {"sizes": "size", "axes": "axis"}.get(field, field)


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that only some benchmarks take, where they are given."""
    names = ("threads", "checkpoint", "random", "sizes", "axes", "data", "device")
    values = {name: getattr(arguments, name) for name in names}
    given = {name: value for name, value in values.items() if value is not None}
    return {n: tuple(v) if isinstance(v, list) else v for n, v in given.items()}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def machine() -> str:
    """The processor's name and the number of cores."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores"


def _size(text: str) -> Size:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.isdecimal() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is no BATCH,BEAM,LENGTH such as 64,5,13")
    return Size(*map(int, parts))


def parser() -> Parser:
    """The command line."""
    p = Parser(prog="python -m core.benchmark", description=__doc__)
    p.add_argument("what", metavar="NAME", help=f"{', '.join(OWN)}, or one from elsewhere: page")
    p.add_argument("--rounds", type=whole_number(1), default=21, help="how often at most")
    p.add_argument(
        "--seconds", type=float, default=60, help="of one comparison, after three rounds"
    )
    p.add_argument("--json", type=Path, help="write the rows here")
    p.add_argument("--threads", type=whole_number(1), help="of torch and the alternatives; else 1")
    p.add_argument("--checkpoint", type=Path, help="whose weights; scratch-de-en if left out")
    p.add_argument(
        "--random",
        nargs="?",
        const="",
        metavar="CHANGES",
        help="random weights: 4+4 layers of 128/256, or with changes such as d_model=512",
    )
    p.add_argument(
        "--size",
        dest="sizes",
        type=_size,
        action="append",
        metavar="BATCH,BEAM,LENGTH",
        help="of decode and capture, in place of the usual ones; may be given again",
    )
    p.add_argument("--axis", dest="axes", action="append", help="of scale, such as length")
    p.add_argument("--data", type=Path, help="train on Multi30k in this folder of corpora")
    p.add_argument("--device", help="of train, such as cuda")
    return p


if __name__ == "__main__":
    main(parser(), run)
