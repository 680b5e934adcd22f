"""Statistic of the claim that a head takes up its role by a jump, from snapshots of its training.

Axes: P snapshots, L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from core.atlas.claims.network import Network
from core.atlas.claims.statistic import Statistic
from core.atlas.sums import REPLICATES
from core.record.attention_snapshots import ROLES, AttentionSnapshots

_FROM, _TO = 0.1, 0.9


def training(network: Network) -> Mapping[str, Statistic]:
    """Return the statistic on one network; empty without snapshots."""
    card = network.checkpoint.card
    snapshots = AttentionSnapshots.of_network(card.folder, card.model)
    return {} if snapshots is None else statistics(snapshots)


def statistics(snapshots: AttentionSnapshots) -> Mapping[str, Statistic]:
    """Return the statistic from snapshots of a training run; empty without a rise."""
    weight_PLH = snapshots.roles["decoder"][:, ROLES["decoder"].index("previous token")]
    best = np.asarray(weight_PLH[-1]).argmax()
    found = width(snapshots.steps, weight_PLH.reshape(len(weight_PLH), -1)[:, best])
    if found is None:
        return {}
    value, low, high = found
    sentences = len(snapshots.sentences)
    replicates = np.full(1 + REPLICATES, value)
    return {"role-by-a-jump": Statistic(replicates, sentences, bounds=(low, high))}


def width(steps: NDArray, weight: NDArray) -> tuple[float, float, float] | None:
    """Return which share of the steps until the end of a rise the rise takes, and its bounds.

    The rise begins at 10 % and ends at 90 % of the way from the first snapshot to the last,
    interpolated between snapshots. The bounds are the least and the largest share that agree with
    the snapshots. None without a rise.
    """
    first, last = float(weight[0]), float(weight[-1])
    if last <= first:
        return None
    way = (np.asarray(weight, float) - first) / (last - first)
    found = []
    for level in (_FROM, _TO):
        after = int((way >= level).argmax())
        at = np.interp(level, way[after - 1 : after + 1], steps[after - 1 : after + 1])
        found.append((float(steps[after - 1]), float(at), float(steps[after])))
    (early, begins, late), (early_end, ends, late_end) = found
    least = max(0.0, 1 - late / early_end) if early_end else 0.0
    return 1 - begins / ends, least, 1 - early / late_end
