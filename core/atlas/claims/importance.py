"""Statistics of claims about single heads: how many matter, and which ones.

Axes: R replicates, N heads, n heads of one kind.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from core.atlas.bleu import LARGE_CHUNK, SetBleu, bleu
from core.atlas.claims.literature import LENIENT, SIGNIFICANT, STRICT
from core.atlas.claims.network import Network
from core.atlas.claims.statistic import Statistic
from core.atlas.counterpart import Similarity, counterparts
from core.atlas.intervals import p_values
from core.atlas.losses import HeadLosses, changes, sentences_of
from core.experiments.head_effects import heads_of
from core.frozen import Doubles
from core.kinds import KINDS


def importance(network: Network) -> Mapping[str, Statistic]:
    """Return the statistics of all claims about single heads on one network.

    The statistic of a pair of networks is returned for the network that has an `other`.
    """
    model = network.checkpoint.model
    encoder = tuple((head,) for head in heads_of(model, ["encoder"]))
    sums = network.measured(SetBleu("encoder", encoder), None, LARGE_CHUNK)
    bleu_RC = bleu(sums["encoder_ngrams"])
    change_Rn = bleu_RC[:, 1:] - bleu_RC[:, :1]
    found = single_changes(change_Rn, int(sums["encoder_sentences"]))
    if network.other is not None:
        zero = network.measured(HeadLosses())
        zero_RN = changes(zero, "zero")
        other_RN = changes(network.other.measured(HeadLosses()), "zero")
        kinds = [head[0] for head in heads_of(model)]
        found["same-heads-matter"] = Statistic(
            matched_correlation(zero_RN, other_RN, partners(network), kinds),
            sentences_of(zero, "zero"),
        )
    return found


def partners(network: Network) -> np.ndarray:
    """Return the counterpart of each head in the network's `other`, see `counterparts`: [N]."""
    if network.other is None:
        raise ValueError(f"{network.name} has no counterpart")
    other = network.other.checkpoint.card.folder
    return counterparts(network.measured(Similarity(other)))["partner"]


def single_changes(change_Rn: Doubles, sentences: int) -> dict[str, Statistic]:
    """Return the share of heads without a significant effect on BLEU, and how many heads harm it.

    A head harms BLEU if ablating it raises BLEU significantly. Each head is tested by itself at
    SIGNIFICANT, as in the paper; the bounds are the values at STRICT and LENIENT.
    """
    p_n = p_values(change_Rn, sentences)
    unchanged = [float((p_n >= level).mean()) for level in (SIGNIFICANT, LENIENT, STRICT)]
    raised_n = change_Rn[0] > 0
    helps = [float((raised_n & (p_n < level)).sum()) for level in (SIGNIFICANT, STRICT, LENIENT)]
    return {
        id: Statistic(np.full(len(change_Rn), value), sentences, bounds=(low, high))
        for id, (value, low, high) in {
            "few-heads-matter": unchanged,
            "removal-helps": helps,
        }.items()
    }


def matched_correlation(
    own_RN: Doubles, other_RN: Doubles, partner_N: np.ndarray, kinds: list
) -> Doubles:
    """Return Spearman's ρ of importance between matched heads, averaged over kinds: [R].

    Each kind is ranked separately, because all heads of one kind may be more important than those
    of the others.
    """
    of_kind = []
    for kind in KINDS:
        chosen = np.array([k == kind for k in kinds])
        of_kind.append(rank_correlation(own_RN[:, chosen], other_RN[:, partner_N[chosen]]))
    return np.mean(of_kind, axis=0)


def rank_correlation(own_Rn: Doubles, other_Rn: Doubles) -> Doubles:
    """Return Spearman's ρ of each replicate: [R]. NaN where all values are tied."""
    from scipy.stats import rankdata  # takes a second to import

    own_Rn, other_Rn = (
        rankdata(values_Rn, axis=1) - (values_Rn.shape[1] + 1) / 2
        for values_Rn in (own_Rn, other_Rn)
    )
    product_R = (own_Rn * other_Rn).sum(1)
    with np.errstate(invalid="ignore"):
        return product_R / np.sqrt((own_Rn**2).sum(1) * (other_Rn**2).sum(1))
