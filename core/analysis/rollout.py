"""Attention rollout: how much of each input reaches a layer's output.

Axes: L layer, Q query, K key.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from core.record.record import Floats, TranslationRecord


def rollout(record: TranslationRecord) -> dict[str, Floats]:
    """How much of each input reaches a layer's output, by kind: [L, 1, Q, K].

    Encoder and decoder self-attention: the product of ½(Ā + I) over the layers so far, Ā being the
    mean of a layer's heads and I the residual path (Abnar & Zuidema 2020, §3). A decoder column is
    the token that was fed in. Between the two sides of cross-attention there is no residual path,
    so no product over its layers is defined: here one layer's mean weights are carried through the
    encoder's whole rollout, back from its output to the tokens read. Every row sums to 1.
    """
    found: dict[str, Floats] = {}
    for kind in ("encoder", "decoder"):
        found[kind] = reached(with_residual(record.maps(kind)))[:, None].astype(np.float32)
    read = record.cross.mean(1, dtype=np.float64) @ found["encoder"][-1, 0]
    found["cross"] = read[:, None].astype(np.float32)
    return found


def with_residual(maps_LHQK: Floats) -> NDArray[np.float64]:
    """½(Ā + I) of each layer: [L, N, N]."""
    mixed = 0.5 * maps_LHQK.mean(1, dtype=np.float64)
    return mixed + 0.5 * np.eye(mixed.shape[-1])


def reached(mixed_LNN: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The product of what each layer mixes, over the layers so far: [L, N, N]."""
    so_far: list[NDArray[np.float64]] = []
    for layer in mixed_LNN:
        so_far.append(layer @ so_far[-1] if so_far else layer)
    return np.stack(so_far)
