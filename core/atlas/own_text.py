"""An atlas of a text that a visitor gives: what can be measured in seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from core.atlas.atlas import Atlas
from core.atlas.attention import Attention, finish
from core.atlas.build import TEXT_ROLES, layers_of, origin_of
from core.atlas.corpus import Corpus, corpus
from core.atlas.examples import Examples, examples, quoted_sentences
from core.atlas.losses import HeadLosses, affected_tokens, head_losses
from core.atlas.roles import Facts
from core.atlas.sums import Sums
from core.checkpoint.folder import Checkpoint
from core.experiments.experiment import Progress, Steps

MAX_LINES = 300

_STEP = 5
"""Sentences between two reports of progress, during which other threads wait for the model."""


def own_text(
    borrow: Callable[[], AbstractContextManager[object]],
    network: Checkpoint,
    pairs: Sequence[tuple[str, str]],
) -> Steps[tuple[Atlas, Corpus]]:
    """Yield progress, and return the atlas of some sentence pairs and the text as measured.

    The atlas has roles with their nulls, entropies, distances, zero ablation, tokens and quoted
    sentences. `borrow` gives exclusive access to the network for one step. Raises ValueError for
    more than MAX_LINES pairs, and if none can be measured.
    """
    if len(pairs) > MAX_LINES:
        raise ValueError(f"{len(pairs):,} lines: the limit is {MAX_LINES}, leave some out")
    text = corpus(network, pairs)
    chosen = quoted_sentences(text)
    measures = (
        (Attention(Facts.of(text), TEXT_ROLES), text.sentences),
        (HeadLosses("zero"), text.sentences),
        (Examples(), chosen),
    )
    total, done = sum(len(sentences) for _, sentences in measures), 0
    results = []
    for measure, sentences in measures:
        parts = []
        for start in range(0, len(sentences), _STEP):
            part = sentences[start : start + _STEP]
            with borrow():
                parts.append(measure(network, part))
            done += len(part)
            yield Progress(done, total)
        results.append(Sums.total(parts))
    attended, zero, quoted_sums = results
    averages = finish(attended)
    quoted, example_arrays = examples(chosen, quoted_sums)
    found = Atlas(
        origin_of(network, text, "your text", ""),
        layers_of(network),
        network.card.model.num_heads,
        averages.roles,
        {**averages.arrays, **head_losses(zero, "zero"), **example_arrays},
        affected_tokens(zero, text.target_counts, network.target_tokenizer),
        quoted,
    )
    return found, text
