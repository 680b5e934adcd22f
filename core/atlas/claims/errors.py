"""Statistics of claims about wrong words: attention to the previous token beside probability.

Axes: R replicates, B sentences, N tokens of all sentences, T of one; L layers, H heads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr

from core.atlas.claims.literature import ALPHA, JUDGED
from core.atlas.claims.network import Network
from core.atlas.claims.statistic import Statistic
from core.atlas.corpus import Sentence, drawn
from core.atlas.lens import translated
from core.atlas.sums import Sums, bootstrap_weights
from core.checkpoint.folder import Checkpoint
from core.experiments.experiment import model_inputs
from core.frozen import Bools, Doubles
from core.record.capture import capture

_SEED = 4
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Errors:
    """Measure the tokens of the network's own greedy translations, without <eos>.

    Sums: tokens_INDEX [T, 2 + L, H], where INDEX is the sentence's. Entry 0 is 1 if the token is
    wrong, 0 if it is right, NaN for punctuation; entry 1 is its log-probability; the others are the
    weights on the token before, where the decoder reads it. A token is wrong if no word of the
    reference contains it; case does not count.
    """

    def __call__(self, checkpoint: Checkpoint, chunk: Sequence[Sentence]) -> Sums:
        targets = translated(checkpoint, chunk)
        pairs = zip(chunk, targets, strict=True)
        return Sums(
            {
                f"tokens_{sentence.index:09}": _tokens(checkpoint, sentence, target)
                for sentence, target in pairs
                if len(target) > 2
            }
        )


@torch.inference_mode()
def _tokens(checkpoint: Checkpoint, sentence: Sentence, target: list[int]) -> Doubles:
    model, known = checkpoint.model, _WORD.findall(sentence.reference.lower())
    source = [token.id for token in sentence.source]
    with capture(model) as captured:
        logits_TV = model(*model_inputs(model, source, target))[0].double()
    rows = range(len(target) - 1)
    log_p_T = logits_TV.log_softmax(-1).cpu()[rows, target[:-1]]
    maps_LHTT = captured.maps("decoder")[:, 0].double().cpu()
    # Row t + 1 reads token t, and key t holds the token before it.
    previous_TLH = maps_LHTT.diagonal(-1, -2, -1).permute(2, 0, 1)
    texts = [checkpoint.target_tokenizer.token(id).text.strip("▁ ").lower() for id in target[:-1]]
    wrong_T = [
        float(all(text not in word for word in known)) if _WORD.search(text) else np.nan
        for text in texts
    ]
    heads = previous_TLH.shape[-1]
    own_T2H = np.repeat(np.stack([wrong_T, log_p_T.numpy()], 1)[..., None], heads, -1)
    return np.concatenate([own_T2H, previous_TLH.numpy()], 1)


def errors(network: Network) -> Mapping[str, Statistic]:
    """Return the statistics of all claims about wrong words on one network."""
    return statistics(network.measured(Errors(), drawn(network.text.lines, JUDGED, _SEED)))


def statistics(sums: Sums) -> Mapping[str, Statistic]:
    """Return the statistics from the sums of `Errors`; empty without a word of either kind."""
    names = sorted(sums)
    indices = [int(name.removeprefix("tokens_")) for name in names]
    each = [sums[name] for name in names]
    halves = [[i for i, index in enumerate(indices) if index % 2 == half] for half in (0, 1)]
    if not all(halves):
        return {}
    weights_BR = bootstrap_weights(indices)

    def aurocs(half: list[int], heads: Sequence[tuple[int, int]], weights_BR: Doubles) -> Doubles:
        tokens = np.concatenate([each[i][1:] for i in half])  # the first follows <bos>
        weights_NR = np.repeat(weights_BR[half], [len(each[i]) - 1 for i in half], axis=0)
        wrong_N = tokens[:, 0, 0]
        words_N = np.isfinite(wrong_N)
        return np.array(
            [
                auroc(-tokens[words_N, 2 + layer, h], wrong_N[words_N] == 1, weights_NR[words_N])
                for layer, h in heads
            ]
        )

    heads = [(layer, h) for layer in range(each[0].shape[1] - 2) for h in range(each[0].shape[2])]
    of_even = aurocs(halves[0], heads, np.ones((len(each), 1)))[:, 0]
    if not np.isfinite(of_even).any():
        return {}
    best = heads[int(np.nanargmax(of_even))]
    wrong_B = np.array([_mean(one[:, 0, 0]) for one in each])
    surprisal_B = np.array([-one[:, 1, 0].mean() for one in each])
    kept = np.flatnonzero(np.isfinite(wrong_B))
    both = surprisal_B, uncertainties(each)
    drawn_R = (np.repeat(kept, weights_B[kept].astype(int)) for weights_B in weights_BR.T)
    by_surprisal_R, by_rauq_R = np.array(
        [[_rho(one_B[at], wrong_B[at]) for one_B in both] for at in drawn_R]
    ).T
    return {
        "errors-previous-token": Statistic(
            aurocs(halves[1], [best], weights_BR)[0], len(halves[1]), 0.5
        ),
        "probability-tells-quality": Statistic(by_surprisal_R, len(kept)),
        "attention-adds-to-probability": Statistic(by_rauq_R - by_surprisal_R, len(kept)),
    }


def auroc(score_N: Doubles, wrong_N: Bools, weights_NR: NDArray) -> Doubles:
    """Return how often a wrong token has the higher score of a wrong and a right one: [R].

    A tie counts half; each token counts as often as its weight says.
    """
    order = np.argsort(score_N, kind="stable")
    starts = np.flatnonzero(np.diff(score_N[order], prepend=-np.inf))
    right_UR, wrong_UR = (
        np.add.reduceat(weights_NR[order] * is_so[order, None], starts, axis=0)
        for is_so in (~wrong_N, wrong_N)
    )
    below_UR = right_UR.cumsum(0) - right_UR / 2
    with np.errstate(invalid="ignore"):
        return (wrong_UR * below_UR).sum(0) / (wrong_UR.sum(0) * right_UR.sum(0))


def uncertainties(each: Sequence[Doubles]) -> Doubles:
    """Return RAUQ's uncertainty of each sentence, from the sums of `Errors`: [B].

    In each layer, the head with the largest mean weight on the token before is read. A token's
    confidence is α p + (1 − α) · weight · confidence of the token before; the first token's is p.
    A layer's uncertainty is the mean of −log confidence, and the largest layer's is returned.
    """
    head_L = np.concatenate([one[1:, 2:] for one in each]).mean(0).argmax(-1)
    found = []
    for one in each:
        weight_TL = one[:, 2:][:, range(len(head_L)), head_L]
        p_T = np.exp(one[:, 1, 0])
        confidence_TL = np.empty_like(weight_TL)
        confidence_TL[0] = p_T[0]
        for t in range(1, len(one)):
            carried_L = weight_TL[t] * confidence_TL[t - 1]
            confidence_TL[t] = ALPHA * p_T[t] + (1 - ALPHA) * carried_L
        surprise_L = -np.log(np.maximum(confidence_TL, 1e-300)).mean(0)
        found.append(surprise_L.max())
    return np.array(found)


def _rho(one: Doubles, other: Doubles) -> float:
    """Return Spearman's ρ, or NaN if one of them does not vary."""
    varies = len(one) > 1 and np.ptp(one) > 0 and np.ptp(other) > 0
    return float(spearmanr(one, other).statistic) if varies else np.nan


def _mean(values: Doubles) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else np.nan
