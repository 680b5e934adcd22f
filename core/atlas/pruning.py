"""Pruning curves: remove heads one by one, the least important first.

Axes: n heads of a kind, or of all kinds; C sets of removed heads, R replicates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.atlas.atlas import ALL
from core.atlas.bleu import SetBleu, bleu
from core.atlas.corpus import Sentence
from core.atlas.intervals import interval
from core.atlas.losses import Arrays, SetLosses, losses_without, per_token, sentences_of
from core.atlas.sums import Sums
from core.checkpoint.folder import Checkpoint
from core.experiments.head_effects import heads_of
from core.frozen import Doubles
from core.kinds import KINDS
from core.model.interface import Seq2Seq
from core.record.edits import Head

CURVES = (*KINDS, ALL)
SAMPLE = 50
"""The number of sentences on which the order of removal is chosen.

The curve is measured on the whole corpus, which includes these sentences. If the corpus is small,
the curve's loss is therefore too low.
"""

ORDER_CHUNK = 5
"""The number of these sentences in a chunk: few, because each step waits for all chunks."""

Choices = tuple[tuple[Head, ...], ...]
"""Sets of removed heads."""
Order = Sequence[int]
"""Heads in the order of removal, as indices into `heads_on`."""


def removal_order(
    heads: Sequence[Head],
    losses: Callable[[Choices], Doubles],
    on_progress: Callable[[int], object] = lambda count: None,
    count: int | None = None,
    highest: float = np.inf,
) -> list[int]:
    """Choose the order of removal of some heads, greedily; `losses` measures sets of heads.

    Each step removes the head without which the loss is lowest, given the heads already removed. If
    heads tie, the first of them is removed. `on_progress` is called with the number of newly
    removed heads. The search stops after `count` heads, by default all, or before the first removal
    that would raise the loss above `highest`.
    """
    order: list[int] = []
    for _ in range(len(heads) if count is None else count):
        left = [i for i in range(len(heads)) if i not in order]
        found = losses(tuple(tuple(heads[i] for i in (*order, last)) for last in left))
        if found.min() > highest:
            break
        order.append(left[int(np.argmin(found))])
        on_progress(1)
    return order


@dataclass(frozen=True)
class ChoiceLosses:
    """Measure the loss with each set of heads in `choices` zero-ablated, without an interval.

    Sums: choice_loss [C], in nats.
    """

    choices: Choices

    def __call__(self, checkpoint: Checkpoint, chunk: Sequence[Sentence]) -> Sums:
        choices = [frozenset(choice) for choice in self.choices]
        losses_BC = [losses_without(checkpoint, s, choices).sum(-1) for s in chunk]
        return Sums({"choice_loss": np.sum(losses_BC, axis=0)})


def pruning_losses(model: Seq2Seq, orders: Mapping[str, Order]) -> SetLosses:
    """Return the measure of the loss after each removal, for orders by kind or "all"."""
    return SetLosses("prune", _choices(model, orders))


def pruning_bleu(model: Seq2Seq, orders: Mapping[str, Order]) -> SetBleu:
    """Return the measure of greedy translations after each removal."""
    return SetBleu("prune_bleu", _choices(model, orders))


def pruning_curves(model: Seq2Seq, orders: Mapping[str, Order], sums: Sums) -> Arrays:
    """Return the `Atlas` arrays prune_X_order and, if measured, prune_X_loss and prune_X_bleu."""
    number = {choice: i for i, choice in enumerate(((), *_choices(model, orders)))}
    arrays: Arrays = {}
    for curve, order in orders.items():
        arrays[f"prune_{curve}_order"] = np.array(order, np.int16)
        columns = [number[choice] for choice in _removed(model, curve, order)]
        if "prune_loss" in sums:
            loss_RC, count = per_token(sums, "prune")[:, columns], sentences_of(sums, "prune")
            arrays[f"prune_{curve}_loss"] = interval(loss_RC, count).astype(np.float32)
        if "prune_bleu_ngrams" in sums:
            count = sentences_of(sums, "prune_bleu")
            bleu_RC = bleu(sums["prune_bleu_ngrams"][:, columns])
            arrays[f"prune_{curve}_bleu"] = interval(bleu_RC, count).astype(np.float32)
    return arrays


def heads_on(model: Seq2Seq, curve: str) -> list[Head]:
    """Return the heads that a curve removes: of a kind, of kinds joined by "+", or of "all"."""
    return heads_of(model, [kind for kind in KINDS if curve == ALL or kind in curve.split("+")])


def _removed(model: Seq2Seq, curve: str, order: Order) -> list[tuple[Head, ...]]:
    """Return the heads, sorted, that are removed at each point of a curve: from none to all."""
    heads = heads_on(model, curve)
    return [tuple(heads[i] for i in sorted(order[:count])) for count in range(len(heads) + 1)]


def _choices(model: Seq2Seq, orders: Mapping[str, Order]) -> tuple[tuple[Head, ...], ...]:
    """Return each distinct nonempty set of removed heads once."""
    removed = (off for curve, order in orders.items() for off in _removed(model, curve, order))
    return tuple(off for off in dict.fromkeys(removed) if off)
