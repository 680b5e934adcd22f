"""Bootstrap intervals, p-values of no change, and Holm's correction.

Axes: R bootstrap replicates; "…" any axes, such as heads.
"""

import math

import numpy as np

from core.frozen import Doubles

LEVEL = 0.95
"""The level of every interval."""
ALPHA = 0.05
"""Below this corrected p-value, a head is said to have an effect."""


def interval(replicates: Doubles, sentences: int) -> Doubles:
    """Return a statistic and the bounds of its 95 % percentile interval: [1 + R, …] → […, 3].

    Row 0 is the statistic of the sample itself, the other rows are those of the replicates.
    A replicate of a Poisson bootstrap may draw no sentence; it is then NaN and is left out. For
    fewer than 2 sentences, the bounds are NaN, because one sentence shows no variation (Efron &
    Tibshirani 1993, §13.3).
    """
    tail = (1 - LEVEL) / 2
    if sentences < 2:
        bounds = np.full((2, *replicates.shape[1:]), np.nan)
    else:
        bounds = np.nanquantile(replicates[1:], (tail, 1 - tail), axis=0)
    return np.stack([replicates[0], *bounds], axis=-1)


def p_values(replicates: Doubles, sentences: int, resolution: float = 0.0) -> Doubles:
    """Return two-sided p-values of "no change", from replicates of a change: [1 + R, …] → […].

    A normal approximation: the change divided by its bootstrap standard error is compared with the
    standard normal distribution. Holm's correction needs this, because 1000 replicates alone cannot
    tell p-values below 0.002 apart. The p-value is 1 for a change of at most `resolution`, which
    may be rounding, and NaN for fewer than 2 sentences.
    """
    change = replicates[0]
    if sentences < 2:
        return np.full(change.shape, np.nan)
    error = np.nanstd(replicates[1:], axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(np.abs(change) <= resolution, 0.0, np.abs(change) / error)
    return np.vectorize(math.erfc, otypes=[float])(z / math.sqrt(2))


def holm(p: Doubles) -> Doubles:
    """Return p-values after Holm's step-down correction over all of them [n] (Holm 1979).

    The correction limits the probability of one or more false findings. NaN stays NaN and is not
    counted.
    """
    adjusted = np.full(p.shape, np.nan)
    order = np.argsort(p)[: np.isfinite(p).sum()]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(factors * p[order]))
    return adjusted


def no_effect(adjusted: Doubles) -> np.ndarray:
    """Return True for each corrected p-value that is not below ALPHA or is NaN."""
    return ~(adjusted < ALPHA)
