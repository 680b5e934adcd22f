"""Benchmark options, and contestants that are missing."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


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
    that uses torch.compile. `against` is a commit to compare with.
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
    against: str | None = None


class Missing(NamedTuple):
    """A contestant that cannot run here, and why."""

    contestant: str
    reason: str
