"""Encoded pairs → padded batches by token budget, in an order that seed and epoch alone decide."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from core.text.tokenizer import BOS, EOS, PAD, Tokenizer

Pair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class Batch:
    """One padded batch of ids: source [B, S], target_in [B, T] from <bos>, target_out to <eos>."""

    source: Tensor
    target_in: Tensor
    target_out: Tensor

    def to(self, device: torch.device | str) -> "Batch":
        return Batch(self.source.to(device), self.target_in.to(device), self.target_out.to(device))


def encode_pairs(pairs: list[tuple[str, str]], source: Tokenizer, target: Tokenizer) -> list[Pair]:
    """Ids of each pair, both sides ending with <eos>."""
    return [
        ([t.id for t in source.encode(s)] + [EOS], [t.id for t in target.encode(t_)] + [EOS])
        for s, t_ in pairs
    ]


def pad(rows: list[list[int]]) -> Tensor:
    """Rows of ids → int64 [rows, longest], padded on the right."""
    width = max(len(row) for row in rows)
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def collate(pairs: list[Pair]) -> Batch:
    """Pad pairs to a batch; the target is fed in one place later than it is expected out."""
    return Batch(
        source=pad([source for source, _ in pairs]),
        target_in=pad([[BOS, *target[:-1]] for _, target in pairs]),
        target_out=pad([target for _, target in pairs]),
    )


def plan(pairs: list[Pair], budget: int, seed: int | None = None) -> list[list[int]]:
    """Indices of each batch: at most `budget` padded tokens on the longer side, lengths alike.

    With a seed, pairs of like length are shuffled and so are the batches; without, the order is
    by length alone. The same arguments always give the same plan, so a run can be resumed in it.
    """
    shuffled = random.Random(seed)
    noise = [shuffled.random() if seed is not None else 0.0 for _ in pairs]

    def length(i: int) -> tuple[int, float]:
        source, target = pairs[i]
        return (len(target) // 3, len(source) + 2 * noise[i])  # close on both sides: little padding

    batches: list[list[int]] = []
    batch: list[int] = []
    widest = 0
    for i in sorted(range(len(pairs)), key=length):
        widest_now = max(widest, len(pairs[i][0]), len(pairs[i][1]))
        if batch and widest_now * (len(batch) + 1) > budget:
            batches.append(batch)
            batch, widest_now = [], max(len(pairs[i][0]), len(pairs[i][1]))
        batch.append(i)
        widest = widest_now
    if batch:
        batches.append(batch)
    if seed is not None:
        shuffled.shuffle(batches)
    return batches


def batches(pairs: list[Pair], budget: int, seed: int | None = None) -> Iterator[Batch]:
    """The planned batches, padded."""
    for indices in plan(pairs, budget, seed):
        yield collate([pairs[i] for i in indices])
