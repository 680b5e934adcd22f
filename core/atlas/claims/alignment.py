"""Statistics of claims about word alignment: best layer, decoder position, weights or norms, heads.

Axes: R replicates, n cross-attention heads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from core.atlas.aligners import HeadLinks, alignment_error
from core.atlas.claims.importance import partners, rank_correlation
from core.atlas.claims.literature import ABLATED
from core.atlas.claims.network import Network
from core.atlas.claims.statistic import Statistic
from core.atlas.corpus import drawn
from core.atlas.losses import SetLosses, changes, sentences_of
from core.atlas.sums import Sums
from core.experiments.aligning import QUANTITIES, READINGS
from core.experiments.head_effects import heads_of
from core.frozen import Doubles

_OUTPUT, _INPUT = map(READINGS.index, ("output", "input"))
_WEIGHTS, _NORMS = map(QUANTITIES.index, ("weights", "norms"))
_SEED = 6


def alignment(network: Network) -> Mapping[str, Statistic]:
    """Return the statistics of all claims about word alignment; empty without gold alignments."""
    if network.gold is None:
        return {}
    sums, sentences = _links(network)
    heads = tuple((head,) for head in heads_of(network.checkpoint.model, ["cross"]))
    losses = network.measured(SetLosses("cross", heads), drawn(network.text.lines, ABLATED, _SEED))
    best = int(head_errors(sums)[0].argmin())
    removed = without_aligner(changes(losses, "cross"), best, sentences_of(losses, "cross"))
    return {**statistics(sums, sentences), **removed}


def _links(network: Network) -> tuple[Sums, int]:
    """Measure the links of each head; return the sums and the number of sentences."""
    lines = network.gold.lines if network.gold is not None else ()
    aligned = [line for line in lines if line.gold is not None]
    return network.measured(HeadLinks(), aligned), len(aligned)


def alike(network: Network) -> Mapping[str, Statistic]:
    """Return the statistic of the claim that aligning heads are the same, for a pair of networks.

    Empty without gold alignments and for a network without an `other`.
    """
    other = network.other
    if network.gold is None or other is None or other.gold is None:
        return {}
    (sums, sentences), (others, _) = map(_links, (network, other))
    heads = heads_of(network.checkpoint.model)
    cross = [i for i, head in enumerate(heads) if head[0] == "cross"]
    partner_n = partners(network)[cross] - cross[0]
    return same_heads(head_errors(sums), head_errors(others), partner_n, sentences)


def same_heads(
    own_Rn: Doubles, other_Rn: Doubles, partner_n: np.ndarray, sentences: int
) -> Mapping[str, Statistic]:
    """Return the rank correlation of the alignment errors of matched heads."""
    rho_R = rank_correlation(own_Rn, other_Rn[:, partner_n])
    return {"aligning-heads-same": Statistic(rho_R, sentences)}


def head_errors(sums: Sums) -> Doubles:
    """Return each head's alignment error by weights in its better reading: [R, n]."""
    made, sure = (sums[name].reshape(-1, 1, 1, 1) for name in ("made", "sure"))
    right = (sums[name][:, :, _WEIGHTS, :-1, :-1] for name in ("in_sure", "in_possible"))
    aer = alignment_error(*right, made, sure).min(1)
    return aer.reshape(len(aer), -1)


def without_aligner(change_Rn: Doubles, best: int, sentences: int) -> Mapping[str, Statistic]:
    """Return the statistics from the loss gained without each head, of which `best` aligns best."""
    gained_R, other_R = change_Rn[:, best], np.delete(change_Rn, best, axis=1).mean(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = {
            "aligning-heads-causal": gained_R - other_R,
            "other-heads-idle": other_R / gained_R,
        }
    return {id: Statistic(replicates, sentences) for id, replicates in found.items()}


def statistics(sums: Sums, sentences: int) -> Mapping[str, Statistic]:
    """Return the statistics from the sums of `HeadLinks`: of layers' mean weights, and of heads."""
    made, sure = (sums[name].reshape(-1, 1, 1, 1) for name in ("made", "sure"))
    right = (sums[name][:, :, :, :-1, -1] for name in ("in_sure", "in_possible"))
    aer = alignment_error(*right, made, sure)
    lowest = aer.min(-1)
    layers = (aer[:, _OUTPUT, _WEIGHTS].argmin(-1) - aer[:, _INPUT, _WEIGHTS].argmin(-1)) * 1.0
    has_links = np.isfinite(lowest[:, _INPUT, _WEIGHTS])
    head_Rn = head_errors(sums)
    diagonal = (sums[f"diagonal_{name}"] for name in ("in_sure", "in_possible"))
    diagonal_R = alignment_error(*diagonal, sums["made"], sums["sure"])
    aligns_R = (head_Rn < diagonal_R[:, None]).mean(1)
    found = {
        "early-input-layer": np.where(has_links, layers, np.nan),
        "input-reading-better": lowest[:, _OUTPUT, _WEIGHTS] - lowest[:, _INPUT, _WEIGHTS],
        "penultimate-layer-aligns": aer[:, _OUTPUT, _WEIGHTS, -1] - aer[:, _OUTPUT, _WEIGHTS, -2],
        "aligning-heads-exist": diagonal_R - head_Rn.min(1),
        "aligning-heads-sparse": np.where(has_links, aligns_R, np.nan),
        "norms-align-better": lowest[:, _INPUT, _WEIGHTS] - lowest[:, _INPUT, _NORMS],
    }
    return {name: Statistic(replicates, sentences) for name, replicates in found.items()}
