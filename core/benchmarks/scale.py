"""Measure how time and memory scale with length, batch, beam and corpus.

The exponent is the slope of a log-log fit; 1 means linear scaling.
"""

import ctypes
import gc
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from core.benchmarks.contest import Cell, Missing, Options, Row, Size, alternate
from core.benchmarks.decode import capture_maps, run_search
from core.benchmarks.networks import Weights
from core.config import DecodeConfig
from core.search.many import translate_ids

PACKAGES = ()
OPTIONS = ("checkpoint", "random", "axes")
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Point(NamedTuple):
    """One measurement on an axis."""

    size: Size
    at: int
    work: Callable[[], object]


AXES: dict[str, tuple[str, tuple[int, ...]]] = {
    "length": ("a sentence's search", (15, 30, 60, 120, 240)),
    "maps": ("all maps of a sentence, by length", (15, 30, 60, 120, 240)),
    "batch": ("one batch's search", (1, 4, 16, 64)),
    "beam": ("16 sentences' search", (1, 2, 4, 8, 16)),
    "corpus": ("a corpus's search", (32, 128, 512)),
}


def rows(options: Options) -> Iterator[Row | Missing]:
    """Yield time and memory at each point of each axis, then the axis's exponents."""
    weights = Weights.of(options.checkpoint, options.random)
    torch.set_num_threads(options.threads)
    if not _memory_is_measurable():
        yield Missing("memory", "peak memory can be measured only on Linux with glibc")
    for axis in options.axes or tuple(AXES):
        if axis not in AXES:
            raise ValueError(f"unknown axis {axis!r}: choose from {', '.join(AXES)}")
        what, places = AXES[axis]
        points = [_point(weights, axis, at) for at in places if _fits(weights, axis, at)]
        for point in points:
            point.work()
        rounds = max(3, options.rounds // 5)
        times = alternate([point.work for point in points], rounds, options.seconds)
        measured = {"ms": [1000 * statistics.median(seconds) for seconds in times]}
        if _memory_is_measurable():
            measured["MiB"] = [_peak(point.work) for point in points]
        for unit, values in measured.items():
            for point, value in zip(points, values, strict=True):
                yield Cell(what, weights.shape, *point.size).row("headlight", value, unit)
        for unit, values in measured.items():
            slope = exponent([point.at for point in points], values)
            if slope is None:
                continue
            at = Cell(f"exponent of {axis}, {unit}", weights.shape, *points[-1].size)
            yield at.row("headlight", slope, "exponent")


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """Fit values ≈ c · size^p by least squares on logarithms; return p, or None if undefined."""
    if len(sizes) < 2 or min(values) <= 0:
        return None
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _fits(weights: Weights, axis: str, at: int) -> bool:
    return axis not in ("length", "maps") or at <= weights.network.config.max_length


def _point(weights: Weights, axis: str, at: int) -> Point:
    if axis == "corpus":
        return _corpus(weights, at)
    size = {
        "length": Size(1, 5, at),
        "maps": Size(1, 1, at),
        "batch": Size(at, 5, 13),
        "beam": Size(16, at, 13),
    }[axis]
    network = weights.fixed_length(size.length)
    source_NS = weights.sources(size.batch, size.length)
    if axis == "maps":
        targets = [tuple(row) for row in source_NS.tolist()]
        return Point(size, at, lambda: capture_maps(network, source_NS, targets))
    return Point(size, at, lambda: run_search(network, source_NS, size.beam))


def _corpus(weights: Weights, sentences: int) -> Point:
    size = Size(sentences, 5, 13)
    network = weights.fixed_length(size.length)
    ids = weights.sources(sentences, size.length)[:, :-1].tolist()
    return Point(size, sentences, lambda: translate_ids(network, ids, DecodeConfig(beam=5), "cpu"))


def _memory_is_measurable() -> bool:
    return _RESET.exists() and hasattr(ctypes.CDLL(None), "malloc_trim")


def _peak(work: Callable[[], object]) -> float:
    """Return in MiB how far memory rises during `work` above the memory in use before it."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # otherwise freed memory would be reused and not counted
    before = _status("VmRSS")
    _RESET.write_text("5")
    kept = work()
    peak = _status("VmHWM")
    del kept
    return (peak - before) / 1024


def _status(name: str) -> float:
    """Return a memory figure of this process in KiB."""
    lines = _STATUS.read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))
