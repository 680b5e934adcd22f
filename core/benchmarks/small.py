"""Train small networks on each task, and with each mistake; report what they learn."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from core.benchmarks.contest import Cell, Missing, Options, Row
from core.data.tasks import TASKS
from core.experiments.bugs import BUGS
from core.small.examples import Examples
from core.small.run import SmallConfig, SmallRun

PACKAGES = ()
OPTIONS = ("axes",)
STEPS, EVERY, RIGHT = 400, 25, 0.95
CHANGES = {"as it is": {}, "no positions": {"positions": "none"}, "one head": {"heads": 1}}
CHANGES |= {bug: {"bug": bug} for bug in BUGS}


@dataclass(frozen=True)
class _Result:
    """Share of right answers, the least of the parts' best shares, and seconds to `RIGHT`."""

    exact: float
    share: float
    seconds: float | None


def _trained(examples: Examples, seed: int, change: dict) -> _Result:
    run, reached = SmallRun(examples, SmallConfig(seed=seed, steps=STEPS, **change)), None
    for step in range(1, STEPS + 1):
        run.step()
        if reached is None and step % EVERY == 0 and run.measure().exact >= RIGHT:
            reached = run.seconds
    last = run.measure()
    return _Result(last.exact, min(last.best(p)[2] for p in range(len(examples.parts))), reached)


def rows(options: Options) -> Iterator[Row | Missing]:
    """Yield the medians and ranges over `rounds` seeds, for each task (`--axis`) and change."""
    torch.set_num_threads(options.threads)
    for task in options.axes or TASKS:
        examples = Examples(task)
        for name, change in CHANGES.items():
            found = [_trained(examples, seed, change) for seed in range(1, options.rounds + 1)]
            cell = Cell(task, f"2 + 2 layers, {STEPS} steps", 64, 1, 0)
            times = [one.seconds for one in found if one.seconds is not None]
            for values, unit in (
                ([100 * one.exact for one in found], "% right"),
                ([one.share for one in found], "share"),
                (times, "s to 95 %"),
            ):
                if values:
                    span = {"low": min(values), "high": max(values), "rounds": len(values)}
                    yield cell.row(name, statistics.median(values), unit, **span)
