"""An atlas of a visitor's own text, limited to what can be measured in seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import numpy as np

from core.analysis.head_effects import products_without
from core.atlas.atlas import Atlas
from core.atlas.attention import SEEDS, Attention, finish
from core.atlas.build import TEXT_ROLES, head_count, layers_of, origin_of
from core.atlas.corpus import Corpus, Sentence, corpus
from core.atlas.examples import Examples, examples, quoted_lines
from core.atlas.losses import (
    HeadLosses,
    affected_tokens,
    head_losses,
    losses_without,
    none_and_each,
)
from core.atlas.roles import Facts
from core.atlas.sums import Sums
from core.checkpoint.folder import Checkpoint
from core.data.batches import parts
from core.experiments.experiment import Progress, Steps
from core.experiments.head_effects import Off, choice_batches
from core.record.edits import Head

MAX_LINES = 300
MAX_RANDOM = 100_000_000
"""The most weights of a network that is compared with random ones, which fill the memory."""

_STEP = 100
"""The most tokens in a step; a sentence with more is a step by itself."""


def own_text(
    borrow: Callable[[], AbstractContextManager[object]],
    network: Checkpoint,
    pairs: Sequence[tuple[str, str]],
) -> Steps[tuple[Atlas, Corpus]]:
    """Yield progress, and return the atlas of some sentence pairs and the corpus made of them.

    Progress counts products of numbers, so its parts take about equally long. The atlas has roles
    with their nulls, entropies, distances, zero ablation, tokens and quoted sentences. `borrow`
    gives exclusive access to the network for one batch, so that others wait for a fraction of a
    second. A network of more than MAX_RANDOM weights has no null of random networks, so its heads
    get no label. Raises ValueError for more than MAX_LINES pairs, and if none can be measured.
    """
    if len(pairs) > MAX_LINES:
        raise ValueError(f"{len(pairs):,} lines: the limit is {MAX_LINES}, leave some out")
    text = corpus(network, pairs)
    chosen = quoted_lines(text.lines)
    quoted_indices = {line.index for line in chosen}
    seeds = SEEDS if network.card.parameters <= MAX_RANDOM else ()
    attention = Attention(Facts.of(text), TEXT_ROLES, seeds=seeds)
    losses, quotes = HeadLosses(), Examples()
    attended, zero, quoted_sums = [], [], []
    choices = none_and_each(network.model)
    whole: list[Head] = [("encoder", 0, 0)]  # without it, as much is computed as in a whole pass

    def products(batch: Sequence[Off], sentence: Sentence) -> int:
        lengths = len(sentence.source), len(sentence.target)
        heads = (head for choice in batch for head in choice or whole)
        return sum(products_without(network.model.config, *head[:2], *lengths) for head in heads)

    done, total = 0, sum(products(choices, sentence) for sentence in text.sentences)
    for part in parts(tuple(text.sentences), lambda sentence: max(map(len, sentence.ids)), _STEP):
        with borrow():
            attended.append(attention(network, part))
        yield Progress(done, total)
        # `losses` and `quotes` share these results, which take most of the time.
        losses_BCT = []
        for sentence in part:
            found = []
            for batch in choice_batches(network.model.config, choices, *sentence.ids):
                with borrow():
                    found.append(losses_without(network, sentence, batch))
                done += products(batch, sentence)
                yield Progress(done, total)
            losses_BCT.append(np.concatenate(found))
        zero.append(losses.sums(part, losses_BCT))
        for sentence, losses_CT in zip(part, losses_BCT, strict=True):
            if sentence.index in quoted_indices:
                with borrow():
                    quoted_sums.append(quotes.sums(network, [sentence], [losses_CT]))
    averages, zero = finish(Sums.total(attended)), Sums.total(zero)
    quoted, example_arrays = examples(chosen, Sums.total(quoted_sums))
    atlas = Atlas(
        origin_of(network, text, "your text", ""),
        layers_of(network),
        head_count(network),
        averages.roles,
        {**averages.arrays, **head_losses(zero, "zero"), **example_arrays},
        affected_tokens(zero, text.target_counts, network.target_tokenizer),
        quoted,
    )
    return atlas, text
