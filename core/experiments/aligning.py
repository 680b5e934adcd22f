"""Score each cross-attention head as a word aligner against manual alignments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from core.analysis.alignment import AlignmentScore, Gold, by_word, links, score
from core.checkpoint.folder import Checkpoint
from core.experiments.values import norms_of
from core.record.capture import capture
from core.text.line import tokens_and_words, words_of_line
from core.text.tokenizer import BOS, EOS, Token, Tokenizer

Reading = Literal["output", "input"]
Quantity = Literal["weights", "norms"]
READINGS: tuple[Reading, ...] = ("output", "input")
QUANTITIES: tuple[Quantity, ...] = ("weights", "norms")


@dataclass(frozen=True)
class Row:
    """The score of one head, counted from 0; None stands for the mean over layers or heads."""

    reading: Reading
    quantity: Quantity
    layer: int | None
    head: int | None
    score: AlignmentScore


@torch.inference_mode()
def align(
    checkpoint: Checkpoint,
    pairs: Sequence[tuple[str, str]],
    gold: Sequence[Gold],
    on_progress: Callable[[int], object] = lambda count: None,
) -> list[Row]:
    """Score every cross-attention head on word-tokenised pairs, teacher-forced.

    For a target word, *output* reads the rows that produce its tokens, and *input* the rows that
    take them as input (Chen et al. 2020, §3). *weights* are attention weights; *norms* are the
    norms of the weighted, transformed values (Kobayashi et al. 2020). Each target word is aligned
    to the source word with the largest value; `<eos>` does not count as a word. Words are those of
    the given lines, see `core.text.line`. Pairs without gold links are left out. `on_progress` is
    called with the number of newly completed pairs. Raises ValueError, before running the model, if
    the numbers of pairs and alignments differ, if no pair has gold links, or for a pair that is
    empty, too long, or inconsistent with its alignment.
    """
    if len(pairs) != len(gold):
        raise ValueError(
            f"{len(pairs)} sentence pairs and {len(gold)} alignments: "
            "they need the same number, line for line"
        )
    for number, (pair, alignment) in enumerate(zip(pairs, gold, strict=True), start=1):
        if alignment:
            check_pair(checkpoint, pair, alignment, number)
    linked = [both for both in zip(pairs, gold, strict=True) if both[1]]
    if not linked:
        raise ValueError(f"none of the {len(gold)} sentences has gold links: at least 1 is needed")
    links_of: dict[tuple, list[frozenset]] = {}
    for pair, _ in linked:
        for (reading, quantity), map_LHTS in word_maps(checkpoint, pair).items():
            L, H = map_LHTS.shape[:2]
            for layer, of_layer in zip((*range(L), None), with_means(map_LHTS), strict=True):
                for head, map_TS in zip((*range(H), None), of_layer, strict=True):
                    at = reading, quantity, layer, head
                    links_of.setdefault(at, []).append(links(map_TS))
        on_progress(1)
    return [
        Row(*key, score(predicted, [right for _, right in linked]))
        for key, predicted in links_of.items()
    ]


def check_pair(checkpoint: Checkpoint, pair: tuple[str, str], gold: Gold, number: int) -> None:
    """Raise ValueError, naming sentence `number`, unless a pair can be aligned and fits its gold.

    A side must be neither empty nor too long, and each link must refer to words of the pair.
    """
    try:
        _sides(checkpoint, pair)
        _check(gold, pair)
    except ValueError as error:
        raise ValueError(f"sentence {number}: {error}") from None


def best(rows: Sequence[Row]) -> Row:
    """Return the row with the lowest alignment error rate, the first one if tied."""
    return min(rows, key=lambda row: row.score.aer)


def with_means(map_LHTS: np.ndarray) -> np.ndarray:
    """Append the mean over layers and the mean over heads: [L, H, …] → [L + 1, H + 1, …]."""
    of_layers = np.concatenate([map_LHTS, map_LHTS.mean(0, keepdims=True)])
    return np.concatenate([of_layers, of_layers.mean(1, keepdims=True)], axis=1)


@torch.inference_mode()
def word_maps(
    checkpoint: Checkpoint, pair: tuple[str, str]
) -> dict[tuple[Reading, Quantity], np.ndarray]:
    """Return the cross-attention of one pair, merged to words, by reading and quantity.

    Each array is [layer, head, target word, source word].

    Words are those of the given lines, and a word of which no token is read has NaN in its row and
    0 in its column; see `align` for readings and quantities. Raises ValueError for a side that is
    empty or too long. Hooks are process-wide: the caller must hold the model's lock.
    """
    (source, source_words), (target, target_words) = _sides(checkpoint, pair)
    size = len(words_of_line(pair[1])), len(words_of_line(pair[0]))
    in_front = checkpoint.source_tokenizer.first
    ids = [*in_front, *(t.id for t in source), EOS], [BOS, *(t.id for t in target)]
    device = next(checkpoint.model.parameters()).device
    with capture(checkpoint.model) as captured:
        checkpoint.model(*(torch.tensor([side], device=device) for side in ids))
    calls = captured.of_kind("cross")
    by_quantity = [call.weights[0] for call in calls], list(map(norms_of, calls))
    maps = {}
    for quantity, by_layer in zip(QUANTITIES, by_quantity, strict=True):
        map_LHQK = torch.stack(by_layer).double().cpu().numpy()
        map_LHQK = map_LHQK[..., len(in_front) : -1]  # without <eos>
        for reading, first in zip(READINGS, (0, 1), strict=True):
            rows = map_LHQK[..., first : first + len(target), :]
            maps[reading, quantity] = by_word(rows, target_words, source_words, size)
    return maps


_Side = tuple[tuple[Token, ...], list[int]]


def _sides(checkpoint: Checkpoint, pair: tuple[str, str]) -> tuple[_Side, _Side]:
    """Encode both sides. Raises ValueError for a side that is empty or too long."""
    source = _encoded(checkpoint.source_tokenizer, pair[0])
    target = _encoded(checkpoint.target_tokenizer, pair[1])
    limit = checkpoint.card.model.max_length
    tokens = len(checkpoint.source_tokenizer.first) + len(source[0]), len(target[0])
    if (longest := max(tokens) + 1) > limit:
        raise ValueError(f"{longest} tokens with <eos>: the limit is {limit}, leave the pair out")
    return source, target


def _encoded(tokenizer: Tokenizer, text: str) -> _Side:
    """Return a text's tokens and, for each token, the index of the word in which it begins."""
    tokens, words = tokens_and_words(tokenizer, text)
    if not tokens:
        raise ValueError("a side is empty")
    return tokens, words


def _check(gold: Gold, pair: tuple[str, str]) -> None:
    lengths = [len(words_of_line(side)) for side in pair]
    for link in gold.possible:
        if link[0] >= lengths[0] or link[1] >= lengths[1]:
            raise ValueError(
                f"its alignment links word {link[0]} to word {link[1]} (counted from 0), but the "
                f"sides have {lengths[0]} and {lengths[1]} words: if words are counted from 1, "
                "pass --one-based"
            )
