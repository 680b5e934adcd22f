"""Measure cross-attention heads as word aligners: error, null baselines and the best set of heads.

Axes: R bootstrap replicates, of which the first is the sample itself; L layers, H heads, T target
words, S source words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from core.analysis.alignment import Gold, sources
from core.atlas.atlas import AlignmentHeads
from core.atlas.corpus import Corpus, Line, Sentence, chunked
from core.atlas.intervals import interval
from core.atlas.shards import Runner
from core.atlas.sums import Sums, bootstrap_weights
from core.checkpoint.folder import Checkpoint
from core.experiments.aligning import (
    QUANTITIES,
    READINGS,
    Quantity,
    Reading,
    check_pair,
    with_means,
    word_maps,
)
from core.frozen import Doubles

Pair = TypeVar("Pair", Line, Sentence)
HeadSet = tuple[tuple[int, int], ...]
"""Cross-attention heads as (layer, head), counted from 0."""

COMBINATIONS: tuple[tuple[Reading, Quantity], ...] = tuple(product(READINGS, QUANTITIES))
BY_WEIGHTS: tuple[tuple[Reading, Quantity], ...] = tuple(product(READINGS, ("weights",)))
"""The combinations that other programs can use, because they read attention weights, not norms."""

_LINKS = ("made", "sure")
_OF_DIAGONAL = ("diagonal_in_sure", "diagonal_in_possible")
_SIZES = (*_LINKS, "sentences")

CHOSEN_ON, SCORED_ON = 0, 1
"""Sentences with an even index (0) choose the best set; those with an odd one (1) score it."""


def check_gold(checkpoint: Checkpoint, corpus: Corpus) -> None:
    """Raise ValueError if an alignment does not fit its sentence pair, or if no link is sure."""
    for sentence, gold in _with_gold(corpus.lines):
        check_pair(checkpoint, _texts(sentence), gold, sentence.index + 1)
    if not any(gold.sure for _, gold in _with_gold(corpus.lines)):
        raise ValueError(
            "the gold alignments have no sure link for these sentences: at least 1 is needed"
        )


@dataclass(frozen=True)
class HeadLinks:
    """Measure how many links of each cross-attention head are in the gold alignments.

    A head links each target word to the source word with the largest value, so all heads make
    equally many links. Sentences without gold links do not count. Sums, by replicate:

    - in_sure, in_possible [R, 2, 2, L + 1, H + 1]: how many of a head's links are sure or possible
      gold links, by reading and quantity; index L is the mean map over layers, index H over heads
    - diagonal_in_sure, diagonal_in_possible [R]: the same counts for the monotone diagonal's links
    - made, sure [R]: the number of links that each head makes, and of sure gold links
    - sentences [R]: the number of sentences with gold alignments
    """

    def __call__(self, checkpoint: Checkpoint, chunk: Sequence[Sentence]) -> Sums:
        card = checkpoint.card.model
        shape = 2, 2, card.num_decoder_layers + 1, card.heads("cross") + 1
        counts: list[tuple[Sentence, dict[str, NDArray[np.int64]]]] = []
        for sentence, gold in _with_gold(chunk):
            maps = word_maps(checkpoint, _texts(sentence))
            best = np.stack([sources(with_means(maps[at])) for at in COMBINATIONS])
            T, S = next(iter(maps.values())).shape[-2:]
            best = best.reshape(*shape, T)
            is_linked_T = best[0, 0, 0, 0] >= 0  # the same words for every head
            monotone = np.where(is_linked_T, diagonal(T, S), -1)
            counts.append(
                (
                    sentence,
                    _counts(best, gold)
                    | {f"diagonal_{k}": v for k, v in _counts(monotone, gold).items()}
                    | _sizes(int(is_linked_T.sum()), gold),
                )
            )
        names: dict[str, tuple[int, ...]] = {"in_sure": shape, "in_possible": shape}
        names |= dict.fromkeys((*_OF_DIAGONAL, *_SIZES), ())
        return _weighted(counts, names)


@dataclass(frozen=True)
class SetLinks:
    """Measure how many links of sets of heads are in the gold alignments of half the sentences.

    A set's map is the mean of its heads' maps. `sets[c]` holds the n sets for COMBINATIONS[c];
    `half` is CHOSEN_ON or SCORED_ON. Sums: in_sure_c and in_possible_c [R, n] for each c; made,
    sure and sentences [R], as in `HeadLinks`.
    """

    sets: tuple[tuple[HeadSet, ...], ...]
    half: int

    def __call__(self, checkpoint: Checkpoint, chunk: Sequence[Sentence]) -> Sums:
        counts: list[tuple[Sentence, dict[str, NDArray[np.int64]]]] = []
        for sentence, gold in _with_gold(chunk):
            if sentence.index % 2 != self.half:
                continue
            maps = word_maps(checkpoint, _texts(sentence))
            any_TS = next(iter(maps.values()))[0, 0]
            T = len(any_TS)
            found = _sizes(int((sources(any_TS) >= 0).sum()), gold)
            for c, (at, sets) in enumerate(zip(COMBINATIONS, self.sets, strict=True)):
                best = [sources(mean_map(maps[at], heads)) for heads in sets]
                of_sets = _counts(np.array(best, dtype=np.int64).reshape(len(sets), T), gold)
                found |= {f"{name}_{c}": count for name, count in of_sets.items()}
            counts.append((sentence, found))
        names: dict[str, tuple[int, ...]] = dict.fromkeys(_SIZES, ())
        for c, sets in enumerate(self.sets):
            names |= dict.fromkeys((f"in_sure_{c}", f"in_possible_{c}"), (len(sets),))
        return _weighted(counts, names)


def mean_map(map_LHTS: NDArray, heads: HeadSet) -> NDArray:
    """Return the mean of some heads' maps: [L, H, T, S] → [T, S]."""
    layers, numbers = zip(*heads, strict=True)
    return map_LHTS[list(layers), list(numbers)].mean(0)


