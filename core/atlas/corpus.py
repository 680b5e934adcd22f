"""A corpus for the atlas: lines on disk, tokenised pairs, alignments and token counts."""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import NamedTuple, TypeVar, overload
from weakref import finalize

import numpy as np

from core.analysis.alignment import Gold
from core.checkpoint.folder import Checkpoint
from core.text.line import tokens_and_words, words_of_line
from core.text.tokenizer import BOS, EOS, Token, Tokenizer, special, with_first, with_forced

T = TypeVar("T")

CHUNK = 25
"""The number of sentences in a chunk. It is fixed, so results do not depend on shards."""

_IN_MEMORY = 1 << 20  # bytes of text; more is kept in a temporary file


class Line(NamedTuple):
    """One pair of a corpus as text, as it is sent to a worker; `index` counts lines from 0."""

    index: int
    source_text: str
    reference: str
    gold: Gold | None = None


@dataclass(frozen=True, slots=True)
class Sentence:
    """A tokenised `Line`. `source` and `target` end with <eos>.

    A source begins with the `first` tokens and the prefix of its tokenizer's frame, a target with
    the forced tokens, as in a translation. A sentence with gold links also has the given word of
    each token of both sides that is not special, see `core.text.line`; those of the prefix are
    negative. `leads` are the numbers of special tokens in front of the source and of the target.
    """

    index: int
    source: tuple[Token, ...]
    target: tuple[Token, ...]
    source_text: str
    reference: str
    gold: Gold | None = None
    words: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    leads: tuple[int, int] = (0, 0)

    @property
    def line(self) -> Line:
        """The pair as text."""
        return Line(self.index, self.source_text, self.reference, self.gold)

    @property
    def target_in(self) -> tuple[Token, ...]:
        """The tokens fed to the decoder: <bos>, then all of the target but <eos>."""
        return (special(BOS), *self.target[:-1])

    @property
    def ids(self) -> tuple[list[int], list[int]]:
        """The ids of both sides, with <eos>."""
        return [t.id for t in self.source], [t.id for t in self.target]


def tokenised(checkpoint: Checkpoint, lines: Iterable[Line]) -> tuple[Sentence, ...]:
    """Tokenise lines for a checkpoint."""
    both = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    return tuple(_tokenised(both, line) for line in lines)


def _tokenised(tokenizers: tuple[Tokenizer, Tokenizer], line: Line) -> Sentence:
    index, *texts, gold = line
    given = tokenizers[0].frame.prefixed(texts[0])
    added = len(words_of_line(given)) - len(words_of_line(texts[0]))  # words of the prefix
    source, of_source = tokens_and_words(tokenizers[0], given)
    target, of_target = tokens_and_words(tokenizers[1], texts[1])
    words = (tuple(n - added for n in of_source), tuple(of_target)) if gold else ((), ())
    sides = with_first(tokenizers[0], source), with_forced(tokenizers[1], target) if target else ()
    leads = len(sides[0]) - len(source), len(sides[1]) - len(target)
    source, target = ((*side, special(EOS)) for side in sides)
    return Sentence(index, source, target, *texts, gold, words, leads)


class _Lazy(Sequence[T]):
    """Items that `_item` makes at each use."""

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        chosen = range(len(self))[at]
        return self._item(chosen) if isinstance(chosen, int) else tuple(map(self._item, chosen))

    def _item(self, number: int) -> T:
        raise NotImplementedError


class Lines(_Lazy[Line]):
    """Lines in a temporary file, read again at each use, so that memory does not grow with them.

    Only alignments, which are made by hand and few, and 8 bytes per line stay in memory.
    """

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  (closed with the lines)
        finalize(self, self._file.close)
        self._starts = array("q")
        self._gold: dict[int, Gold] = {}

    def append(self, line: Line) -> None:
        """Add a line at the end."""
        self._file.seek(0, SEEK_END)
        self._starts.append(self._file.tell())
        self._file.write(json.dumps(line[:3]).encode() + b"\n")
        if line.gold is not None:
            self._gold[line.index] = line.gold

    def __len__(self) -> int:
        return len(self._starts)

    def _item(self, number: int) -> Line:
        self._file.seek(self._starts[number])
        index, source_text, reference = json.loads(self._file.readline())
        return Line(index, source_text, reference, self._gold.get(index))


