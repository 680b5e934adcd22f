"""Statistics of claims about where tokens come from: shares of the source, faithful attributions.

Axes: R replicates, B sentences, L layers, s sublayers, T target tokens, D d_model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from core.analysis.attribution import source_words
from core.atlas.claims.literature import DRAWN
from core.atlas.claims.network import Network
from core.atlas.claims.statistic import VARIANT, Statistic
from core.atlas.corpus import Sentence, drawn
from core.atlas.sums import Sums, bootstrap_weights
from core.checkpoint.folder import Checkpoint
from core.experiments.attribution import attributions, shapley
from core.experiments.experiment import model_inputs
from core.experiments.relevance import relevances
from core.experiments.values import transformed_values
from core.frozen import Doubles
from core.record.activations import hidden_states
from core.record.capture import AttentionCall, capture

SAMPLE = 60
"""The number of sentences for which Shapley values are computed: 2ⁿ passes for n words."""
MOST_WORDS = 9
_SEED = 2
METHODS = {
    "value-zeroing-faithful": "value zeroing, all layers",
    "attention-faithful": "weights",
}
_BASELINE = "gradient × input"


def source_shares(checkpoint: Checkpoint, sentence: Sentence) -> Doubles:
    """Return the share of each target token's relevance that the source has: [T], 0 to 1.

    Relevances of the token's logit count by their size. Hooks are process-wide: the caller must
    hold the model's lock.
    """
    found = relevances(checkpoint.model, *sentence.ids, range(len(sentence.target)))
    source_T, prefix_T = (np.abs(part).sum(1) for part in (found.source, found.prefix))
    return source_T / (source_T + prefix_T)


@torch.inference_mode()
def rolled_out_shares(checkpoint: Checkpoint, sentence: Sentence) -> Doubles:
    """Return the share of each decoder row's final state that comes from the source: [T], 0 to 1.

    Computed by norm rollout (after Kobayashi et al. 2021): in each attention layer, a state mixes
    the residual path and what each key adds, in proportion to their norms. What cross-attention
    adds comes from the source alone; what self-attention takes from a row comes from it to the
    extent of that row's share. Feed-forward layers and norms are left out. Hooks are process-wide:
    the caller must hold the model's lock.
    """
    model = checkpoint.model
    with capture(model) as captured, hidden_states(model) as states:
        model(*model_inputs(model, *sentence.ids))
    calls = {(call.site.kind, call.site.layer): call for call in captured.calls()}
    after_LsTD = states.sublayers("decoder")[:, :, 0]
    x_TD = states.embeddings["decoder"][0]
    share_T = np.zeros(len(x_TD))
    for layer, after_sTD in enumerate(after_LsTD):
        mixed_TTD = _parts(calls["decoder", layer])
        mixed_TTD[range(len(x_TD)), range(len(x_TD))] += x_TD
        norms_TT = _norms(mixed_TTD)
        share_T = (norms_TT / norms_TT.sum(-1, keepdims=True)) @ share_T
        own_T = _norms(after_sTD[0])
        added_T = _norms(_parts(calls["cross", layer])).sum(-1)
        share_T = (added_T + own_T * share_T) / (added_T + own_T)
        x_TD = after_sTD[-1]
    return share_T


def _parts(call: AttentionCall) -> Tensor:
    """Return what each key adds to each query, summed over heads: [Q, K, D]."""
    return torch.einsum("hqk,hkd->qkd", call.weights[0], transformed_values(call))


def _norms(vectors: Tensor) -> Doubles:
    return vectors.double().norm(dim=-1).cpu().numpy()


ROLLOUT = "norm rollout"


@dataclass(frozen=True)
class SourceShares:
    """Measure how the source's share changes along a sentence, and at <eos>.

    `method` is "", or ROLLOUT for `rolled_out_shares`. Only sentences with at least 3 rows before
    <eos> count. Sums:

    - along [R]: of the rows before <eos>, the last third's mean share minus the first third's
    - at_eos [R]: the share where <eos> is produced, minus the preceding row's share
    - drawn [R]: how many sentences each replicate draws; sentences: how many there are
    """

    method: str = ""

    def __call__(self, checkpoint: Checkpoint, chunk: Sequence[Sentence]) -> Sums:
        chosen = [sentence for sentence in chunk if len(sentence.target) > 3]
        if not chosen:
            return Sums()
        shares_of = rolled_out_shares if self.method == ROLLOUT else source_shares
        changes_B2 = np.array([changes(shares_of(checkpoint, s)) for s in chosen])
        weights_BR = bootstrap_weights(sentence.index for sentence in chosen)
        along_R, at_eos_R = (weights_BR.T @ changes_B2).T
        return Sums(
            {
                "along": along_R,
                "at_eos": at_eos_R,
                "drawn": weights_BR.sum(0),
                "sentences": np.array(len(chosen), np.int64),
            }
        )


def changes(share_T: Doubles) -> tuple[float, float]:
    """Return how a share changes from the first to the last third of the rows, and at <eos>.

    The last row produces <eos>: it belongs to neither third and is compared with the row before.
    """
    words = share_T[:-1]
    third = len(words) // 3
    along = words[-third:].mean() - words[:third].mean()
    return float(along), float(share_T[-1] - share_T[-2])


@dataclass(frozen=True)
class Faithfulness:
    """Measure how well the scores of attribution methods agree with exact Shapley values.

    Sums over the sentences in which every method has a ρ:

    - METHOD [R]: Spearman's ρ over the source words, averaged over target tokens where ρ is defined
    - drawn [R], sentences: as in `SourceShares`
    """

    def __call__(self, checkpoint: Checkpoint, chunk: Sequence[Sentence]) -> Sums:
        names = (*METHODS.values(), _BASELINE)
        found, indices = [], []
        for sentence in chunk:
            words = source_words(sentence.source)  # ty: ignore[invalid-argument-type]
            scores = attributions(checkpoint.model, *sentence.ids, words).scores
            values_Tn = shapley(checkpoint.model, *sentence.ids, words, True).values
            rho = [_agreement(scores[name], values_Tn) for name in names]
            if np.isfinite(rho).all():
                found.append(rho)
                indices.append(sentence.index)
        if not found:
            return Sums()
        weights_BR = bootstrap_weights(indices)
        agreement = dict(zip(names, (weights_BR.T @ np.array(found)).T, strict=True))
        count = np.array(len(found), np.int64)
        return Sums(agreement | {"drawn": weights_BR.sum(0), "sentences": count})


def _agreement(score_Tn: Doubles, values_Tn: Doubles) -> float:
    """Return Spearman's ρ, averaged over target tokens with varying scores and values, or NaN."""
    rho = [
        spearmanr(score_n, values_n).statistic
        for score_n, values_n in zip(score_Tn, values_Tn, strict=True)
        if np.ptp(score_n) > 0 and np.ptp(values_n) > 0
    ]
    return float(np.mean(rho)) if rho else np.nan


