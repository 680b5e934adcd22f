"""Statistics of claims about word alignment: best layer, decoder position, weights or norms."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from core.atlas.aligners import HeadLinks, alignment_error
from core.atlas.claims.network import Network
from core.atlas.claims.statistic import Statistic
from core.atlas.sums import Sums
from core.experiments.aligning import QUANTITIES, READINGS

_OUTPUT, _INPUT = map(READINGS.index, ("output", "input"))
_WEIGHTS, _NORMS = map(QUANTITIES.index, ("weights", "norms"))


def alignment(network: Network) -> Mapping[str, Statistic]:
    """Return the statistics of all claims about word alignment; empty without gold alignments."""
    if network.gold is None:
        return {}
    aligned = [line for line in network.gold.lines if line.gold is not None]
    return statistics(network.measured(HeadLinks(), aligned), len(aligned))


def statistics(sums: Sums, sentences: int) -> Mapping[str, Statistic]:
    """Return the statistics from the sums of `HeadLinks`, using each layer's mean over heads."""
    made, sure = (sums[name].reshape(-1, 1, 1, 1) for name in ("made", "sure"))
    right = (sums[name][:, :, :, :-1, -1] for name in ("in_sure", "in_possible"))
    aer = alignment_error(*right, made, sure)
    lowest = aer.min(-1)
    layers = (aer[:, _OUTPUT, _WEIGHTS].argmin(-1) - aer[:, _INPUT, _WEIGHTS].argmin(-1)) * 1.0
    drawn = np.isfinite(lowest[:, _INPUT, _WEIGHTS])
    found = {
        "early-input-layer": np.where(drawn, layers, np.nan),
        "input-reading-better": lowest[:, _OUTPUT, _WEIGHTS] - lowest[:, _INPUT, _WEIGHTS],
        "norms-align-better": lowest[:, _INPUT, _WEIGHTS] - lowest[:, _INPUT, _NORMS],
    }
    return {name: Statistic(replicates, sentences) for name, replicates in found.items()}
