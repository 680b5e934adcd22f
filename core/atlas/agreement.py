"""Choose aligning heads without manual alignments: the two heads whose networks agree most.

Axes: N heads in each reading of one network, M of the other's; T words on the side that a network
writes, S words on the side that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.analysis.alignment import sources
from core.atlas.aligners import CHOSEN_ON, SCORED_ON, alignment_error
from core.atlas.atlas import AlignmentHeads
from core.atlas.intervals import interval
from core.atlas.sums import bootstrap_weights
from core.checkpoint.folder import Checkpoint
from core.experiments.aligning import READINGS, Quantity, word_maps


@dataclass(frozen=True)
class Agreement:
    """One head of each network, and how much their links differ.

    `aer`, `low` and `high` of both heads are the same numbers: the alignment error rate of one
    network's links when the other's are taken as gold, which is 1 − 2|A∩B| / (|A| + |B|). `random`
    is its mean over all heads and readings of the first network, with the same head of the second.
    """

    forward: AlignmentHeads
    reverse: AlignmentHeads
    random: float


def agreeing_heads(
    forward: Checkpoint,
    reverse: Checkpoint,
    pairs: Sequence[tuple[str, str]],
    quantity: Quantity = "weights",
    on_progress: Callable[[int], object] = lambda count: None,
) -> Agreement:
    """Choose one cross-attention head of each of two networks of opposite directions.

    Of all pairs of heads and readings, choose the pair that shares most links on the sentences with
    an even index, and score it on those with an odd one, which had no part in the choice. A pair of
    lines with a side that is empty or too long is left out. `on_progress` is called with the number
    of newly completed pairs. Raises ValueError unless each half has at least 2 pairs.
    """
    where = [
        [(reading, layer, head) for reading in READINGS for layer, head in np.ndindex(size)]
        for size in (
            (n.card.model.num_decoder_layers, n.card.model.heads("cross"))
            for n in (forward, reverse)
        )
    ]

    def linked(half: int):
        for index in range(half, len(pairs), 2):
            source, target = pairs[index]
            try:
                both = (
                    _sources(forward, (source, target), quantity),
                    _sources(reverse, (target, source), quantity),
                )
            except ValueError:
                both = None
            on_progress(1)
            if both is not None:
                yield index, both

    matched_NM, chosen_on = np.zeros(tuple(map(len, where)), dtype=np.int64), 0
    for _, (of_forward, of_reverse) in linked(CHOSEN_ON):
        matched_NM += matches(of_forward, of_reverse)
        chosen_on += 1
    n, m = np.unravel_index(matched_NM.argmax(), matched_NM.shape)
    scored = [
        (index, matches(a, b[m : m + 1])[:, 0], *(int((s[0] >= 0).sum()) for s in (a, b)))
        for index, (a, b) in linked(SCORED_ON)
    ]
    if min(chosen_on, len(scored)) < 2:
        raise ValueError(
            "there are too few pairs to choose heads: they are chosen on one half of the pairs and "
            "scored on the other, and each needs at least 2"
        )
    indices, *counts = zip(*scored, strict=True)
    weights_RB = bootstrap_weights(indices).T
    both_RN, *made = (weights_RB @ np.array(count, float) for count in counts)
    aer_RN = alignment_error(both_RN, both_RN, *(of_side[:, None] for of_side in made))
    bounds = interval(aer_RN[:, n], len(scored)).tolist()
    found = (
        AlignmentHeads(((layer, head),), reading, quantity, *bounds)
        for reading, layer, head in (where[0][n], where[1][m])
    )
    return Agreement(*found, float(aer_RN[0].mean()))


def matches(source_NT: NDArray[np.int64], target_MS: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the links that heads of opposite directions share: [N, M].

    `source_NT[n, t]` is the word to which head n links t, and `target_MS[m, s]` that to which head
    m links s; -1 is none.
    """
    back_MNT = target_MS[:, source_NT]
    shared = (back_MNT == np.arange(source_NT.shape[1])) & (source_NT >= 0)
    return shared.sum(-1).T


def _sources(
    checkpoint: Checkpoint, pair: tuple[str, str], quantity: Quantity
) -> NDArray[np.int64]:
    """Return the word to which each head links each target word, reading by reading: [N, T]."""
    maps = word_maps(checkpoint, pair)
    by_reading = np.stack([sources(maps[reading, quantity]) for reading in READINGS])
    return by_reading.reshape(-1, by_reading.shape[-1])
