"""Attention rollout: how much of each input reaches a layer's output.

Axes: L layer, Q query, K key, N token of one side.
"""

from collections.abc import Iterable
from itertools import accumulate

import numpy as np

from core.frozen import Doubles, Floats
from core.record.record import TranslationRecord


def rollout(record: TranslationRecord) -> dict[str, Floats]:
    """Compute how much of each input reaches each layer's output, by kind: [L, 1, Q, K].

    For self-attention, this is the product of ½(Ā + I) over the layers so far (Abnar & Zuidema
    2020, §3). Ā is the mean over a layer's heads, and I the residual path. A decoder column is a
    decoder input token. Cross-attention has no residual path between its two sides, so a product
    over its layers is not defined. Instead, each layer's mean weights are multiplied by the
    encoder's full rollout, which leads back to the source tokens. Every row sums to 1. L is 0 for a
    kind that the record lacks. Raises ValueError for cross-attention maps without encoder maps.
    """
    if not can_roll_out(record):
        raise ValueError("rollout of cross-attention needs the encoder's maps as well")
    rollouts: dict[str, Floats] = {}
    for kind in ("encoder", "decoder"):
        if not len(record.maps(kind)):
            rollouts[kind] = np.zeros((0, 1, *record.maps(kind).shape[2:]), np.float32)
            continue
        rollouts[kind] = cumulative(with_residual(record.maps(kind)))[:, None].astype(np.float32)
    if not len(record.cross):
        rollouts["cross"] = np.zeros((0, 1, *record.cross.shape[2:]), np.float32)
        return rollouts
    cross = record.cross.mean(1, dtype=np.float64) @ rollouts["encoder"][-1, 0]
    rollouts["cross"] = cross[:, None].astype(np.float32)
    return rollouts


def can_roll_out(record: TranslationRecord) -> bool:
    """Return whether the record has the maps that rollout needs.

    Imported records may have cross-attention maps without encoder maps.
    """
    return len(record.maps("encoder")) > 0 or not len(record.cross)


def with_residual(maps_LHQK: Floats) -> Doubles:
    """Return ½(Ā + I) for each layer: [L, N, N]."""
    mixed = 0.5 * maps_LHQK.mean(1, dtype=np.float64)
    return mixed + 0.5 * np.eye(mixed.shape[-1])


def cumulative(layers_LNN: Iterable[Doubles]) -> Doubles:
    """Return the product of the mixing matrices up to and including each layer: [L, N, N]."""
    return np.stack(list(accumulate(layers_LNN, lambda so_far, layer: layer @ so_far)))
