"""Statistic of the claim that a few source words trigger the gender of an article.

Axes: R replicates, B sentences, S source tokens, n source words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.analysis.attribution import source_words
from core.atlas.claims.literature import ARTICLES, TRIGGERS
from core.atlas.claims.network import Network
from core.atlas.claims.statistic import Statistic
from core.atlas.corpus import Sentence, drawn
from core.atlas.sums import Sums, bootstrap_weights
from core.checkpoint.folder import Checkpoint
from core.experiments.attribution import input_gradients, log_probs_seeing
from core.frozen import Doubles

GENDERS = {"ein": "eine", "eine": "ein", "einem": "einer", "einer": "einem", "einen": "eine"}
GENDERS |= {"der": "die", "die": "der", "dem": "der", "das": "die"}
GENDERS |= {one.capitalize(): other.capitalize() for one, other in GENDERS.items()}
"""German articles, each with one of another gender."""
_SEED = 8


@dataclass(frozen=True)
class Triggers:
    """Measure how much of the preference for an article's gender a few source words bring.

    The preference is log P of the reference's first article minus log P of the other one, after the
    same words. Only sentences in which the network prefers the reference's article, and in which
    there are more than TRIGGERS words, count. Sums over them, weighted by replicate:

    - all [R]: the preference gained by seeing all source words, over seeing none
    - few [R]: that gained by seeing only the TRIGGERS words with the largest |gradient × input|
    - random [R]: that gained by seeing as many words drawn at random
    - sentences: how many count
    """

    def __call__(self, checkpoint: Checkpoint, chunk: Sequence[Sentence]) -> Sums:
        found = {s.index: gains for s in chunk if (gains := preference_gained(checkpoint, s))}
        if not found:
            return Sums()
        sums_R3 = bootstrap_weights(found).T @ np.array(list(found.values()))
        named = dict(zip(("all", "few", "random"), sums_R3.T, strict=True))
        return Sums(named | {"sentences": np.array(len(found), np.int64)})


def preference_gained(
    checkpoint: Checkpoint, sentence: Sentence
) -> tuple[float, float, float] | None:
    """Return one sentence's share of the sums `all`, `few` and `random`; None if it has none."""
    model = checkpoint.model
    words = source_words(sentence.source)  # ty: ignore[invalid-argument-type]
    pair = _articles(checkpoint, sentence)
    if pair is None or len(words) <= TRIGGERS:
        return None
    source, prefix = sentence.ids[0], sentence.ids[1][: pair[0]]
    targets = [[*prefix, article] for article in pair[1:]]
    last = len(prefix)
    own_S, other_S = (input_gradients(model, source, target, [last])[0] for target in targets)
    size_n = [abs((own_S - other_S)[list(word)].sum()) for word in words]
    largest = np.argsort(size_n, kind="stable")[-TRIGGERS:]
    rng = np.random.default_rng((_SEED, sentence.index))
    random = rng.permutation(len(words))[:TRIGGERS]
    hidden = {position for word in words for position in word}
    always = [position for position in range(len(source)) if position not in hidden]
    seen = [
        tuple(sorted([*always, *(position for n in numbers for position in words[n])]))
        for numbers in (range(len(words)), (), largest, random)
    ]
    own, other = (log_probs_seeing(model, source, target, seen)[:, last] for target in targets)
    everything, nothing, few, of_random = (own - other).tolist()
    if everything <= 0:
        return None
    return everything - nothing, few - nothing, of_random - nothing


def _articles(checkpoint: Checkpoint, sentence: Sentence) -> tuple[int, int, int] | None:
    """Return the row of the first article that is a single token, its id and the other's id."""
    encode = checkpoint.target_tokenizer.encode
    ids = {text: tokens[0].id for text in GENDERS if len(tokens := encode(text)) == 1}
    for row, token in enumerate(sentence.target):
        if token.id == ids.get(token.text) and (other := ids.get(GENDERS[token.text])):
            return row, token.id, other
    return None


def gender(network: Network) -> Mapping[str, Statistic]:
    """Return the statistic on one network that translates into German."""
    return statistics(network.measured(Triggers(), drawn(network.text.lines, ARTICLES, _SEED)))


def statistics(sums: Sums) -> Mapping[str, Statistic]:
    """Return the statistic from the sums of `Triggers`; empty without a sentence that counts."""
    if not sums:
        return {}
    gained_R: Doubles = sums["all"]
    with np.errstate(invalid="ignore", divide="ignore"):
        few_R, random_R = sums["few"] / gained_R, sums["random"] / gained_R
    count = int(sums["sentences"])
    return {"gender-by-few-words": Statistic(few_R, count, float(random_R[0]))}
