"""Encode a task's examples with the source tokens that each target token should look at.

Axes: N examples, S source and T target tokens, both padded, P parts of the task.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from core.data.batches import Batch, Pair, collate
from core.data.captions import CAPTIONS, SIDES
from core.data.tasks import TASKS, Example
from core.files import printable
from core.text.subwords import SubwordTokenizer
from core.text.tokenizer import EOS, Tokenizer, normalise

PAIRS = ("source", "target")
"""The sides of given pairs."""
HELD_OUT = 100
"""The most examples that are held out: a generated task never trains on them."""
MAX_LENGTH = 64
"""The most tokens of a side, with <eos>."""
_SAMPLE = 2_000  # examples of a generated task from which its vocabulary is learned
_WHOLE_WORDS = 4_000  # entries: enough to merge every word of a generated task into one token
_PASTED = 1_000  # entries for pasted pairs
_OF_CAPTIONS = 2_000
_HELD_OUT_SEED, _SAMPLE_SEED = 0, 1  # the training draws from other seeds


@dataclass(frozen=True, eq=False)
class Held:
    """Held-out examples as one batch, with the right source tokens of each target token.

    `right` is bool [P, N, T, S]: True where the target token of row t belongs to the part and its
    characters are determined by the source token of column s.
    """

    examples: tuple[Example, ...]
    batch: Batch
    right: Tensor


class Examples:
    """The examples of a generated task, or given pairs, encoded with their own vocabulary.

    `parts` name the parts of a target whose alignment is known; given pairs have none. `sides` name
    the source and the target.
    """

    FEW = 20
    """With fewer given pairs, all serve for training and for testing."""

    def __init__(self, task: str, pairs: Sequence[tuple[str, str]] = ()) -> None:
        """Take a name of `TASKS`, or any other name with `pairs` of lines.

        Raises ValueError for an unknown task without pairs, and for a pair that is too long.
        """
        if not pairs and task not in TASKS:
            raise ValueError(f"unknown task {task[:30]!r}: choose {', '.join(TASKS)}")
        self.task = task
        self._generated = None if pairs else TASKS[task]
        self.parts = self._generated.parts if self._generated else ()
        self.sides = self._generated.sides if self._generated else PAIRS
        self._given = [Example(normalise(a), normalise(b)) for a, b in pairs]
        if self._generated:
            self.tokenizer: Tokenizer = _tokenizer(task)
        else:
            entries = _OF_CAPTIONS if task == CAPTIONS else _PASTED
            self.tokenizer = SubwordTokenizer.train(
                [side for pair in pairs for side in pair], entries, 1, single_digits=True
            )
        if task == CAPTIONS:
            self.sides = SIDES
        for one in self._given:
            self.encode(one.source, one.target)
        held = self._held_out()
        self._excluded = {example.source for example in held}
        self.held = self._encoded(held)

    @property
    def is_held_out(self) -> bool:
        """Whether the held-out examples are unseen: few given pairs serve for both."""
        return self._generated is not None or len(self._given) > len(self._training)

    @property
    def _training(self) -> list[Example]:
        few = len(self._given) < self.FEW
        return self._given if few else self._given[: -min(HELD_OUT, len(self._given) // 10)]

    def _held_out(self) -> list[Example]:
        if self._generated is None:
            rest = self._given[len(self._training) :]
            return rest or self._given[:HELD_OUT]
        rng, found = random.Random(_HELD_OUT_SEED), {}
        while len(found) < HELD_OUT:
            example = self._generated.draw(rng)
            found.setdefault(example.source, example)
        return list(found.values())

    def batch(self, rng: random.Random, size: int) -> Batch:
        """Draw a training batch, in the order of `rng`."""
        drawn: list[Example] = []
        while len(drawn) < size:
            if self._generated is None:
                drawn.append(self._training[rng.randrange(len(self._training))])
            elif (example := self._generated.draw(rng)).source not in self._excluded:
                drawn.append(example)
        return collate([self.encode(example.source, example.target) for example in drawn])

    def encode(self, source: str, target: str) -> Pair:
        """Return the ids of a pair, each side with <eos>. Raises ValueError for a long side."""
        left, right = (
            [token.id for token in self.tokenizer.encode(text)] + [EOS] for text in (source, target)
        )
        if (longest := max(len(left), len(right))) > MAX_LENGTH:
            text = source if len(left) == longest else target
            raise ValueError(
                f"“{printable(text[:40])}…” has {longest} tokens with <eos>: the limit is "
                f"{MAX_LENGTH}, shorten it or leave it out"
            )
        return left, right

    def _encoded(self, examples: Sequence[Example]) -> Held:
        batch = collate([self.encode(one.source, one.target) for one in examples])
        N, (S, T) = len(examples), (batch.source.shape[1], batch.target_out.shape[1])
        right = torch.zeros(len(self.parts), N, T, S, dtype=torch.bool)
        for n, example in enumerate(examples):
            of_source, of_target = (
                token_of(self.tokenizer, text) for text in (example.source, example.target)
            )
            for link in example.links:
                for character in link.source:
                    part = self.parts.index(link.part)
                    right[part, n, of_target[link.target], of_source[character]] = True
        return Held(tuple(examples), batch, right)


def token_of(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the index of the token that holds each character of a normalised text."""
    starts = [start for _, start in tokenizer.placed(text)]
    ends = [*starts[1:], len(text)]
    return [i for i, (a, b) in enumerate(zip(starts, ends, strict=True)) for _ in range(b - a)]


@cache
def _tokenizer(task: str) -> SubwordTokenizer:
    """Learn a generated task's vocabulary: each word and each digit is one token."""
    rng = random.Random(_SAMPLE_SEED)
    drawn = [TASKS[task].draw(rng) for _ in range(_SAMPLE)]
    lines = [side for example in drawn for side in (example.source, example.target)]
    return SubwordTokenizer.train(lines, _WHOLE_WORDS, 1, single_digits=True)
