"""Find the counterpart of each head in another network with the same tokenizers, by its maps.

Axes: R replicates, n heads of one kind in either network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from core.atlas.attention import maps_of
from core.atlas.corpus import Sentence
from core.atlas.intervals import interval
from core.atlas.sums import Sums, bootstrap_weights
from core.checkpoint.folder import Checkpoint, load
from core.frozen import Doubles
from core.kinds import KINDS, Kind
from core.model.interface import Seq2Seq

_PER_CHUNK = 5
"""The number of sentences compared per chunk; few suffice, because similarity varies little."""


@dataclass(frozen=True)
class Similarity:
    """Measure how much attention each pair of heads of two networks puts on the same cells.

    `other` is the folder of the other network, which must have the same tokens. Sums:

    - same_KIND [R, n, n]: the smaller of two heads' weights, summed over all cells
    - rows_KIND [R]: the rows of the maps
    - same_sentences: the sentences
    """

    other: Path

    @torch.inference_mode()
    def __call__(self, checkpoint: Checkpoint, chunk: Sequence[Sentence]) -> Sums:
        other = _loaded(self.other).model
        chosen = chunk[:_PER_CHUNK]
        weights_BR = bootstrap_weights(sentence.index for sentence in chosen)
        both = [(_maps(checkpoint.model, s), _maps(other, s)) for s in chosen]
        found: dict[str, np.ndarray] = {"same_sentences": np.array(len(chosen), np.int64)}
        for kind in KINDS:
            same_Bnn = np.array([_common(own[kind], others[kind]) for own, others in both])
            rows_B = np.array([own[kind].shape[1] for own, _ in both], np.float64)
            found[f"same_{kind}"] = np.tensordot(weights_BR, same_Bnn, axes=(0, 0))
            found[f"rows_{kind}"] = weights_BR.T @ rows_B
        return Sums(found)


def counterparts(sums: Sums) -> dict[str, np.ndarray]:
    """Return the `Atlas` arrays partner, similarity and similarity_unmatched.

    Heads are matched one to one within each kind, by the assignment with the largest total
    similarity (Kuhn 1955). A partner is an index on the atlas's axis N. `similarity_unmatched` is
    the mean similarity to all heads of the kind but the partner. It is NaN if a kind has one head.
    """
    from scipy.optimize import linear_sum_assignment  # takes a second to import

    partners, similarities, unmatched, before = [], [], [], 0
    count = int(sums["same_sentences"])
    for kind in KINDS:
        with np.errstate(invalid="ignore"):
            similarity_Rnn = sums[f"same_{kind}"] / sums[f"rows_{kind}"][:, None, None]
        _, partner_n = linear_sum_assignment(similarity_Rnn[0], maximize=True)
        n = len(partner_n)
        matched_Rn = similarity_Rnn[:, np.arange(n), partner_n]
        similarities.append(interval(matched_Rn, count))
        others_Rn = (similarity_Rnn.sum(-1) - matched_Rn) / (n - 1 or np.nan)
        unmatched.append(interval(others_Rn, count if n > 1 else 0))
        partners.append(before + partner_n)
        before += n
    return {
        "partner": np.concatenate(partners).astype(np.int16),
        "similarity": np.concatenate(similarities).astype(np.float32),
        "similarity_unmatched": np.concatenate(unmatched).astype(np.float32),
    }


@lru_cache(maxsize=1)
def _loaded(folder: Path) -> Checkpoint:
    return load(folder)


def _maps(model: Seq2Seq, sentence: Sentence) -> dict[Kind, np.ndarray]:
    """Return the maps of one sentence by kind: [n, Q, K]."""
    maps = maps_of(model, sentence)
    return {kind: map_LHQK.reshape(-1, *map_LHQK.shape[2:]) for kind, map_LHQK in maps.items()}


def _common(own_nQK: np.ndarray, other_nQK: np.ndarray) -> Doubles:
    """Return the weight that each pair of heads puts on the same cells: [n, n]."""
    flat = other_nQK.reshape(len(other_nQK), -1)
    return np.array([np.minimum(head.ravel(), flat).sum(-1) for head in own_nQK])
