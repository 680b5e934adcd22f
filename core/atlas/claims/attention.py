"""Statistics of claims about what heads attend to: neighbours, rare tokens, tokens without content.

Axes: R replicates, B sentences, n heads of a kind, H heads of a layer, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.atlas.attention import maps_of
from core.atlas.claims.literature import FREQUENT
from core.atlas.claims.network import Network
from core.atlas.claims.statistic import Statistic
from core.atlas.corpus import Sentence
from core.atlas.sums import Sums, bootstrap_weights
from core.checkpoint.folder import Checkpoint
from core.frozen import Doubles
from core.record.words import is_punctuation
from core.text.tokenizer import Token

OFFSETS = (-1, 1)


@dataclass(frozen=True)
class Attended:
    """Measure where the largest weights are, and the cross-attention on tokens without content.

    `counts` says how often each source token occurs, by id; tokens that never occur are missing.
    `frequent` are the ids of the tokens that occur most often. Sums, where NAME_uniform is the
    value of NAME expected for keys drawn at random:

    - neighbour [R, 2, n]: queries of each encoder head whose largest weight is at each of OFFSETS,
      without <eos> as a query or a key; neighbour_uniform [R, 2]
    - neighbours [R, 2]: queries that have a key at each of OFFSETS
    - rarest [R, H]: queries of each head of the first encoder layer with the largest weight on a
      rarest token, in sentences whose rarest token is not frequent; rarest_uniform [R]
    - queries, rare_sentences [R]: the number of queries in these sentences, and of the sentences
    - empty [R]: cross-attention on <eos> and punctuation, averaged over heads and summed over rows;
      empty_uniform [R]
    - rows [R]: the number of rows of the cross-attention
    - sentences: the number of sentences in the sample itself
    """

    counts: Mapping[int, int]
    frequent: frozenset[int]

    def __call__(self, checkpoint: Checkpoint, chunk: Sequence[Sentence]) -> Sums:
        """Measure one chunk. Hooks are process-wide: the caller must hold the model's lock."""
        found = [self._of(checkpoint, sentence) for sentence in chunk]
        weights_BR = bootstrap_weights(sentence.index for sentence in chunk)
        sums: dict[str, NDArray] = {
            name: np.tensordot(weights_BR, np.array([one[name] for one in found], float), (0, 0))
            for name in found[0]
        }
        return Sums(sums | {"sentences": np.array(len(chunk), np.int64)})

    def _of(self, checkpoint: Checkpoint, sentence: Sentence) -> dict[str, NDArray | float]:
        maps = maps_of(checkpoint.model, sentence)
        return (
            neighbours(maps["encoder"], sentence.source)
            | on_rarest(maps["encoder"][0], sentence.source, self.counts, self.frequent)
            | on_empty(maps["cross"], sentence.source)
        )


def neighbours(maps_LHQK: Doubles, tokens: Sequence[Token]) -> dict[str, NDArray | float]:
    """Count the largest weights on neighbouring keys in one sentence's encoder maps.

    Special tokens, such as <eos>, are left out of both keys and queries.
    """
    words = [k for k, token in enumerate(tokens) if not token.special]
    W = len(words)
    largest_nW = maps_LHQK[..., words, :][..., words].argmax(-1).reshape(-1, W)
    offset_nW = largest_nW - np.arange(W)
    return {
        "neighbour": np.array([(offset_nW == offset).sum(1) for offset in OFFSETS]),
        "neighbours": np.array([W - 1, W - 1]),
        "neighbour_uniform": np.array([W - 1, W - 1]) / W,
    }


def on_rarest(
    maps_HQK: Doubles,
    tokens: Sequence[Token],
    counts: Mapping[int, int],
    frequent: frozenset[int],
) -> dict[str, NDArray | float]:
    """Count a layer's largest weights on the rarest tokens of one sentence.

    Special tokens, such as <eos>, are left out of the queries and cannot be rarest, but they are
    keys. A sentence whose rarest tokens are all frequent is left out: its numbers are 0.
    """
    words = [k for k, token in enumerate(tokens) if not token.special]
    least = min(counts.get(tokens[k].id, 0) for k in words)
    rarest = [k for k in words if counts.get(tokens[k].id, 0) == least]
    hits = np.isin(maps_HQK[:, words].argmax(-1), rarest).sum(-1)
    counted = float(not frequent.issuperset(tokens[k].id for k in rarest))
    return {
        "rarest": counted * hits,
        "queries": counted * len(words),
        "rarest_uniform": counted * len(words) * len(rarest) / len(tokens),
        "rare_sentences": counted,
    }


def on_empty(maps_LHQK: Doubles, tokens: Sequence[Token]) -> dict[str, NDArray | float]:
    """Sum the cross-attention on special tokens and punctuation over rows, averaged over heads."""
    empty_K = np.array([token.special or is_punctuation(token.text) for token in tokens])
    Q = maps_LHQK.shape[2]
    return {
        "empty": maps_LHQK[..., empty_K].sum((-2, -1)).mean(),
        "empty_uniform": Q * empty_K.mean(),
        "rows": float(Q),
    }


def attention(network: Network) -> Mapping[str, Statistic]:
    """Return the statistics of all claims about what heads attend to on one network."""
    counts = network.frequencies
    frequent = sorted(counts, key=lambda id: (-counts[id], id))[:FREQUENT]
    return statistics(network.measured(Attended(counts, frozenset(frequent))))


def statistics(sums: Sums) -> Mapping[str, Statistic]:
    """Return the statistics from the sums of `Attended`."""
    with np.errstate(invalid="ignore"):
        share_R2n = sums["neighbour"] / sums["neighbours"][..., None]
        chance_R2 = sums["neighbour_uniform"] / sums["neighbours"]
        rarest_RH = sums["rarest"] / sums["queries"][:, None]
        rarest_uniform_R = sums["rarest_uniform"] / sums["queries"]
        empty_R = sums["empty"] / sums["rows"]
    count = int(sums["sentences"])
    return {
        "positional-heads": Statistic(share_R2n.max((1, 2)), count, float(chance_R2[0].max())),
        "rare-word-head": Statistic(
            rarest_RH.max(1),
            int(sums["rare_sentences"][0]),
            float(rarest_uniform_R[0]),
        ),
        "eos-and-punctuation": Statistic(
            empty_R, count, float(sums["empty_uniform"][0] / sums["rows"][0])
        ),
    }
