"""Word alignments: parse gold files, extract links from a map, write and score them (AER).

Axes: T target words, S source words; Q target tokens, K source tokens; L layers, H heads.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.record.words import Words

Link = tuple[int, int]
Floats = NDArray[np.floating]

_LINK = re.compile(r"(\d+)([-?p])(\d+)(?:/([SP]))?(?::\d*\.?\d+(?:e-?\d+)?)?", re.ASCII)
_NAACL = re.compile(r"(\d+)\s+(\d+)\s+(\d+)(?:\s+([SP]))?(?:\s+\d*\.?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Gold:
    """A manual alignment: (source word, target word) links; `possible` includes `sure`."""

    sure: frozenset[Link]
    possible: frozenset[Link]

    @classmethod
    def of(cls, links: Iterable[tuple[int, int, bool]]) -> "Gold":
        """Build an alignment from links (source word, target word, is sure)."""
        links = list(links)
        sure = frozenset((i, j) for i, j, is_sure in links if is_sure)
        return cls(sure, frozenset((i, j) for i, j, _ in links))

    def __bool__(self) -> bool:
        """Whether there is any link; a sentence without links was not aligned by hand."""
        return bool(self.possible)

    @property
    def turned(self) -> "Gold":
        """The alignment for the opposite direction: links (target word, source word)."""
        return Gold(*(frozenset((j, i) for i, j in links) for links in (self.sure, self.possible)))

    @classmethod
    def parse(cls, line: str, one_based: bool = False, target_first: bool = False) -> "Gold":
        """Parse one sentence's links, separated by spaces: `i-j` (sure), `i?j` or `ipj` (possible).

        Words are counted from 0, or from 1 with `one_based`; with `target_first`, i is the target
        word. A link may have a label, `0-0/S` or `0-0/P`, and a score, `0-0:0.9`, which is ignored.
        Raises ValueError for anything else.
        """
        parsed = []
        for text in line.split():
            match = _LINK.fullmatch(text)
            if not match or (one_based and "0" in (match[1], match[3])):
                raise ValueError(
                    f"{text!r} is not a link: write i-j (sure) or i?j (possible), "
                    f"words counted from {int(one_based)}"
                )
            i, j = int(match[1]) - one_based, int(match[3]) - one_based
            sure = match[4] == "S" if match[4] else match[2] == "-"
            parsed.append((j, i, sure) if target_first else (i, j, sure))
        return cls.of(parsed)


def read_gold(
    lines: Sequence[str],
    sentences: int,
    name: str = "the gold",
    one_based: bool = False,
    target_first: bool = False,
) -> list[Gold]:
    """Read the alignments of a file in Pharaoh or NAACL/WMT format.

    Pharaoh has one line per sentence (see `Gold.parse`). NAACL has one line per link: sentence,
    source word and target word, all counted from 1, then S (sure, the default) or P (possible).
    The first non-empty line decides the format. Raises ValueError, with the line number, for a
    line in another format and for a sentence number out of range.
    """
    nonempty = [number for number, line in enumerate(lines) if line.strip()]
    if not nonempty or not _NAACL.fullmatch(lines[nonempty[0]].strip()):
        alignments = []
        for number, line in enumerate(lines, start=1):
            try:
                alignments.append(Gold.parse(line, one_based, target_first))
            except ValueError as error:
                raise ValueError(f"{name} line {number}: {error}") from None
        return alignments
    links_of: list[list[tuple[int, int, bool]]] = [[] for _ in range(sentences)]
    for number in nonempty:
        match = _NAACL.fullmatch(lines[number].strip())
        if not match or "0" in (match[1], match[2], match[3]):
            raise ValueError(
                f"{name} line {number + 1}: {lines[number].strip()[:60]!r} is not in the format of "
                f"line {nonempty[0] + 1}: write sentence, source word, target word, each counted "
                "from 1, and S or P"
            )
        sentence, i, j = (int(match[n]) - 1 for n in (1, 2, 3))
        if sentence >= sentences:
            raise ValueError(
                f"{name} line {number + 1} refers to sentence {match[1]}, but there are only "
                f"{sentences:,} sentences"
            )
        sure = match[4] != "P"
        links_of[sentence].append((j, i, sure) if target_first else (i, j, sure))
    return [Gold.of(links) for links in links_of]


@dataclass(frozen=True)
class AlignmentScore:
    """Agreement of predicted links with gold links (Och & Ney 2003).

    Precision is 0 without predicted links, and recall is 0 without sure gold links.
    """

    aer: float
    precision: float
    recall: float


def by_word(
    map_QK: Floats,
    query_words: Sequence[int],
    key_words: Sequence[int],
    size: tuple[int, int] | None = None,
) -> Floats:
    """Merge a token map [..., Q, K] into a word map [..., T, S].

    Weights are summed over a word's keys and averaged over its queries. `size` is (T, S), if not
    given by the last tokens' words. A target word without tokens has NaN in its row, a source word
    without tokens 0 in its column.
    """
    T, S = size or (max(query_words) + 1, max(key_words) + 1)
    to_T = _membership(query_words, T)
    to_S = _membership(key_words, S)
    with np.errstate(invalid="ignore"):
        mean_T = to_T / to_T.sum(-1, keepdims=True)
    return mean_T @ map_QK @ to_S.T


def _membership(words: Sequence[int], count: int) -> Floats:
    """Return [words, tokens], 1 where the token belongs to the word."""
    return (np.arange(count)[:, None] == np.array(words)).astype(float)


def sources(map_TS: Floats) -> NDArray[np.int64]:
    """Return the source word with the largest value for each target word: [..., T, S] → [..., T].

    It is -1 for a target word without tokens, see `by_word`.
    """
    return np.where(np.isnan(map_TS).any(-1), -1, map_TS.argmax(-1))


def links(map_TS: Floats) -> frozenset[Link]:
    """Link each target word to the source word with the largest value: (source, target)."""
    return frozenset((int(s), t) for t, s in enumerate(sources(map_TS)) if s >= 0)


def pharaoh(links: Iterable[Link]) -> str:
    """Format links as one Pharaoh line: `0-0 1-2`, source word first, sorted."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


