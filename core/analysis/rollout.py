"""Attention rollout: how much of each input reaches a layer's output.

Axes: L layer, Q query, K key.
"""

import numpy as np

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
        mixed = 0.5 * record.maps(kind).mean(1, dtype=np.float64)
        mixed += 0.5 * np.eye(mixed.shape[-1])
        reached = [mixed[0]]
        for layer in mixed[1:]:
            reached.append(layer @ reached[-1])
        found[kind] = np.stack(reached)[:, None].astype(np.float32)
    read = record.cross.mean(1, dtype=np.float64) @ found["encoder"][-1, 0]
    found["cross"] = read[:, None].astype(np.float32)
    return found
