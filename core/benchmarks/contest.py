"""Interleaved benchmarking: medians, quartiles, ratios and agreement of the outputs."""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


class Size(NamedTuple):
    """Sentences per batch, beam width, and tokens per source and translation."""

    batch: int
    beam: int
    length: int


@dataclass(frozen=True)
class Options:
    """A benchmark's options.

    `checkpoint` or `random` select the weights (see core.benchmarks.networks). A comparison has at
    most `rounds` rounds; after three rounds, it stops before it exceeds `seconds`. `axes` are names
    in AXES of core.benchmarks.scale, `data` is the folder of corpora. `compile` adds a contestant
    that uses torch.compile. `library` is the folder from which `checkpoint` was imported.
    `against` is a commit to compare with.
    """

    rounds: int = 21
    seconds: float = 60.0
    threads: int = 1
    checkpoint: Path | None = None
    random: str | None = None
    sizes: tuple[Size, ...] | None = None
    axes: tuple[str, ...] | None = None
    data: Path | None = None
    device: str = "cpu"
    compile: bool = False
    library: Path | None = None
    against: str | None = None


class Missing(NamedTuple):
    """A contestant that cannot run here, and why."""

    contestant: str
    reason: str


Row = dict[str, Any]
Ids = tuple[int, ...]

BASELINE = "baseline"


@dataclass(frozen=True)
class Contestant:
    """A named implementation; `run` returns one output per sentence.

    If `exact` is False, as for int8 arithmetic, outputs may differ from those of the first.
    """

    name: str
    run: Callable[[], Sequence[Ids]]
    exact: bool = True


@dataclass(frozen=True)
class Cell:
    """The settings shared by all contestants of a comparison."""

    what: str
    shape: str
    batch: int
    beam: int
    length: int

    def row(self, contestant: str, value: float, unit: str, **more: Any) -> Row:
        """Return a row of the output; `ratio` is None unless it is in `more`."""
        return {
            **{"what": self.what, "contestant": contestant, "shape": self.shape},
            **{"batch": self.batch, "beam": self.beam, "length": self.length},
            **{"value": float(f"{value:.4g}"), "unit": unit, "ratio": None},
            **more,
        }

    def measured(self, contestant: str, values: Sequence[float], unit: str, **more: Any) -> Row:
        """Return a row with the median and quartiles of one value per round."""
        low, value, high = quartiles(values)
        return self.row(contestant, value, unit, low=low, high=high, rounds=len(values), **more)


def seconds(work: Callable[[], object]) -> float:
    """Return how long `work` takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def alternate(
    works: Sequence[Callable[[], object]], rounds: int, max_seconds: float
) -> list[list[float]]:
    """Return the seconds of each work in each round; every round runs all works in random order.

    After three rounds, stop before a round that would exceed `max_seconds` in total.
    """
    order, rng = list(range(len(works))), random.Random(0)
    times: list[list[float]] = [[] for _ in works]
    started = time.perf_counter()
    for number in range(1, rounds + 1):
        rng.shuffle(order)
        for i in order:
            times[i].append(seconds(works[i]))
        spent = time.perf_counter() - started
        if number >= 3 and spent + spent / number > max_seconds:
            break
    return times


def compete(
    cell: Cell, contestants: Sequence[Contestant], rounds: int, max_seconds: float
) -> Iterator[Row]:
    """Yield a row for each contestant: milliseconds per sentence and the speed-up over the first.

    The speed-up (`ratio`) is the median over rounds; above 1 is faster. `same` counts the outputs
    equal to those of the first. If any differ, `reason` says so, and an exact contestant has no
    `ratio`.
    """
    outputs = {c.name: list(c.run()) for c in contestants}  # also the warm-up
    times = alternate([c.run for c in contestants], rounds, max_seconds)
    seconds_of = dict(zip(outputs, times, strict=True))
    first = contestants[0].name
    expected = outputs[first]
    for contestant in contestants:
        seconds = seconds_of[contestant.name]
        same = sum(a == b for a, b in zip(expected, outputs[contestant.name], strict=True))
        more: Row = {"same": same}
        if same == len(expected) or not contestant.exact:
            more |= speedup(seconds, seconds_of[first])
        if same < len(expected):
            difference = "different output" if contestant.exact else "lower precision"
            more["reason"] = f"{difference}: {same} of {len(expected)} equal"
        values = [1000 * second / cell.batch for second in seconds]
        yield cell.measured(contestant.name, values, "ms per sentence", **more)


def speedup(times: Sequence[float], baseline: Sequence[float]) -> Row:
    """Return the median and quartiles of baseline / times, taken round by round."""
    low, ratio, high = quartiles([b / a for a, b in zip(times, baseline, strict=True)])
    return {"ratio": ratio, "ratio_low": low, "ratio_high": high}


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, median and upper quartile, to four significant digits."""
    parts = (
        statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [*values] * 3
    )
    low, median, high = (float(f"{part:.4g}") for part in parts)
    return low, median, high


def show(row: Row) -> str:
    """Format a row as one line of text."""
    place = f"{row['batch']:>3} × beam {row['beam']} × {row['length']}"
    ratio = row.get("ratio")
    speed = "" if ratio is None else f"{ratio:.3g} ×"
    middle = f"({row['low']:g} to {row['high']:g})" if "low" in row else ""
    return (
        f"{row['what']:<34} {row['contestant']:<24} {row['shape']:<30} {place:<18} "
        f"{row['value']:>8g} {row['unit']:<14} {middle:<22} {speed:>7} {row.get('reason', '')}"
    ).rstrip()
