"""Run a speed benchmark by name, print its rows and write them as JSON.

    python -m core.benchmark NAME [--rounds N] [--json FILE]

`decode` compares this project's search with the alternatives; `capture` measures the cost of all
attention maps; `train` compares training with torch.nn.Transformer; `scale` measures how time and
memory grow with length, batch, beam and corpus; `shards` compares processes and Ray as workers of
an atlas; `small` trains small networks with each mistake; `why` times the experiments of
core.experiments.

Further benchmarks, such as `page`, are plug-ins, which need `pip install -e .` once. Each entry
point of the group `headlight.benchmarks` is a dictionary of benchmarks by name. To install the
alternatives: `pip install -e .[benchmark]`.
"""

import argparse
import importlib
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

from core.benchmarks.contest import Missing, Options, Row, Size, show
from core.command import Parser, main, whole_number, write_result

GROUP = "headlight.benchmarks"
OWN = ("decode", "capture", "train", "scale", "shards", "small", "why")
_CHECKPOINT = Path(__file__).resolve().parents[1] / "checkpoints/scratch-de-en"

Benchmark = tuple[Callable[[Options], Iterator[Row | Missing]], tuple[str, ...], tuple[str, ...]]
"""Yields rows; the packages whose versions to report; the accepted fields of `Options`."""


def plugins() -> dict[str, Benchmark]:
    """Return the installed plug-ins by name."""
    return {n: b for point in entry_points(group=GROUP) for n, b in point.load().items()}


def run(arguments: argparse.Namespace) -> None:
    """Run the benchmark, print each row as it is measured, and write the JSON."""
    rows, missing, packages = [], [], ("torch", "numpy")
    for row, needed in _measured(arguments):
        packages = tuple(dict.fromkeys((*packages, *needed)))
        if isinstance(row, Missing):
            missing.append(row)
            print(f"without {row.contestant}: {row.reason}", flush=True)  # noqa: T201
        else:
            rows.append(row)
            print(show(row), flush=True)  # noqa: T201
    versions = {name: installed for name in packages if (installed := _version(name))}
    result = {"machine": machine(), "versions": versions, "rows": rows}
    write_result(arguments.json, result | {"missing": [one._asdict() for one in missing]})


def _measured(arguments: argparse.Namespace) -> Iterator[tuple[Row | Missing, tuple[str, ...]]]:
    """Yield each result with the packages whose versions to report.

    Raises ValueError for an unknown benchmark, and for an option that it does not accept.
    """
    name, given = arguments.what, _given(arguments)
    if name in OWN:
        benchmark = importlib.import_module(f"core.benchmarks.{name}")
        accepted = {"threads", *benchmark.OPTIONS}
        rows, packages = benchmark.rows, benchmark.PACKAGES
    else:
        known = plugins()
        if name not in known:
            names = ", ".join(sorted((*known, *OWN)))
            raise ValueError(f"unknown benchmark {name!r}: choose from {names}")
        rows, packages, accepted = known[name]
    if unknown := sorted(given.keys() - set(accepted)):
        raise ValueError(f"the benchmark {name} takes no --{_flag(unknown[0])}")
    if "random" not in given and "checkpoint" in accepted:
        given.setdefault("checkpoint", _CHECKPOINT)
    elif "checkpoint" in given:
        raise ValueError("--checkpoint and --random exclude each other: give only one")
    for row in rows(Options(arguments.rounds, arguments.seconds, **given)):
        yield row, packages


def _flag(field: str) -> str:
    return {"sizes": "size", "axes": "axis"}.get(field, field)


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the benchmark-specific options that were given."""
    common = {"rounds", "seconds"}
    names = [field.name for field in fields(Options) if field.name not in common]
    values = {name: getattr(arguments, name) for name in names}
    given = {name: value for name, value in values.items() if value is not None}
    return {n: tuple(v) if isinstance(v, list) else v for n, v in given.items()}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def machine() -> str:
    """Return the processor's name and the number of cores."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores"


def _size(text: str) -> Size:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.isdecimal() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not BATCH,BEAM,LENGTH such as 64,5,13")
    return Size(*map(int, parts))


def parser() -> Parser:
    p = Parser(prog="python -m core.benchmark", description=__doc__)
    p.add_argument("what", metavar="NAME", help=f"{', '.join(OWN)}, or a plug-in such as page")
    p.add_argument("--rounds", type=whole_number(1), default=21, help="maximum number of rounds")
    p.add_argument(
        "--seconds", type=float, default=60, help="time limit per comparison, but at least 3 rounds"
    )
    p.path("--json", "write the rows here")
    p.add_argument("--threads", type=whole_number(1), help="threads of each contestant; default 1")
    p.path("--checkpoint", "take the weights from here; default scratch-de-en")
    p.path("--library", "for decode: the folder that core.convert read for --checkpoint")
    p.add_argument(
        "--random",
        nargs="?",
        const="",
        metavar="CHANGES",
        help="use random weights: 4+4 layers, d_model 128, feed-forward 256; CHANGES such as "
        "d_model=512 replace these",
    )
    p.add_argument(
        "--size",
        dest="sizes",
        type=_size,
        action="append",
        metavar="BATCH,BEAM,LENGTH",
        help="for decode and capture: replaces the default sizes; repeatable",
    )
    p.add_argument(
        "--axis",
        dest="axes",
        action="append",
        help="for scale and shards: one axis, such as length or memory; repeatable",
    )
    p.path("--data", "for train and shards: take Multi30k from this folder of corpora")
    p.add_argument("--device", help="for decode and train: the device, such as cuda")
    p.add_argument(
        "--compile",
        action="store_true",
        default=None,
        help="for decode and train: add headlight-compiled, which uses torch.compile",
    )
    p.add_argument("--against", metavar="REF", help="for page: a commit to measure in pairs")
    return p


if __name__ == "__main__":
    main(parser(), run)