def shares(network: Network) -> Mapping[str, Statistic]:
    """Return the statistics of the claims about the source's share on one network."""
    lines = drawn(network.text.lines, DRAWN, _SEED)
    return share_statistics(network.measured(SourceShares(), lines))


def rolled_out(network: Network) -> Mapping[str, Statistic]:
    """Return the same statistics with shares by norm rollout, as variants."""
    lines = drawn(network.text.lines, DRAWN, _SEED)
    found = share_statistics(network.measured(SourceShares(ROLLOUT), lines))
    return {f"{id}{VARIANT}{ROLLOUT}": statistic for id, statistic in found.items()}


def faithfulness(network: Network) -> Mapping[str, Statistic]:
    """Return the statistics of the claims about faithful attributions on one network."""
    short = [s.line for s in network.text.sentences if 2 <= _words(s) <= MOST_WORDS]
    faithful = network.measured(Faithfulness(), drawn(short, SAMPLE, _SEED)) if short else Sums()
    return faithfulness_statistics(faithful)


def share_statistics(sums: Sums) -> dict[str, Statistic]:
    """Return the statistics from the sums of `SourceShares`; empty without sentences."""
    names = {"source-share-falls": "along", "source-share-at-eos": "at_eos"}
    return _means(sums, {id: sums.get(name) for id, name in names.items()})


def faithfulness_statistics(sums: Sums) -> dict[str, Statistic]:
    """Return the statistics from the sums of `Faithfulness`; empty without sentences."""
    if not sums:
        return {}
    return _means(sums, {id: sums[name] - sums[_BASELINE] for id, name in METHODS.items()})


def _means(sums: Sums, totals: Mapping[str, Doubles | None]) -> dict[str, Statistic]:
    """Return means over sentences from weighted totals."""
    if not sums:
        return {}
    with np.errstate(invalid="ignore"):
        return {
            id: Statistic(total / sums["drawn"], int(sums["sentences"]))
            for id, total in totals.items()
        }


def _words(sentence: Sentence) -> int:
    return len(source_words(sentence.source))  # ty: ignore[invalid-argument-type]