@dataclass(frozen=True)
class SentenceAlignment:
    """The words of a source and a target, as positions of their tokens, and the links between them.

    `values` maps each link to its value: the heads' mean map, merged by word. In the reading
    "input", a target word that is not fed to any row has no link.
    """

    source: Words
    target: Words
    values: Mapping[Link, float]


def align_sentence(
    map_LHQK: Floats,
    heads: Sequence[tuple[int, int]],
    reading: str,
    source: Words,
    target: Words,
) -> SentenceAlignment:
    """Link each target word to the source word with the largest mean value of some heads.

    `map_LHQK` is a quantity of the cross-attention, such as its weights. Row q produces target
    token q and is fed the preceding token. `reading` says which row stands for a target token:
    "output" is the row that produces it, "input" the row that is fed it. `source` and `target` are
    words as positions of their tokens; one without tokens has no link. Links count words from 0.
    """
    mean_QK = np.mean([map_LHQK[layer, head] for layer, head in heads], axis=0)
    shift = int(reading == "input")
    values = {}
    for t, word in enumerate(target):
        rows = [q + shift for q in word if q + shift < len(mean_QK)]
        if rows and any(source):
            of_words = [mean_QK[np.ix_(rows, keys)].sum(-1).mean() for keys in source]
            values[int(np.argmax(of_words)), t] = float(max(of_words))
    return SentenceAlignment(source, target, values)


def score(predicted: Iterable[frozenset[Link]], gold: Iterable[Gold]) -> AlignmentScore:
    """Return AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|), precision and recall over all sentences.

    Raises ValueError if there are neither predicted nor sure links.
    """
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
