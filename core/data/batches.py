"""Encoded pairs → padded batches by token budget, in an order that seed and epoch alone decide."""

import hashlib
import multiprocessing
import random
import signal
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np
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


BREAK = "‖"
"""Within a word: no token of a pair reaches across it, and it is none; a text's own is left out."""


def encode_pairs(
    pairs: Iterable[tuple[str, str]], source: Tokenizer, target: Tokenizer
) -> Iterator[Pair]:
    """Ids of each pair, both sides ending with <eos>, one pair in memory at a time."""
    for left, right in pairs:
        yield (
            [t.id for t in source.encode(left) if t.text != BREAK] + [EOS],
            [t.id for t in target.encode(right) if t.text != BREAK] + [EOS],
        )


class EncodedPairs(Sequence[Pair]):
    """Pairs of ids in a temporary file, with only their lengths in memory.

    The operating system pages in what is used, so a corpus may be larger than memory.
    """

    def __init__(self, pairs: Iterable[Pair]):
        """Write the pairs out as they come. Raises OSError where the disk is full."""
        with tempfile.TemporaryFile() as file:
            self._open(file, *_write(pairs, file))

    def _open(self, file: IO[bytes], lengths: np.ndarray, sha256: str) -> None:
        nothing = np.empty(0, np.int32)  # no map can be made of it
        # The map keeps the file after it is closed.
        self._ids = np.memmap(file, np.int32, mode="r") if len(lengths) else nothing
        self.lengths = lengths
        """Tokens of each pair's source and target, int32 [pairs, 2]."""
        self.sha256 = sha256
        """Equal where all pairs are, in their order."""
        self._ends = self.lengths.sum(1, dtype=np.int64).cumsum()

    @classmethod
    def begin(cls, pairs: Iterable[Pair]) -> Callable[[], "EncodedPairs"]:
        """Write them in a process beside this one, and return what waits until it has.

        That raises ValueError where the process did not come to its end; it has then said why.
        """
        beside = multiprocessing.get_context("fork")  # whose process needs no copy of the pairs
        receiving, sending = beside.Pipe(duplex=False)
        file = tempfile.TemporaryFile()  # noqa: SIM115  # who waits closes it

        def work() -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends when the one that waits ends it
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            sending.send(_write(pairs, file))

        process = beside.Process(target=work, daemon=True)
        process.start()
        sending.close()

        def wait() -> EncodedPairs:
            with file, receiving:
                try:
                    written = receiving.recv()
                except EOFError:
                    raise ValueError(
                        "the process that encodes pairs ended too early, as said above: "
                        "go on with --resume"
                    ) from None
                finally:
                    process.join()
                made = cls.__new__(cls)
                made._open(file, *written)
                return made

        return wait

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, i):
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        i = range(len(self))[i]
        source, target = self.lengths[i]
        ids = self._ids[self._ends[i] - source - target : self._ends[i]].tolist()
        return ids[:source], ids[source:]


def _write(pairs: Iterable[Pair], file: IO[bytes]) -> tuple[np.ndarray, str]:
    """Write out the ids of pairs; their lengths [pairs, 2], and a digest of both."""
    lengths = array("i")
    digest = hashlib.sha256()
    for source, target in pairs:
        ids = np.array([*source, *target], np.int32).tobytes()
        file.write(ids)
        digest.update(ids)
        lengths.extend((len(source), len(target)))
    file.flush()
    found = np.array(lengths, np.int32).reshape(-1, 2)
    digest.update(found.tobytes())
    return found, digest.hexdigest()


def pad(rows: list[list[int]]) -> Tensor:
    """Rows of ids → int64 [rows, longest], padded on the right."""
    width = max(len(row) for row in rows)
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows], device="cpu")


def collate(pairs: list[Pair]) -> Batch:
    """Pad pairs to a batch; the target is fed in one place later than it is expected out."""
    return Batch(
        source=pad([source for source, _ in pairs]),
        target_in=pad([[BOS, *target[:-1]] for _, target in pairs]),
        target_out=pad([target for _, target in pairs]),
    )


def plan(
    pairs: Sequence[Pair],
    budget: int,
    seed: int | None = None,
    sentences: int | None = None,
    as_they_stand: bool = False,
) -> list[list[int]]:
    """Indices of each batch: at most `budget` padded tokens on the longer side, lengths alike.

    With `sentences`, each batch holds that many pairs instead, the last one what is left.
    With a seed, pairs of equal lengths are shuffled and so are the batches; without, the order is
    by length alone; `as_they_stand`, it is that of the pairs, whatever the seed.
    The same arguments always give the same plan, so a run can be resumed in it.
    """
    shuffled = random.Random(seed)
    noise = [shuffled.random() if seed is not None else 0.0 for _ in range(len(pairs))]
    lengths = pair_lengths(pairs)
    longer, difference = lengths.max(axis=1, initial=0), lengths[:, 0] - lengths[:, 1]
    # By the longer side, which the budget counts. Of equal ones by the other side, up and down in
    # turns: a batch that ends one length and begins the next is alike on both sides, too.
    alike = np.lexsort((noise, np.where(longer % 2, difference, -difference), longer))
    order = range(len(pairs)) if as_they_stand else alike.tolist()
    longest = longer.tolist()
    batches: list[list[int]] = []
    batch: list[int] = []
    widest = 0
    for i in order:
        widest = max(widest, longest[i])
        if sentences is None:
            full = batch and widest * (len(batch) + 1) > budget
        else:
            full = len(batch) == sentences
        if full:
            batches.append(batch)
            batch, widest = [], longest[i]
        batch.append(i)
    if batch:
        batches.append(batch)
    if seed is not None and not as_they_stand:
        shuffled.shuffle(batches)
    return batches


def pair_lengths(pairs: Sequence[Pair]) -> np.ndarray:
    """Tokens of each pair's source and target, int32 [pairs, 2]."""
    if isinstance(pairs, EncodedPairs):
        return pairs.lengths
    return np.array([[len(s), len(t)] for s, t in pairs], np.int32).reshape(-1, 2)


def batches(pairs: Sequence[Pair], budget: int, seed: int | None = None) -> Iterator[Batch]:
    """The planned batches, padded."""
    for indices in plan(pairs, budget, seed):
        yield collate([pairs[i] for i in indices])
