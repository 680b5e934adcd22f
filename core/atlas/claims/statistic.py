"""The statistic of a claim on one network: its bootstrap replicates, and the mean over networks.

Axes: R = 1 + REPLICATES bootstrap weights, of which column 0 is the sample itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.atlas.claims.claim import Estimate
from core.atlas.intervals import interval
from core.frozen import Doubles


@dataclass(frozen=True, eq=False)
class Statistic:
    """A statistic of `sentences` sentences: its replicates [R] and its value by chance, if known.

    `bounds` replace the percentile interval where the statistic has an interval of its own.
    """

    replicates: Doubles
    sentences: int
    null: float | None = None
    bounds: tuple[float, float] | None = None

    @property
    def estimate(self) -> Estimate | None:
        """The estimate with its 95 % interval; None if there is not enough to estimate it."""
        value, low, high = interval(self.replicates, self.sentences).tolist()
        low, high = self.bounds or (low, high)
        if not np.isfinite([value, low, high]).all():
            return None
        null = None if self.null is None else _rounded(self.null)
        return Estimate(_rounded(value), _rounded(low), _rounded(high), null)


def mean_of(statistics: Sequence[Statistic]) -> Estimate | None:
    """Return the mean over networks measured on the same sentences, with its interval.

    A sentence counts equally often in each network's replicate, so the replicates are averaged.
    Bounds of their own are averaged too: they hold for all networks at once.
    """
    if not statistics:
        return None
    bounds = [statistic.bounds for statistic in statistics if statistic.bounds is not None]
    nulls = [statistic.null for statistic in statistics if statistic.null is not None]
    low, high = np.mean(bounds or [(0, 0)], axis=0).tolist()
    return Statistic(
        np.mean([statistic.replicates for statistic in statistics], axis=0),
        min(statistic.sentences for statistic in statistics),
        float(np.mean(nulls)) if nulls else None,
        (low, high) if bounds else None,
    ).estimate


def _rounded(value: float) -> float:
    """Keep six significant digits: more than the interval allows, in a small file."""
    return float(f"{value:.6g}") + 0.0  # not −0