def diagonal(T: int, S: int) -> NDArray[np.int64]:
    """Return the source word of each target word on the monotone diagonal: round(t·(S−1)/(T−1)).

    Halves are rounded up; a single target word is linked to the first source word.
    """
    t = np.arange(T)
    return (2 * t * (S - 1) + T - 1) // max(1, 2 * (T - 1)) if T > 1 else t


def aligner_arrays(total: Sums) -> dict[str, NDArray[np.float32]]:
    """Turn the sums of `HeadLinks` into `Atlas` arrays: aer, precision, recall and the nulls' aer.

    `aer_random` is the expected AER of a random head, reading and quantity: the mean over all of
    them. Raises ValueError if no sentence has a sure gold link.
    """
    if not total or not total["sure"][0] or not total["made"][0]:
        raise ValueError("no sentence has a sure gold link: at least 1 is needed")
    made, sure = (total[name].reshape(-1, 1, 1, 1, 1) for name in ("made", "sure"))
    count = round(total["sentences"][0])
    aer = alignment_error(total["in_sure"], total["in_possible"], made, sure)
    arrays = {
        "aer": interval(aer, count),
        "precision": total["in_possible"][0] / total["made"][0],
        "recall": total["in_sure"][0] / total["sure"][0],
        "aer_diagonal": interval(
            alignment_error(*(total[name] for name in (*_OF_DIAGONAL, *_LINKS))),
            count,
        ),
        "aer_random": interval(aer[..., :-1, :-1].mean((1, 2, 3, 4)), count),
    }
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def best_heads(
    run: Runner,
    folder: Path,
    corpus: Corpus,
    size: tuple[int, int],
    combinations: Sequence[tuple[Reading, Quantity]] = BY_WEIGHTS,
    one_layer: bool = False,
    on_progress: Callable[[int], object] = lambda count: None,
) -> AlignmentHeads | None:
    """Choose the set of cross-attention heads that aligns words best; `size` is (L, H).

    Greedy forward selection on the sentences with an even index, for each of `combinations`
    (reading, quantity): add the head that lowers the AER of the mean map most, until none lowers
    it. Of the resulting sets, the one with the lowest AER is scored on the sentences with an odd
    index, which had no part in the choice. With `one_layer`, all heads are in the layer of the
    first one chosen. `on_progress` is called with the number of newly measured chunks. Return None
    unless each half has at least 2 sentences with sure links.
    """
    chunks = [chunk for chunk in chunked(corpus.lines) if _with_gold(chunk)]
    linked = [line.index % 2 for line, gold in _with_gold(corpus.lines) if gold.sure]
    if min(linked.count(half) for half in (CHOSEN_ON, SCORED_ON)) < 2:
        return None

    def measured(measure: SetLinks) -> Sums:
        parts = []
        for sums in run(measure, folder, chunks):
            parts.append(sums)
            on_progress(1)
        return Sums.total(parts)

    every = tuple(product(range(size[0]), range(size[1])))
    chosen: dict[int, HeadSet] = {COMBINATIONS.index(at): () for at in combinations}
    lowest = dict.fromkeys(chosen, np.inf)
    growing = set(chosen)
    while growing:
        sets = tuple(
            tuple((*chosen[c], head) for head in every if _fits(chosen[c], head, one_layer))
            if c in growing
            else ()
            for c in range(len(COMBINATIONS))
        )
        total = measured(SetLinks(sets, CHOSEN_ON))
        for c in sorted(growing):
            aer = _set_aer(total, c)[0] if sets[c] else np.array([np.inf])
            if aer.min() < lowest[c]:
                chosen[c], lowest[c] = sets[c][aer.argmin()], aer.min()
            else:
                growing.remove(c)
    best = min(chosen, key=lambda c: lowest[c])
    alone = tuple((chosen[c],) if c == best else () for c in range(len(COMBINATIONS)))
    scored = measured(SetLinks(alone, SCORED_ON))
    aer, low, high = interval(_set_aer(scored, best)[:, 0], round(scored["sentences"][0]))
    return AlignmentHeads(chosen[best], *COMBINATIONS[best], float(aer), float(low), float(high))


