"""Compute an atlas: every measure over a corpus, in shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.atlas.aligners import HeadLinks, aligner_arrays, best_heads, check_gold
from core.atlas.atlas import ALL, ROLE_PARTS, AlignmentHeads, Atlas, Origin
from core.atlas.attention import Attended, Attention, finish
from core.atlas.bleu import each_head, head_bleu
from core.atlas.corpus import CHUNK, Corpus, Line, drawn
from core.atlas.counterpart import Similarity, counterparts
from core.atlas.examples import Examples, examples, quoted_lines
from core.atlas.losses import (
    Arrays,
    HeadLosses,
    HeadOutputs,
    affected_tokens,
    head_losses,
    means_of,
)
from core.atlas.pairs import SAMPLE as PAIR_SAMPLE
from core.atlas.pairs import pair_effects, pair_losses
from core.atlas.partial import Partial
from core.atlas.pruning import (
    CURVES,
    ORDER_CHUNK,
    ChoiceLosses,
    Choices,
    heads_on,
    pruning_bleu,
    pruning_curves,
    pruning_losses,
    removal_order,
)
from core.atlas.pruning import SAMPLE as ORDER_SAMPLE
from core.atlas.roles import GOLD_ROLES, ROLES, Facts
from core.atlas.shards import Measure, Runner
from core.atlas.sums import Sums
from core.checkpoint.folder import Checkpoint
from core.experiments.head_effects import heads_of
from core.frozen import Doubles
from core.kinds import KINDS, Kind

_SEED = 2
_GREEDY = 2  # a greedy translation takes about as long as this many passes
TEXT_ROLES = tuple(role for role in ROLES if role not in GOLD_ROLES)
"""The roles that can be measured on any text, because they need no manual alignments."""


@dataclass(frozen=True)
class Work:
    """How an atlas is computed: what runs the measures, and where unfinished sums are kept.

    `on_progress` is called with the number of newly finished passes, each of one sentence through
    the network; see `count_passes`.
    """

    run: Runner
    partial: Partial
    on_progress: Callable[[int], object] = lambda count: None


@dataclass(frozen=True)
class Extras:
    """The optional parts of an atlas.

    `gold` is a corpus with manual alignments: the measured text or another. `other` is a network
    with the same tokenizers, whose heads are matched with those of the measured network. `bleu`
    says whether to translate the corpus with heads ablated, which takes more time than all other
    measures together.
    """

    gold: Corpus | None = None
    other: Checkpoint | None = None
    bleu: bool = True


def build(network: Checkpoint, text: Corpus, origin: Origin, work: Work, extras: Extras) -> Atlas:
    """Compute the atlas of a network over a text.

    Raises ValueError before any work if gold alignments do not fit their text, or if the other
    network has different tokens, layers or heads.
    """
    if extras.gold is not None:
        check_gold(network, extras.gold)
    if extras.other is not None:
        _check_other(network, extras.other)
    model, folder = network.model, network.card.folder

    def measured(
        measure: Measure,
        passes: int,
        lines: Sequence[Line] = text.lines,
        size: int = CHUNK,
    ) -> Sums:
        report = lambda count: work.on_progress(count * passes)  # noqa: E731
        return work.partial.measured(measure, folder, lines, work.run, report, size)

    cost = _Costs(network)
    attended = finish(measured(Attention(Facts.of(text), TEXT_ROLES), cost.attention))
    roles, arrays = dict(attended.roles), dict(attended.arrays)

    zero = measured(HeadLosses(), cost.heads)
    arrays |= head_losses(zero, "zero")
    means = means_of(measured(HeadOutputs(), 1), str(next(model.parameters()).device))
    arrays |= head_losses(measured(HeadLosses(means), cost.heads), "mean")

    chosen = quoted_lines(text.lines)
    quoted, example_arrays = examples(chosen, measured(Examples(), cost.heads, chosen))
    arrays |= example_arrays

    sample = drawn(text.lines, ORDER_SAMPLE, _SEED)

    def losses(choices: Choices) -> Doubles:
        found = measured(ChoiceLosses(choices), len(choices), sample, ORDER_CHUNK)
        return found["choice_loss"]

    orders = {curve: removal_order(heads_on(model, curve), losses) for curve in CURVES}
    pruned = measured(pruning_losses(model, orders), cost.curves)
    pairs = drawn(text.lines, PAIR_SAMPLE, _SEED)
    for kind in KINDS:
        arrays |= pair_effects(
            model, kind, measured(pair_losses(model, kind), cost.pairs(kind), pairs)
        )
    if extras.bleu:
        arrays |= head_bleu(measured(each_head(model), _GREEDY * cost.heads))
        pruned = pruned + measured(pruning_bleu(model, orders), _GREEDY * cost.curves)
    arrays |= pruning_curves(model, orders, pruned)
    if extras.other is not None:
        arrays |= counterparts(measured(Similarity(extras.other.card.folder.resolve()), 1))

    heads: AlignmentHeads | None = None
    if extras.gold is not None:
        of_gold = extras.gold.lines
        facts = Facts.of(extras.gold)
        aligned = measured(Attention(facts, GOLD_ROLES, averages=False), cost.attention, of_gold)
        roles, of_roles = _with_roles(attended, finish(aligned))
        arrays |= of_roles
        arrays |= aligner_arrays(measured(HeadLinks(), 2, of_gold))
        size = network.card.model.num_decoder_layers, head_count(network)
        heads = best_heads(work.run, folder, extras.gold, size)
    return Atlas(
        origin,
        layers_of(network),
        head_count(network),
        roles,
        arrays,
        affected_tokens(zero, text.target_counts, network.target_tokenizer),
        quoted,
        heads,
    )


def count_passes(network: Checkpoint, text: Corpus, extras: Extras) -> int:
    """Estimate how many passes of one sentence `build` makes, as reported to `on_progress`."""
    cost = _Costs(network)
    B = len(text.sentences)
    total = B * (cost.attention + 2 * cost.heads + 1 + cost.curves)
    total += len(quoted_lines(text.lines)) * cost.heads
    total += min(B, ORDER_SAMPLE) * sum(map(cost.order, CURVES))
    total += min(B, PAIR_SAMPLE) * sum(map(cost.pairs, KINDS))
    if extras.bleu:
        total += _GREEDY * B * (cost.heads + cost.curves)
    if extras.other is not None:
        total += B
    if extras.gold is not None:
        total += len(extras.gold.sentences) * (cost.attention + 2)
    return total


def layers_of(network: Checkpoint) -> dict[Kind, int]:
    """Return the number of layers with attention of each kind."""
    config = network.card.model
    encoder, decoder = config.num_encoder_layers, config.num_decoder_layers
    return {"encoder": encoder, "decoder": decoder, "cross": decoder}


def head_count(network: Checkpoint) -> int:
    """Return the number of heads of each attention. Raises ValueError if the sides differ."""
    config = network.card.model
    if config.heads("decoder") != config.num_heads:
        raise ValueError(
            f"an atlas needs one number of heads, but this network has {config.heads_label} "
            "(encoder + decoder): its heads cannot be measured"
        )
    return config.num_heads


class _Costs:
    """The number of passes per sentence that each measure takes, for the progress bar."""

    def __init__(self, network: Checkpoint):
        self._layers = layers_of(network)
        self._heads = head_count(network)
        heads = sum(map(self._count, KINDS))
        self.attention = 4  # the network and three with random weights
        self.heads = 1 + heads
        self.curves = 1 + 2 * heads

    def _count(self, kind: Kind) -> int:
        return self._layers[kind] * self._heads

    def order(self, curve: str) -> int:
        n = sum(self._count(kind) for kind in KINDS if curve in (kind, ALL))
        return n * (n + 1) // 2

    def pairs(self, kind: Kind) -> int:
        n = self._count(kind)
        return 1 + n * (n + 1) // 2


def _check_other(network: Checkpoint, other: Checkpoint) -> None:
    """Raise ValueError unless both networks have the same tokens, layers and heads."""
    both = [
        (c.source_tokenizer.to_json(), c.target_tokenizer.to_json(), heads_of(c.model))
        for c in (network, other)
    ]
    if both[0] != both[1]:
        names = network.card.folder.name, other.card.folder.name
        raise ValueError(
            f"{names[1]} has different tokens, layers or heads than {names[0]}: choose a network "
            "with the same tokenizers and size"
        )


def _with_roles(first: Attended, more: Attended) -> tuple[dict[Kind, tuple[str, ...]], Arrays]:
    """Append, along axis O, roles that were measured on another text."""
    merged = dict(first.arrays)
    for kind in KINDS:
        for part in ROLE_PARTS:
            name = f"role_{kind}{part}"
            if more.roles[kind]:
                parts = [each.arrays[name] for each in (first, more) if name in each.arrays]
                merged[name] = np.concatenate(parts)
    return {kind: (*first.roles[kind], *more.roles[kind]) for kind in KINDS}, merged


def origin_of(
    network: Checkpoint, text: Corpus, corpus_name: str, command: str, **gold: Any
) -> Origin:
    """Return the origin of an atlas of a network over a text; `gold` are the gold_… fields."""
    from core import __version__

    card = network.card
    return Origin(
        command=command,
        corpus=corpus_name,
        sources_sha256=text.source_sha256,
        references_sha256=text.target_sha256,
        weights_sha256=card.weights_sha256,
        checkpoint=card.folder.name,
        source_language=card.source_language,
        target_language=card.target_language,
        sentences=len(text.sentences),
        source_tokens=sum(text.source_counts.values()),
        target_tokens=sum(text.target_counts.values()),
        skipped=len(text.skipped),
        version=__version__,
        **gold,
    )
