"""Read and write how certain a network is of translations of sentences of its own kind."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from core.checkpoint.strict_json import read_small
from core.files import write_json
from core.typed import Sha256, between, line, typed

FILE = "certainty.json"
PERCENT = 2
"""A translation is uncertain below this percentile."""

_POINTS = 101  # percentiles 0 to 100
_Quantiles = Annotated[
    tuple[Annotated[float, between(0, 1)], ...],
    between(_POINTS, _POINTS),
]
_Name = Annotated[str, line(300)]


def mean_probability(log_prob: float, tokens: int) -> float:
    """Return the geometric mean of a translation's token probabilities, <eos> included."""
    return math.exp(log_prob / tokens)


@dataclass(frozen=True)
class Certainty:
    """Percentiles 0 to 100 of the mean probability of translations, by search.

    The translations are the network's own, of `corpora`: sentences by the name of the corpus.
    """

    weights_sha256: Sha256
    corpora: Annotated[Mapping[_Name, Annotated[int, between(1)]], between(1, 20)]
    searches: Annotated[Mapping[_Name, _Quantiles], between(1, 20)]

    def __post_init__(self) -> None:
        for search, quantiles in self.searches.items():
            if list(quantiles) != sorted(quantiles):
                raise ValueError(f"the percentiles of {search!r} are not in ascending order")

    @classmethod
    def of(
        cls, sha256: str, corpora: Mapping[str, int], found: Mapping[str, list[float]]
    ) -> Certainty:
        """Return the percentiles of the mean probabilities found by each search."""
        percentiles = {
            search: tuple(np.percentile(values, range(_POINTS)).round(6).tolist())
            for search, values in found.items()
        }
        return cls(sha256, corpora, percentiles)

    @property
    def sentences(self) -> int:
        return sum(self.corpora.values())

    def limits(self, search: str) -> list[tuple[float, int]]:
        """Return (limit, percent): a mean probability below the first limit that exceeds it is
        less certain than so many percent; empty for a search that was not measured."""
        quantiles = self.searches.get(search, ())[: PERCENT + 1]
        return [(limit, 100 - percent) for percent, limit in enumerate(quantiles)]

    def less_than(self, probability: float, search: str) -> int | None:
        """Return the percentage of sentences with a more certain translation, if it is that low."""
        return next(
            (percent for limit, percent in self.limits(search) if probability < limit), None
        )

    def save(self, file: Path) -> None:
        write_json(file, dataclasses.asdict(self))


def read_certainty(folder: Path, weights_sha256: str) -> Certainty | None:
    """Return a checkpoint's certainty; None if its file is missing, invalid or of other weights."""
    try:
        found = typed(Certainty, read_small(folder / FILE))
    except (OSError, ValueError):
        return None
    return found if found.weights_sha256 == weights_sha256 else None
