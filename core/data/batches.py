"""Encode pairs and group them into padded batches with a token budget, reproducibly."""

import hashlib
import multiprocessing
import random
import signal
import tempfile
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TypeVar

import numpy as np
import torch
from torch import Tensor

from core.text.line import encode_source_line, encode_target_line
from core.text.tokenizer import BOS, EOS, PAD, Tokenizer

Pair = tuple[list[int], list[int]]
T = TypeVar("T")


@dataclass(frozen=True)
class Batch:
    """A padded batch of ids: source [B, S], target_in and target_out [B, T].

    target_in begins with <bos>; target_out is one token ahead and ends with <eos>.
    """

    source: Tensor
    target_in: Tensor
    target_out: Tensor

    def to(self, device: torch.device | str) -> "Batch":
        return Batch(self.source.to(device), self.target_in.to(device), self.target_out.to(device))


BREAK = "‖"
"""Splits a word in two: no token crosses this character, and it gets no id itself."""


def encode_pairs(
    pairs: Iterable[tuple[str, str]], source: Tokenizer, target: Tokenizer
) -> Iterator[Pair]:
    """Yield the ids of each pair, with what the tokenizers put in front, and <eos> at the end."""
    for left, right in pairs:
        yield (
            [t.id for t in encode_source_line(source, left) if t.text != BREAK] + [EOS],
            [t.id for t in encode_target_line(target, right) if t.text != BREAK] + [EOS],
        )


class EncodedPairs(Sequence[Pair]):
    """Pairs of ids in a memory-mapped temporary file, so a corpus may be larger than memory."""

    def __init__(self, pairs: Iterable[Pair]):
        """Write the pairs to the file as they are iterated. Raises OSError if the disk is full."""
        with tempfile.TemporaryFile() as file:
            self._open(file, *_write(pairs, file))

    def _open(self, file: IO[bytes], lengths: np.ndarray, sha256: str) -> None:
        # The map keeps the file after it is closed. An empty file cannot be mapped.
        empty = np.empty(0, np.int32)
        self._ids = np.memmap(file, np.int32, mode="r") if len(lengths) else empty
        self.lengths = lengths
        """Number of source and target tokens of each pair, int32 [pairs, 2]."""
        self.sha256 = sha256
        """Identifies the pairs and their order."""
        self._ends = self.lengths.sum(1, dtype=np.int64).cumsum()

    @classmethod
    def in_background(cls, pairs: Iterable[Pair]) -> Callable[[], "EncodedPairs"]:
        """Write the pairs in a background process; return a function that waits for the result.

        The function raises ValueError if the process failed; the process has then printed the
        reason.
        """
        fork = multiprocessing.get_context("fork")  # the child shares the pairs without a copy
        receiving, sending = fork.Pipe(duplex=False)
        file = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `wait`

        def work() -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent terminates this process
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            sending.send(_write(pairs, file))

        process = fork.Process(target=work, daemon=True)
        process.start()
        sending.close()

        def wait() -> EncodedPairs:
            with file, receiving:
                try:
                    written = receiving.recv()
                except EOFError:
                    raise ValueError(
                        "the process that encodes pairs failed, see above: continue with --resume"
                    ) from None
                finally:
                    process.join()
                encoded = cls.__new__(cls)
                encoded._open(file, *written)
                return encoded

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
    """Write the ids of pairs; return their lengths [pairs, 2] and a digest of both."""
    lengths = array("i")
    digest = hashlib.sha256()
    for source, target in pairs:
        ids = np.array([*source, *target], np.int32).tobytes()
        file.write(ids)
        digest.update(ids)
        lengths.extend((len(source), len(target)))
    file.flush()
    counts = np.array(lengths, np.int32).reshape(-1, 2)
    digest.update(counts.tobytes())
    return counts, digest.hexdigest()


def pad(rows: list[list[int]]) -> Tensor:
    """Pad rows of ids on the right: int64 [rows, longest]."""
    width = max(len(row) for row in rows)
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows], device="cpu")


def collate(pairs: list[Pair]) -> Batch:
    """Pad pairs to a batch; target_in is target_out shifted right by one."""
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
    keep_order: bool = False,
) -> list[list[int]]:
    """Return the indices of each batch: similar lengths, at most `budget` padded tokens per side.

    With `sentences`, a batch holds that many pairs instead. A seed shuffles the batches, and the
    pairs of equal length; without a seed, batches are in order of length. `keep_order` keeps the
    order of `pairs`. The plan depends only on the arguments, so a run can be resumed within an
    epoch.
    """
    rng = random.Random(seed)
    noise = [rng.random() if seed is not None else 0.0 for _ in range(len(pairs))]
    lengths = pair_lengths(pairs)
    longer, difference = lengths.max(axis=1, initial=0), lengths[:, 0] - lengths[:, 1]
    # Sort by the longer side, which the budget limits. Sort ties by the other side, alternately up
    # and down, so that a batch that spans two lengths has similar lengths on both sides.
    by_length = np.lexsort((noise, np.where(longer % 2, difference, -difference), longer))
    order = range(len(pairs)) if keep_order else by_length.tolist()
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
    if seed is not None and not keep_order:
        rng.shuffle(batches)
    return batches


def pair_lengths(pairs: Sequence[Pair]) -> np.ndarray:
    """Return the number of source and target tokens of each pair, int32 [pairs, 2]."""
    if isinstance(pairs, EncodedPairs):
        return pairs.lengths
    return np.array([[len(s), len(t)] for s, t in pairs], np.int32).reshape(-1, 2)


def parts(items: Sequence[T], size: Callable[[T], int], limit: int) -> Generator[tuple[T, ...]]:
    """Yield consecutive items whose sizes sum to at most `limit`, and larger items one by one.

    So the work on a part takes a bounded time, after which others can take their turns.
    """
    start, total = 0, 0
    for i, item in enumerate(items):
        if i > start and total + size(item) > limit:
            yield tuple(items[start:i])
            start, total = i, 0
        total += size(item)
    if start < len(items):
        yield tuple(items[start:])
