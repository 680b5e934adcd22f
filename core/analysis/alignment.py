"""Word alignments: read from a file, from a map, and scored against hand-made ones.

Axes: T target words, S source words; Q target tokens, K source tokens.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Link = tuple[int, int]
Floats = NDArray[np.floating]

_LINK = re.compile(r"(\d+)([-?p])(\d+)")


@dataclass(frozen=True)
class Gold:
    """A hand-made alignment: (source word, target word) links; the sure are possible ones too."""

    sure: frozenset[Link]
    possible: frozenset[Link]

    @classmethod
    def parse(cls, line: str, one_based: bool = False, target_first: bool = False) -> "Gold":
        """Links `i-j` (sure) and `i?j` or `ipj` (possible) between blanks, words from 0.

        With `one_based` words are counted from 1; with `target_first` i is the target's. Raises
        ValueError for what is no link.
        """
        sure, possible = set(), set()
        for text in line.split():
            match = _LINK.fullmatch(text)
            if not match or (one_based and "0" in (match[1], match[3])):
                raise ValueError(
                    f"{text!r} is no link: write i-j (sure) or i?j (possible), "
                    f"words counted from {int(one_based)}"
                )
            link = int(match[1]) - one_based, int(match[3]) - one_based
            link = link[::-1] if target_first else link
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        return cls(frozenset(sure), frozenset(possible))


@dataclass(frozen=True)
class AlignmentScore:
    """How well links fit hand-made ones (Och & Ney 2003); without a link precision is 0."""

    aer: float
    precision: float
    recall: float


def words_of(texts: Sequence[str], words: Sequence[str]) -> list[int]:
    """The word in which each token begins, from the tokens' texts: the words without the blanks.

    Raises ValueError if the tokens are not those of these words.
    """
    ends = np.cumsum([len(word) for word in words])
    if sum(map(len, texts)) != (ends[-1] if len(words) else 0):
        raise ValueError(f"the tokens {''.join(texts)!r} are not those of {' '.join(words)!r}")
    starts = np.cumsum([0, *map(len, texts)])[:-1]
    return np.searchsorted(ends, starts, side="right").tolist()


def by_word(map_QK: Floats, query_words: Sequence[int], key_words: Sequence[int]) -> Floats:
    """A map of tokens as one of words, [T, S]: the sum over a word's keys, the mean over its
    queries. Of [..., Q, K], with the leading axes kept.
    """
    to_T = _members(query_words)
    to_S = _members(key_words)
    return (to_T / to_T.sum(-1, keepdims=True)) @ map_QK @ to_S.T


def _members(words: Sequence[int]) -> Floats:
    """[words, tokens], 1 where a token is of a word."""
    picked = np.zeros((max(words) + 1, len(words)))
    picked[list(words), np.arange(len(words))] = 1
    return picked


def links(map_TS: Floats) -> frozenset[Link]:
    """Each target word with the source word that has most of its weight: (source, target)."""
    return frozenset((int(s), t) for t, s in enumerate(map_TS.argmax(-1)))


def score(predicted: Iterable[frozenset[Link]], gold: Iterable[Gold]) -> AlignmentScore:
    """AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|) over all sentences, precision and recall with it."""
    in_sure = in_possible = made = sure = 0
    for links_, right in zip(predicted, gold, strict=True):
        in_sure += len(links_ & right.sure)
        in_possible += len(links_ & right.possible)
        made += len(links_)
        sure += len(right.sure)
    if not made + sure:
        raise ValueError("there is no link to score: the alignments are empty")
    return AlignmentScore(
        1 - (in_sure + in_possible) / (made + sure),
        in_possible / made if made else 0.0,
        in_sure / sure if sure else 0.0,
    )
