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

_LINK = re.compile(r"(\d+)([-?p])(\d+)(?:/([SP]))?(?::\d*\.?\d+(?:e-?\d+)?)?", re.ASCII)
_NAACL = re.compile(r"(\d+)\s+(\d+)\s+(\d+)(?:\s+([SP]))?(?:\s+\d*\.?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Gold:
    """A hand-made alignment: (source word, target word) links; the sure are possible ones too."""

    sure: frozenset[Link]
    possible: frozenset[Link]

    @classmethod
    def of(cls, links: Iterable[tuple[int, int, bool]]) -> "Gold":
        """Collect links (source word, target word, whether it is sure)."""
        links = list(links)
        sure = frozenset((i, j) for i, j, is_sure in links if is_sure)
        return cls(sure, frozenset((i, j) for i, j, _ in links))

    @classmethod
    def parse(cls, line: str, one_based: bool = False, target_first: bool = False) -> "Gold":
        """Read one sentence's links: `i-j` (sure), `i?j` or `ipj` (possible), between blanks.

        Words count from 0, with `one_based` from 1; with `target_first` i is the target's. A link
        may carry a label, `0-0/S` or `0-0/P`, and a score, `0-0:0.9`, which is ignored. Raises
        ValueError for what is no link.
        """
        found = []
        for text in line.split():
            match = _LINK.fullmatch(text)
            if not match or (one_based and "0" in (match[1], match[3])):
                raise ValueError(
                    f"{text!r} is no link: write i-j (sure) or i?j (possible), "
                    f"words counted from {int(one_based)}"
                )
            i, j = int(match[1]) - one_based, int(match[3]) - one_based
            sure = match[4] == "S" if match[4] else match[2] == "-"
            found.append((j, i, sure) if target_first else (i, j, sure))
        return cls.of(found)


def read_gold(
    lines: Sequence[str],
    sentences: int,
    name: str = "the gold",
    one_based: bool = False,
    target_first: bool = False,
) -> list[Gold]:
    """Read the alignments of a file, in the format of Pharaoh or of NAACL/WMT.

    Pharaoh has a line for each sentence, see `Gold.parse`; NAACL a line for each link: sentence,
    source word, target word, all counted from 1, and S (sure, also where it is left out) or P
    (possible). Which one it is, the first line with a link says. Raises ValueError, with the
    line's number, for a line of another format and for a sentence that is not there.
    """
    written = [number for number, line in enumerate(lines) if line.strip()]
    if not written or not _NAACL.fullmatch(lines[written[0]].strip()):
        found = []
        for number, line in enumerate(lines, start=1):
            try:
                found.append(Gold.parse(line, one_based, target_first))
            except ValueError as error:
                raise ValueError(f"{name} line {number}: {error}") from None
        return found
    links_of: list[list[tuple[int, int, bool]]] = [[] for _ in range(sentences)]
    for number in written:
        match = _NAACL.fullmatch(lines[number].strip())
        if not match or "0" in (match[1], match[2], match[3]):
            raise ValueError(
                f"{name} line {number + 1}: {lines[number].strip()[:60]!r} is not of the format of "
                "line 1: write sentence, source word, target word, each counted from 1, and S or P"
            )
        sentence, i, j = (int(match[n]) - 1 for n in (1, 2, 3))
        if sentence >= sentences:
            raise ValueError(
                f"{name} line {number + 1} is about sentence {match[1]}: there are {sentences:,}"
            )
        sure = match[4] != "P"
        links_of[sentence].append((j, i, sure) if target_first else (i, j, sure))
    return [Gold.of(found) for found in links_of]


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
