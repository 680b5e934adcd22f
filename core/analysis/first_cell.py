"""The cross-attention cell to begin with: a word written, and the word behind it."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from core.record.record import Floats, RecordToken

LEAST_WEIGHT = 0.9  # below it a row is not sharply on one token
LEAST_LETTERS = 4  # shorter words are mostly articles and prepositions, whose links tell little


@dataclass(frozen=True)
class FirstCell:
    """A cell of the cross-attention, counted from 0, and its weight."""

    layer: int
    head: int
    query: int
    key: int
    weight: float


def first_cell(
    cross_LHQK: Floats, source: Sequence[RecordToken], produced: Sequence[RecordToken]
) -> FirstCell | None:
    """The cell with which to begin: a word, and the other word that its row is sharply on.

    `source` names the keys, `produced` the queries. Both tokens are whole words of `LEAST_LETTERS`
    letters or more. Among the cells that are the largest of their row, in one head with at least
    `LEAST_WEIGHT` and in the mean over all heads, it is the one with much weight between two words
    that are spelled differently: weight × mean weight over layers and heads × (1 − the share of
    letters that both words have in the same order). None where there is no such cell.
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
            of_heads = rows_LHK[..., key]  # above a half, it is the largest of its row
            layer, head = np.unravel_index(int(of_heads.argmax()), of_heads.shape)
            weight = float(of_heads[layer, head])
            score = weight * float(means_QK[query, key]) * unlike
            if weight >= LEAST_WEIGHT and score > best:
                best, found = score, FirstCell(int(layer), int(head), query, key, weight)
    return found


def whole_words(tokens: Sequence[RecordToken]) -> list[int]:
    """The places of tokens that are a word by themselves, of `LEAST_LETTERS` letters or more."""
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
    """Whether the token at a place continues the word before it."""
    if at >= len(tokens) or tokens[at].special or tokens[at].starts_word:
        return False
    return any(map(str.isalnum, tokens[at].text))
