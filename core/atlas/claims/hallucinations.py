"""Statistic of the claim that a few decoder heads make most of what a network makes up.

Axes: R replicates, C sets of ablated heads (index 0 of [1 + C] is the unedited network).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.atlas.bleu import with_kv_cache
from core.atlas.claims.literature import CRAZY, UNREADABLE
from core.atlas.claims.network import Network
from core.atlas.claims.statistic import Statistic
from core.atlas.corpus import Line, Sentence, drawn
from core.atlas.pruning import Choices
from core.atlas.sums import Sums, bootstrap_weights
from core.checkpoint.folder import Checkpoint
from core.config import DecodeConfig
from core.experiments.head_effects import heads_of
from core.frozen import Doubles
from core.record.editing import edited
from core.record.edits import Edits
from core.search.many import translate_ids

RANDOM_SETS = 3
"""How many sets of other heads tell what any heads would do."""
_SEED = 7
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class MadeUp:
    """Measure how many greedy translations are made up, with each set of `choices` zero-ablated.

    Sums: made_up [R, 1 + C]; sentences.
    """

    choices: Choices

    def __call__(self, checkpoint: Checkpoint, chunk: Sequence[Sentence]) -> Sums:
        model, decode = with_kv_cache(checkpoint.model), checkpoint.target_tokenizer.decode
        sources = [sentence.ids[0][:-1] for sentence in chunk]
        device = str(next(model.parameters()).device)
        forced = checkpoint.target_tokenizer.frame.forced
        found_CB = []
        for choice in ((), *self.choices):
            with edited(model, Edits(heads_off=frozenset(choice))):
                results = translate_ids(model, sources, DecodeConfig(beam=1), device, forced=forced)
            texts = [decode(list(first.ids)) for first, *_ in results]
            pairs = zip(chunk, texts, strict=True)
            found_CB.append([is_made_up(sentence.source_text, text) for sentence, text in pairs])
        weights_BR = bootstrap_weights(sentence.index for sentence in chunk)
        made_up_RC = weights_BR.T @ np.array(found_CB, float).T
        return Sums({"made_up": made_up_RC, "sentences": np.array(len(chunk), np.int64)})


def is_made_up(given: str, written: str) -> bool:
    """Return whether most words that were written are not in the text that was given."""
    known = set(_WORD.findall(given.lower()))
    words = _WORD.findall(written.lower())
    return sum(word not in known for word in words) > len(words) / 2


def hallucinations(network: Network) -> Mapping[str, Statistic]:
    """Return the statistic on one network, from sentences in the language that it writes.

    The heads are chosen on every second sentence, and the others test them.
    """
    chosen = drawn(network.text.lines, UNREADABLE, _SEED)
    foreign = [Line(line.index, line.reference, line.reference) for line in chosen]
    heads = heads_of(network.checkpoint.model, ["decoder"])
    each = network.measured(MadeUp(tuple((head,) for head in heads)), foreign[::2])
    few = round(CRAZY * len(heads))
    order = np.argsort(each["made_up"][0, 1:], kind="stable").tolist()
    crazy, rest = order[:few], order[few:]
    rng = np.random.default_rng(_SEED)
    sets = [crazy, *(rng.permutation(rest)[:few].tolist() for _ in range(RANDOM_SETS))]
    tested = MadeUp(tuple(tuple(heads[i] for i in sorted(one)) for one in sets))
    return statistics(network.measured(tested, foreign[1::2]))


def statistics(sums: Sums) -> Mapping[str, Statistic]:
    """Return the statistic from the sums of `MadeUp`: of the chosen heads first, then of others."""
    made_up_RC: Doubles = sums["made_up"]
    if not made_up_RC[0, 0]:
        return {}
    with np.errstate(invalid="ignore", divide="ignore"):
        gone_RC = 1 - made_up_RC[:, 1:] / made_up_RC[:, :1]
    null = float(gone_RC[0, 1:].mean())
    return {"few-heads-hallucinate": Statistic(gone_RC[:, 0], int(sums["sentences"]), null)}
