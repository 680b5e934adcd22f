"""Pick the cross-attention cell to show first: an output word and the source word it attends to."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from core.frozen import Floats
from core.record.record import RecordToken

LEAST_WEIGHT = 0.9  # the head must give the key almost all of the query's weight
LEAST_LETTERS = 4  # shorter words are mostly articles and prepositions, which tell a reader little


@dataclass(frozen=True)
class FirstCell:
    """A cross-attention cell, counted from 0, and its weight."""

    layer: int
    head: int
    query: int
    key: int
    weight: float


def first_cell(
    cross_LHQK: Floats, source: Sequence[RecordToken], produced: Sequence[RecordToken]
) -> FirstCell | None:
    """Return the cell to show first, or None if no cell qualifies.

    `source` holds the key tokens, `produced` the query tokens. Both tokens must be whole words of
    at least `LEAST_LETTERS` letters. The cell must have at least `LEAST_WEIGHT` in one head, and be
    the largest of its row in the mean over all layers and heads. Among these cells, return the one
    with the highest weight × mean weight × (1 − similarity of the two spellings). Similar spellings
    therefore rank low, and a word copied unchanged never qualifies.
    """
    queries, keys = whole_words(produced), whole_words(source)
    best_score, best = 0.0, None
    means_QK = cross_LHQK.mean((0, 1))
    for query in queries:
        rows_LHK = cross_LHQK[:, :, query]
        for key in keys:
            if means_QK[query].argmax() != key:
                continue
            texts = source[key].text.casefold(), produced[query].text.casefold()
            difference = 1 - SequenceMatcher(None, texts[0], texts[1]).ratio()
            weights_LH = rows_LHK[..., key]  # a weight above ½ is the largest of its row
            layer, head = np.unravel_index(int(weights_LH.argmax()), weights_LH.shape)
            weight = float(weights_LH[layer, head])
            score = weight * float(means_QK[query, key]) * difference
            if weight >= LEAST_WEIGHT and score > best_score:
                best_score, best = score, FirstCell(int(layer), int(head), query, key, weight)
    return best


def whole_words(tokens: Sequence[RecordToken]) -> list[int]:
    """Return the positions of tokens that are a whole word of at least `LEAST_LETTERS` letters."""
    return [
        at
        for at, token in enumerate(tokens)
        if token.starts_word
        and not (token.special or token.unknown)
        and len(token.text) >= LEAST_LETTERS
        and token.text.isalpha()
        and not _continued(tokens, at + 1)
    ]


def _continued(tokens: Sequence[RecordToken], at: int) -> bool:
    """Return whether the token at a position continues the word before it."""
    if at >= len(tokens) or tokens[at].special or tokens[at].starts_word:
        return False
    return any(map(str.isalnum, tokens[at].text))
