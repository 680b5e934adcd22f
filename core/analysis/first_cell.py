"""Pick the cross-attention cell to show first: an output word and the source word it attends to."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from core.record.record import Floats, RecordToken

LEAST_WEIGHT = 0.9  # the head must attend almost only to this token
LEAST_LETTERS = 4  # shorter words are mostly articles and prepositions, whose links say little


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
    at least `LEAST_LETTERS` letters. The cell must be the largest of its row both in one head, with
    at least `LEAST_WEIGHT`, and in the mean over all layers and heads. Among these, return the one
    with the highest weight × mean weight × (1 − similarity of the two spellings), so that names and
    other copied words come last.
    """
    queries, keys = whole_words(produced), whole_words(source)
    best, found = 0.0, None
    means_QK = cross_LHQK.mean((0, 1))
    for query in queries:
        rows_LHK = cross_LHQK[:, :, query]
        for key in keys:
            if means_QK[query].argmax() != key:
                continue
            unlike = (
                1
                - SequenceMatcher(
                    None, source[key].text.casefold(), produced[query].text.casefold()
                ).ratio()
            )
            of_heads = rows_LHK[..., key]  # above ½, it is the largest of its row
            layer, head = np.unravel_index(int(of_heads.argmax()), of_heads.shape)
            weight = float(of_heads[layer, head])
            score = weight * float(means_QK[query, key]) * unlike
            if weight >= LEAST_WEIGHT and score > best:
                best, found = score, FirstCell(int(layer), int(head), query, key, weight)
    return found


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
