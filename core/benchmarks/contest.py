"""Contestants in turns: medians, quartiles and ratios, and whether all of them answer the same."""

import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Ids = tuple[int, ...]

BASELINE = "baseline"


@dataclass(frozen=True)
class Contestant:
    """A name and what is timed; `run` returns what it answered, one value a sentence.

    Where its arithmetic is known to be another (int8), `exact` is False, and its ratio is given
    beside how many of its answers are the same.
    """

    name: str
    run: Callable[[], Sequence[Ids]]
    exact: bool = True


@dataclass(frozen=True)
class Cell:
    """What all contestants of one comparison have in common."""

    what: str
    shape: str
    batch: int
    beam: int
    length: int

    def row(self, contestant: str, value: float, unit: str, **more: Any) -> Row:
        """One row of the output; there is no ratio unless it is among `more`."""
        return {
            **{"what": self.what, "contestant": contestant, "shape": self.shape},
            **{"batch": self.batch, "beam": self.beam, "length": self.length},
            **{"value": float(f"{value:.4g}"), "unit": unit, "ratio": None},
            **more,
        }


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def alternate(
    works: Sequence[Callable[[], object]], rounds: int, most_seconds: float
) -> list[list[float]]:
    """The seconds of each work in each round: all of them in every round, in a changing order.

    After three rounds no other is begun that would end later than `most_seconds` in all.
    """
    order, shuffled = list(range(len(works))), random.Random(0)
    times: list[list[float]] = [[] for _ in works]
    started = time.perf_counter()
    for number in range(1, rounds + 1):
        shuffled.shuffle(order)
        for i in order:
            times[i].append(seconds(works[i]))
        spent = time.perf_counter() - started
        if number >= 3 and spent + spent / number > most_seconds:
            break
    return times


def compete(
    cell: Cell, contestants: Sequence[Contestant], rounds: int, most_seconds: float
) -> Iterator[Row]:
    """A row for each contestant: milliseconds a sentence, and the ratio to BASELINE's time.

    A ratio is the median of the rounds' own; above 1 is faster. One between different answers is
    refused: it is None, and the row's `reason` says why. `same` counts the equal answers.
    """
    answers = {c.name: list(c.run()) for c in contestants}  # which also warms up
    times = alternate([c.run for c in contestants], rounds, most_seconds)
    taken = dict(zip(answers, times, strict=True))
    wanted = answers[BASELINE]
    for contestant in contestants:
        own = taken[contestant.name]
        same = sum(a == b for a, b in zip(wanted, answers[contestant.name], strict=True))
        low, value, high = quartiles(1000 * second / cell.batch for second in own)
        found: Row = {"low": low, "high": high, "rounds": len(own), "same": same}
        if same == len(wanted) or not contestant.exact:
            ratios = [b / a for a, b in zip(own, taken[BASELINE], strict=True)]
            low, ratio, high = quartiles(ratios)
            found |= {"ratio": ratio, "ratio_low": low, "ratio_high": high}
        if same < len(wanted):
            refused = "another answer" if contestant.exact else "another arithmetic"
            found["reason"] = f"{refused}: {same} of {len(wanted)} the same"
        yield cell.row(contestant.name, value, "ms a sentence", **found)


def quartiles(values: Iterable[float]) -> tuple[float, float, float]:
    """The lower quartile, the median and the upper quartile, to four digits."""
    values = list(values)
    parts = statistics.quantiles(values, n=4, method="inclusive") if values[1:] else 3 * values
    low, median, high = (float(f"{part:.4g}") for part in parts)
    return low, median, high


def show(row: Row) -> str:
    """A row as one line for people."""
    place = f"{row['batch']:>3} × beam {row['beam']} × {row['length']}"
    ratio = row.get("ratio")
    said = "" if ratio is None else f"{ratio:.3g} ×"
    middle = f"({row['low']:g} to {row['high']:g})" if "low" in row else ""
    return (
        f"{row['what']:<34} {row['contestant']:<24} {row['shape']:<30} {place:<18} "
        f"{row['value']:>8g} {row['unit']:<14} {middle:<22} {said:>7} {row.get('reason', '')}"
    ).rstrip()
