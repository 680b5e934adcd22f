"""Pairs of heads over a corpus: how much removing both costs beyond removing each alone.

Axes: n heads of a kind, R replicates.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from core.atlas.intervals import interval
from core.atlas.losses import Arrays, SetLosses, changes, sentences_of
from core.atlas.sums import Sums
from core.experiments.head_effects import heads_of
from core.kinds import Kind
from core.model.interface import Seq2Seq

SAMPLE = 250
"""The most sentences to measure: few, since a kind with 16 heads already has 120 pairs."""


def pair_losses(model: Seq2Seq, kind: Kind) -> SetLosses:
    """Return the measure of the loss without each head and then without each pair of one kind."""
    heads = heads_of(model, (kind,))
    return SetLosses(f"pair_{kind}", (*combinations(heads, 1), *combinations(heads, 2)))


def pair_effects(model: Seq2Seq, kind: Kind, sums: Sums) -> Arrays:
    """Return the `Atlas` arrays single_KIND [n] and pair_KIND [n, n, 3], in nats per token.

    pair_KIND is the change of the loss with both heads ablated, minus the sum of their single
    changes. Positive: the heads are redundant, so ablating both costs more than the single
    ablations add up to. Negative: they depend on each other, so without one the other helps less
    or harms more. The diagonal is 0.
    """
    name, n = f"pair_{kind}", len(heads_of(model, (kind,)))
    change_RC = changes(sums, name)
    single_Rn, both_RC = change_RC[:, :n], change_RC[:, n:]
    pair_Rnn = np.zeros((len(change_RC), n, n))
    for (a, b), both_R in zip(combinations(range(n), 2), both_RC.T, strict=True):
        pair_Rnn[:, a, b] = pair_Rnn[:, b, a] = both_R - single_Rn[:, a] - single_Rn[:, b]
    arrays = {
        f"single_{kind}": single_Rn[0],
        name: interval(pair_Rnn, sentences_of(sums, name)),
    }
    return {name: array.astype(np.float32) for name, array in arrays.items()}