def scored_half(run: Runner, folder: Path, corpus: Corpus) -> NDArray[np.float32]:
    """Return the AER of every head where `best_heads` scores its set; axes as `aer` of an atlas."""
    half = [line for line, _ in _with_gold(corpus.lines) if line.index % 2 == SCORED_ON]
    return aligner_arrays(Sums.total(run(HeadLinks(), folder, list(chunked(half)))))["aer"]


def random_head(aer: NDArray, quantity: Quantity) -> float:
    """Return the expected AER of a random head and reading, from `aer` of an atlas."""
    return float(aer[:, QUANTITIES.index(quantity), :-1, :-1, 0].mean())


def _texts(sentence: Line | Sentence) -> tuple[str, str]:
    return sentence.source_text, sentence.reference


def _with_gold(chunk: Sequence[Pair]) -> list[tuple[Pair, Gold]]:
    return [(pair, pair.gold) for pair in chunk if pair.gold]


def _fits(heads: HeadSet, head: tuple[int, int], one_layer: bool) -> bool:
    return head not in heads and not (one_layer and heads and head[0] != heads[0][0])


def _sizes(made: int, gold: Gold) -> dict[str, NDArray[np.int64]]:
    """Return the sums `made`, `sure` and `sentences` of one sentence with `made` links a head."""
    return {name: np.array(n) for name, n in zip(_SIZES, (made, len(gold.sure), 1), strict=True)}


def _counts(source_T: NDArray[np.int64], gold: Gold) -> dict[str, NDArray[np.int64]]:
    """Count the links (`source_T[..., t]`, t) that are sure, and those that are possible: [...]."""
    T = source_T.shape[-1]
    counts = {}
    for name, links in (("in_sure", gold.sure), ("in_possible", gold.possible)):
        right = np.zeros(source_T.shape[:-1], dtype=np.int64)
        for source, target in links:
            if target < T:
                right += source_T[..., target] == source
        counts[name] = right
    return counts


def _weighted(
    counts: Sequence[tuple[Sentence, dict[str, NDArray]]], shapes: dict[str, tuple[int, ...]]
) -> Sums:
    """Add up the counts of sentences in each replicate: [R, …] by name."""
    weights_BR = bootstrap_weights(sentence.index for sentence, _ in counts)
    return Sums(
        {
            name: np.tensordot(
                weights_BR,
                np.array([count[name] for _, count in counts], float).reshape(len(counts), *shape),
                axes=(0, 0),
            )
            for name, shape in shapes.items()
        }
    )


def alignment_error(
    in_sure: NDArray, in_possible: NDArray, made: NDArray, sure: NDArray
) -> Doubles:
    """Return 1 − (|A∩S| + |A∩P|) / (|A| + |S|) (Och & Ney 2003); NaN without any link."""
    with np.errstate(invalid="ignore"):
        return 1 - (in_sure + in_possible) / (made + sure)


def _set_aer(total: Sums, c: int) -> Doubles:
    made, sure = total["made"][:, None], total["sure"][:, None]
    return alignment_error(total[f"in_sure_{c}"], total[f"in_possible_{c}"], made, sure)
