"""What a benchmark is asked for, from the command line, and what it found missing."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Size(NamedTuple):
    """Sentences at once, hypotheses of each, and the tokens of each source and translation."""

    batch: int
    beam: int
    length: int


@dataclass(frozen=True)
class Options:
    """`checkpoint` or `random` name the weights; see core.benchmarks.networks.

    No comparison is repeated more than `rounds` times, nor, after three times, for longer than
    `seconds`. `axes` are those of core.benchmarks.scale, `data` is the folder of corpora.
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


class Missing(NamedTuple):
    """A contestant that could not take part, and why."""

    contestant: str
    reason: str
