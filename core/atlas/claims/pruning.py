"""Statistics of claims about pruning: how many heads can be removed, in which order, at what cost.

Axes: R replicates, n heads of a curve, G groups of sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.atlas.atlas import ALL
from core.atlas.bleu import LARGE_CHUNK, SetBleu, bleu
from core.atlas.claims.literature import COLLAPSED, DROP, TOO_MUCH
from core.atlas.claims.network import Network
from core.atlas.claims.statistic import SmallestDifference, Statistic
from core.atlas.corpus import Line, Sentence, drawn
from core.atlas.pruning import (
    ORDER_CHUNK,
    SAMPLE,
    ChoiceLosses,
    Choices,
    heads_on,
    removal_order,
)
from core.atlas.sums import Sums
from core.checkpoint.folder import Checkpoint
from core.experiments.head_effects import Off, heads_of
from core.frozen import Doubles
from core.kinds import KINDS

GROUPS, GROUP = 8, 10
"""The order of removal is found on each of GROUPS groups of GROUP sentences."""
RANKED = "encoder+cross"
"""The kinds that Kim et al. rank; a third of the heads of these kinds is removed."""
_SEED = 2


@dataclass(frozen=True)
class Survivors:
    """Measure which heads are left after half of all heads were removed greedily on one chunk.

    Sums: left_INDEX [kinds], the share of each kind's heads that are left. INDEX is the index of
    the chunk's first sentence; it keeps chunks apart, because each is one observation.
    """

    def __call__(self, checkpoint: Checkpoint, chunk: Sequence[Sentence]) -> Sums:
        heads = heads_of(checkpoint.model)

        def losses(choices: Choices) -> Doubles:
            return ChoiceLosses(choices)(checkpoint, chunk)["choice_loss"]

        order = removal_order(heads, losses, count=len(heads) // 2)
        left = [head[0] for i, head in enumerate(heads) if i not in order]
        total = [sum(head[0] == kind for head in heads) for kind in KINDS]
        share = np.array([left.count(kind) for kind in KINDS]) / np.array(total)
        return Sums({f"left_{chunk[0].index}": share})


def pruning(network: Network) -> Mapping[str, Statistic | SmallestDifference]:
    """Return the statistics of all claims about pruning on one network."""
    sample = drawn(network.text.lines, SAMPLE, _SEED)
    model = network.checkpoint.model
    sizes = {curve: len(heads_on(model, curve)) for curve in ("encoder", "cross", RANKED, ALL)}
    cross = heads_of(model, ["cross"])
    in_last = [head for head in cross if head[1] == cross[-1][1]]
    removed = _removed(network, "encoder", sample)
    counts = {"cross": round(COLLAPSED * sizes["cross"]), RANKED: round(sizes[RANKED] / 3)}
    without = {
        "encoder": removed[round(COLLAPSED * sizes["encoder"])],
        **{curve: _removed(network, curve, sample, count=n)[-1] for curve, n in counts.items()},
    }
    whole = network.measured(ChoiceLosses(((),)), sample, ORDER_CHUNK)["choice_loss"].item()
    points: dict[str, list[Off]] = {
        "encoder": removed,
        "one each": [without["cross"], without[RANKED]],
        ALL: _removed(network, ALL, sample, highest=TOO_MUCH * whole),
        "last": [frozenset(in_last) - {head} for head in in_last],
    }
    sets = tuple(dict.fromkeys(off for offs in points.values() for off in offs if off))
    choices = tuple(tuple(sorted(off)) for off in sets)
    sums = network.measured(SetBleu("prune_bleu", choices), None, LARGE_CHUNK)
    of_set = dict(zip((frozenset(), *sets), bleu(sums["prune_bleu_ngrams"]).T, strict=True))
    curves = {name: np.array([of_set[off] for off in offs]).T for name, offs in points.items()}
    count = int(sums["prune_bleu_sentences"])
    found = {
        "encoder-heads-removable": removable_share(curves["encoder"], sizes["encoder"]),
        "half-of-all-heads": removable_share(curves[ALL], sizes[ALL]),
        "fifth-free": removable_share(curves[ALL], sizes[ALL]),
        "third-removable": of_set[frozenset()] - of_set[without[RANKED]],
        "cross-collapses": of_set[without["encoder"]] - of_set[without["cross"]],
        "last-cross-layer": lost_with_best(of_set[frozenset()], curves["last"]),
    }
    groups = drawn(network.text.lines, GROUPS * GROUP, _SEED)
    survivors = network.measured(Survivors(), groups, GROUP)
    return {name: Statistic(replicates, count) for name, replicates in found.items()} | {
        "removal-order": SmallestDifference(differences_in_order(survivors))
    }


def removable_share(curve_Rn: Doubles, heads: int) -> Doubles:
    """Return the largest share of `heads` whose removal costs at most DROP BLEU: [R, n] → [R].

    `curve_Rn` is BLEU before any removal and after each one, up to the last that was measured. The
    last point within DROP decides, even if BLEU is lower at earlier points.
    """
    within_Rn = curve_Rn[:, :1] - curve_Rn <= DROP
    last_R = curve_Rn.shape[1] - 1 - within_Rn[:, ::-1].argmax(1)
    return np.where(np.isnan(curve_Rn[:, 0]), np.nan, last_R / heads)


def lost_with_best(unedited_R: Doubles, kept_Rn: Doubles) -> Doubles:
    """Return the BLEU lost when only one head is kept: [R].

    That head is the one with which the sample itself (row 0) has the highest BLEU.
    """
    return unedited_R - kept_Rn[:, kept_Rn[0].argmax()]


def differences_in_order(survivors: Sums) -> Doubles:
    """Return differences between the shares of heads left, [G, 2].

    Column 0 is decoder minus encoder, column 1 is cross-attention minus decoder. Groups are in the
    order of their sentences, so that networks can be compared group by group.
    """
    by_index = sorted((int(name.removeprefix("left_")), left) for name, left in survivors.items())
    left_G3 = np.array([left for _, left in by_index])
    encoder, decoder, cross = (left_G3[:, KINDS.index(k)] for k in ("encoder", "decoder", "cross"))
    return np.stack([decoder - encoder, cross - decoder], 1)


def _removed(network: Network, curve: str, sample: Sequence[Line], **until: Any) -> list[Off]:
    """Return the sets of removed heads of a curve, from none; `until` is for `removal_order`."""

    def losses(choices: Choices) -> Doubles:
        return network.measured(ChoiceLosses(choices), sample, ORDER_CHUNK)["choice_loss"]

    heads = heads_on(network.checkpoint.model, curve)
    order = removal_order(heads, losses, **until)
    return [frozenset(heads[i] for i in order[:count]) for count in range(len(order) + 1)]
