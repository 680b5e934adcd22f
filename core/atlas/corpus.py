"""A corpus for the atlas: tokenised sentence pairs with texts, alignments and token counts."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from core.analysis.alignment import Gold
from core.checkpoint.folder import Checkpoint
from core.text.line import tokens_and_words
from core.text.tokenizer import BOS, EOS, Token, special, with_first

CHUNK = 25
"""The number of sentences in a chunk. It is fixed, so results do not depend on shards."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One pair of a corpus. `source` and `target` end with <eos>; `index` counts lines from 0.

    A source begins with the `first` tokens of the source tokenizer, if there are any. A sentence
    with gold links also has the given word of each token of both sides that is not special, see
    `core.text.line`.
    """

    index: int
    source: tuple[Token, ...]
    target: tuple[Token, ...]
    source_text: str
    reference: str
    gold: Gold | None = None
    words: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def lead(self) -> int:
        """The number of special tokens in front of the source."""
        return [token.special for token in self.source].index(False)  # a source is not empty

    @property
    def target_in(self) -> tuple[Token, ...]:
        """The tokens fed to the decoder: <bos>, then all of the target but <eos>."""
        return (special(BOS), *self.target[:-1])

    @property
    def ids(self) -> tuple[list[int], list[int]]:
        """The ids of both sides, with <eos>."""
        return [t.id for t in self.source], [t.id for t in self.target]


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs in the order of their lines.

    `source_counts` and `target_counts` say how often each token id occurs. `skipped` has one line
    for each pair that cannot be measured. Each SHA-256 is of the lines as given, joined by "\\n".
    """

    sentences: tuple[Sentence, ...]
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
        return sum(bool(sentence.gold) for sentence in self.sentences)

    def chunks(self) -> Iterator[tuple[Sentence, ...]]:
        """Yield the sentences in chunks of CHUNK."""
        for start in range(0, len(self.sentences), CHUNK):
            yield self.sentences[start : start + CHUNK]


def corpus(
    checkpoint: Checkpoint, pairs: Sequence[tuple[str, str]], gold: Sequence[Gold] | None = None
) -> Corpus:
    """Tokenise pairs of text for a checkpoint; skip pairs with a side that is empty or too long.

    `gold` has one manual alignment per pair, of the words of the given lines; a pair without links
    has no gold. Raises ValueError if the numbers of pairs and alignments differ, or if no pair is
    left.
    """
    if gold is not None and len(gold) != len(pairs):
        raise ValueError(
            f"{len(pairs)} sentence pairs and {len(gold)} alignments: give one alignment for each "
            "pair, line by line"
        )
    sentences: list[Sentence] = []
    skipped: list[str] = []
    limit = checkpoint.card.model.max_length
    tokenizers = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    for index, pair in enumerate(pairs):
        (source, of_source), (target, of_target) = map(tokens_and_words, tokenizers, pair)
        source = (*with_first(tokenizers[0], source), special(EOS))
        target = (*target, special(EOS))
        longest = max(len(source), len(target))
        if min(len(source), len(target)) == 1:
            skipped.append(f"line {index + 1} has an empty side")
        elif longest > limit:
            skipped.append(
                f"line {index + 1} has {longest} tokens with <eos>: the limit is {limit}"
            )
        else:
            sentence = Sentence(index, source, target, *pair)
            if gold is not None and gold[index]:
                words = tuple(of_source), tuple(of_target)
                sentence = replace(sentence, gold=gold[index], words=words)
            sentences.append(sentence)
    if not sentences:
        reason = f" ({skipped[0]})" if skipped else ""
        raise ValueError(f"there is no sentence pair to measure{reason}: at least 1 is needed")
    return Corpus(
        tuple(sentences),
        tuple(skipped),
        checkpoint.card.source_language,
        checkpoint.card.target_language,
        *(_sha256([pair[side] for pair in pairs]) for side in (0, 1)),
        Counter(token.id for s in sentences for token in s.source),
        Counter(token.id for s in sentences for token in s.target),
    )


def write_without_gold(file: Path, count: int, sentences: int) -> None:
    """Say on stderr how many sentences have no gold links, if any."""
    if count:
        sys.stderr.write(
            f"{file}: {count:,} of {sentences:,} sentences have no gold links and are not scored\n"
        )


def drawn(sentences: Sequence[Sentence], count: int, seed: int) -> tuple[Sentence, ...]:
    """Draw `count` sentences without replacement, or all if there are fewer; keep their order."""
    chosen = np.random.default_rng(seed).permutation(len(sentences))[:count]
    return tuple(sentences[i] for i in sorted(chosen))


def _sha256(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