class Sentences(_Lazy[Sentence]):
    """The sentences of lines, tokenised at each use; see `Lines`."""

    def __init__(self, lines: Sequence[Line], tokenizers: tuple[Tokenizer, Tokenizer]) -> None:
        self.lines = lines
        self._tokenizers = tokenizers

    def __len__(self) -> int:
        return len(self.lines)

    def _item(self, number: int) -> Sentence:
        return _tokenised(self._tokenizers, self.lines[number])


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs in the order of their lines.

    `source_counts` and `target_counts` say how often each token id occurs. `skipped` has one line
    for each pair that cannot be measured. Each SHA-256 is of the lines as given, joined by "\\n".
    """

    sentences: Sequence[Sentence]
    skipped: tuple[str, ...]
    source_language: str
    target_language: str
    source_sha256: str
    target_sha256: str
    source_counts: Mapping[int, int]
    target_counts: Mapping[int, int]

    @property
    def linked(self) -> int:
        """The number of sentences with gold links."""
        return sum(bool(line.gold) for line in self.lines)

    @property
    def lines(self) -> Sequence[Line]:
        """The sentences as text, which measures are applied to."""
        if isinstance(self.sentences, Sentences):
            return self.sentences.lines
        return tuple(sentence.line for sentence in self.sentences)


def corpus(
    checkpoint: Checkpoint, pairs: Iterable[tuple[str, str]], gold: Sequence[Gold] | None = None
) -> Corpus:
    """Tokenise pairs of text for a checkpoint; skip pairs with a side that is empty or too long.

    The pairs are read once and kept in a temporary file. `gold` has one manual alignment per pair,
    of the words of the given lines; a pair without links has no gold. Raises ValueError if the
    numbers of pairs and alignments differ, or if no pair is left.
    """
    lines, skipped, count = Lines(), [], 0
    limit = checkpoint.card.model.max_length
    tokenizers = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    digests = hashlib.sha256(), hashlib.sha256()
    counts: tuple[Counter[int], Counter[int]] = Counter(), Counter()
    for index, pair in enumerate(pairs):
        count += 1
        for digest, text in zip(digests, pair, strict=True):
            digest.update(("\n" * (index > 0) + text).encode())
        links = gold[index] or None if gold is not None and index < len(gold) else None
        sentence = _tokenised(tokenizers, Line(index, *pair, links))
        sides = sentence.source, sentence.target
        longest = max(map(len, sides))
        if min(map(len, sides)) == 1:
            skipped.append(f"line {index + 1} has an empty side")
        elif longest > limit:
            skipped.append(
                f"line {index + 1} has {longest} tokens with <eos>: the limit is {limit}"
            )
        else:
            lines.append(sentence.line)
            for counter, side in zip(counts, sides, strict=True):
                counter.update(token.id for token in side)
    if gold is not None and len(gold) != count:
        raise ValueError(
            f"{count} sentence pairs and {len(gold)} alignments: give one alignment for each "
            "pair, line by line"
        )
    if not len(lines):
        reason = f" ({skipped[0]})" if skipped else ""
        raise ValueError(f"there is no sentence pair to measure{reason}: at least 1 is needed")
    return Corpus(
        Sentences(lines, tokenizers),
        tuple(skipped),
        checkpoint.card.source_language,
        checkpoint.card.target_language,
        *(digest.hexdigest() for digest in digests),
        *counts,
    )


def write_without_gold(file: Path, count: int, sentences: int) -> None:
    """Say on stderr how many sentences have no gold links, if any."""
    if count:
        sys.stderr.write(
            f"{file}: {count:,} of {sentences:,} sentences have no gold links and are not scored\n"
        )


def chunked(items: Sequence[T], size: int = CHUNK, done: int = 0) -> Iterator[tuple[T, ...]]:
    """Yield items in chunks, each read when it is asked for, without the first `done` chunks."""
    for start in range(done * size, len(items), size):
        yield tuple(items[start : start + size])


def drawn(items: Sequence[T], count: int, seed: int) -> tuple[T, ...]:
    """Draw `count` items without replacement, or all if there are fewer; keep their order."""
    chosen = np.random.default_rng(seed).permutation(len(items))[:count]
    return tuple(items[i] for i in sorted(chosen.tolist()))
