"""The statistic of a claim on one network: its bootstrap replicates, and the mean over networks.

Axes: R = 1 + REPLICATES bootstrap replicates, of which the first is the sample itself; G groups of
sentences, D differences.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from core.atlas.claims.claim import Estimate
from core.atlas.intervals import LEVEL, interval
from core.frozen import Doubles

VARIANT = "|"
"""Parts a claim's id from the name of another method, in the id of that method's statistic."""


@dataclass(frozen=True, eq=False)
class Statistic:
    """A statistic of `sentences` sentences: its replicates [R] and its chance value, if known.

    `bounds`, if given, replace the percentile interval of the replicates.
    """

    replicates: Doubles
    sentences: int
    null: float | None = None
    bounds: tuple[float, float] | None = None

    @property
    def estimate(self) -> Estimate | None:
        """The estimate with its 95 % interval; None if value or interval cannot be computed."""
        value, low, high = interval(self.replicates, self.sentences).tolist()
        if not np.isfinite([value, low, high]).all():
            return None
        low, high = self.bounds or (low, high)
        null = None if self.null is None else _rounded(self.null)
        return Estimate(_rounded(value), _rounded(low), _rounded(high), null)


@dataclass(frozen=True, eq=False)
class SmallestDifference:
    """The smallest of D mean differences, from `differences` [G, D] in a few groups of sentences.

    Its interval is Student's t interval, because a percentile interval of so few groups would be
    too narrow.
    """

    differences: Doubles

    @property
    def estimate(self) -> Estimate | None:
        """The estimate with its 95 % interval; None for fewer than two groups."""
        from scipy.stats import t  # takes a second to import

        groups = len(self.differences)
        if groups < 2:
            return None
        means = self.differences.mean(0)
        smallest = means.argmin()
        error = self.differences[:, smallest].std(ddof=1) / np.sqrt(groups)
        margin = float(t.ppf((1 + LEVEL) / 2, groups - 1) * error)
        value = float(means[smallest])
        return Estimate(_rounded(value), _rounded(value - margin), _rounded(value + margin))


def mean_of(statistics: Sequence[Statistic | SmallestDifference]) -> Estimate | None:
    """Return the mean over networks measured on the same sentences, with its interval.

    A replicate draws a sentence equally often in every network, so replicates are averaged one by
    one. Differences are averaged group by group. Explicit `bounds` are averaged too.
    """
    differences = [s.differences for s in statistics if isinstance(s, SmallestDifference)]
    if differences:
        return SmallestDifference(np.mean(differences, axis=0)).estimate
    statistics = [s for s in statistics if isinstance(s, Statistic)]
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


def mean_of_estimates(estimates: Collection[Estimate]) -> Estimate:
    """Return the mean of estimates whose replicates are not known; its interval is the widest.

    It has the means of their bounds, as if the estimates varied together.
    """
    nulls = [one.null for one in estimates if one.null is not None]
    value, low, high = np.mean([(one.value, one.low, one.high) for one in estimates], axis=0)
    null = _rounded(float(np.mean(nulls))) if nulls else None
    return Estimate(_rounded(value), _rounded(low), _rounded(high), null)


def _rounded(value: float) -> float:
    """Round to six significant digits, more than the interval supports, to keep the file small."""
    return float(f"{value:.6g}") + 0.0  # not −0
