"""Statistics of claims about single heads: how many matter, and which ones.

Axes: R replicates, N heads, n heads of one kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist

import numpy as np

from core.atlas.bleu import SetBleu, bleu
from core.atlas.claims.literature import MATTERS
from core.atlas.claims.network import Network
from core.atlas.claims.statistic import Statistic
from core.atlas.counterpart import Similarity, counterparts
from core.atlas.intervals import LEVEL
from core.atlas.losses import HeadLosses, per_token, sentences_of
from core.experiments.head_effects import heads_of
from core.frozen import Doubles
from core.kinds import KINDS


def importance(network: Network, networks: int) -> Mapping[str, Statistic]:
    """Return the statistics of all claims about single heads; of one of so many `networks`."""
    model = network.checkpoint.model
    encoder = tuple((head,) for head in heads_of(model, ["encoder"]))
    sums = network.measured(SetBleu("encoder", encoder))
    bleu_RC = bleu(sums["encoder_ngrams"])
    change_Rn = bleu_RC[:, 1:] - bleu_RC[:, :1]
    low_n, high_n = simultaneous(change_Rn, len(encoder) * networks)
    count = int(sums["encoder_sentences"])

    zero = network.measured(HeadLosses("zero"))
    zero_RN = _changes(zero, "zero")
    found = {
        "few-heads-matter": Statistic(
            (np.abs(change_Rn) > MATTERS).mean(1),
            count,
            bounds=matter_bounds(low_n, high_n),
        ),
        "removal-helps": Statistic(
            (change_Rn > 0).sum(1).astype(float), count, bounds=help_bounds(low_n, high_n)
        ),
    }
    if network.other is not None:
        other_RN = _changes(network.other.measured(HeadLosses("zero")), "zero")
        matched = counterparts(network.measured(Similarity(network.other.checkpoint.card.folder)))
        kinds = [head[0] for head in heads_of(model)]
        found["same-heads-matter"] = Statistic(
            matched_correlation(zero_RN, other_RN, matched["partner"], kinds),
            sentences_of(zero, "zero"),
        )
    return found


def simultaneous(change_Rn: Doubles, comparisons: int) -> tuple[Doubles, Doubles]:
    """Return bounds that hold for all of so many changes at once, with 95 % confidence: [n] each.

    Bonferroni's correction, with a normal approximation of the bootstrap's distribution.
    """
    z = NormalDist().inv_cdf(1 - (1 - LEVEL) / (2 * comparisons))
    margin_n = z * np.nanstd(change_Rn[1:], axis=0, ddof=1)
    return change_Rn[0] - margin_n, change_Rn[0] + margin_n


def matter_bounds(low_n: Doubles, high_n: Doubles) -> tuple[float, float]:
    """Return the shares of heads whose change certainly, and possibly, exceeds MATTERS."""
    certain = (low_n > MATTERS) | (high_n < -MATTERS)
    possible = (low_n < -MATTERS) | (high_n > MATTERS)
    return float(certain.mean()), float(possible.mean())


def help_bounds(low_n: Doubles, high_n: Doubles) -> tuple[float, float]:
    """Return how many changes are certainly, and possibly, above 0."""
    return float((low_n > 0).sum()), float((high_n > 0).sum())


def matched_correlation(
    own_RN: Doubles, other_RN: Doubles, partner_N: np.ndarray, kinds: list
) -> Doubles:
    """Return Spearman's ρ between matched heads, averaged over kinds: [R].

    Kinds are not pooled: heads of one kind may all be more important than those of another.
    """
    from scipy.stats import rankdata  # takes a second to import

    of_kind = []
    for kind in KINDS:
        chosen = np.array([k == kind for k in kinds])
        own_Rn, other_Rn = (
            rankdata(values_Rn, axis=1) - (chosen.sum() + 1) / 2
            for values_Rn in (own_RN[:, chosen], other_RN[:, partner_N[chosen]])
        )
        product_R = (own_Rn * other_Rn).sum(1)
        with np.errstate(invalid="ignore"):  # NaN where all heads of a kind are tied
            of_kind.append(product_R / np.sqrt((own_Rn**2).sum(1) * (other_Rn**2).sum(1)))
    return np.mean(of_kind, axis=0)


def _changes(sums, name: str) -> Doubles:
    loss_RC = per_token(sums, name)
    return loss_RC[:, 1:] - loss_RC[:, :1]
