"""Measure a corpus in shards: in this process, or in several on this machine."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import torch

from core.atlas.corpus import Sentence
from core.atlas.sums import Sums
from core.checkpoint.folder import Checkpoint, load

Chunk = tuple[Sentence, ...]


class Measure(Protocol):
    """What is measured: one chunk of sentences → sums. Instances travel to other processes."""

    def __call__(self, checkpoint: Checkpoint, chunk: Chunk) -> Sums: ...


class Runner(Protocol):
    """Applies a measure to chunks, in any order and anywhere; yields (chunk number, sums)."""

    def __call__(
        self, measure: Measure, folder: Path, chunks: Sequence[tuple[int, Chunk]]
    ) -> Iterator[tuple[int, Sums]]: ...


def in_process(checkpoint: Checkpoint) -> Runner:
    """Return a runner that measures chunk after chunk with a loaded checkpoint."""

    def run(
        measure: Measure, folder: Path, chunks: Sequence[tuple[int, Chunk]]
    ) -> Iterator[tuple[int, Sums]]:
        for number, chunk in chunks:
            yield number, measure(checkpoint, chunk)

    return run


def in_processes(count: int) -> Runner:
    """Return a runner with `count` processes of one thread each, which load the checkpoint."""

    def run(
        measure: Measure, folder: Path, chunks: Sequence[tuple[int, Chunk]]
    ) -> Iterator[tuple[int, Sums]]:
        spawn = multiprocessing.get_context("spawn")  # forking a process that ran torch may hang
        with spawn.Pool(min(count, len(chunks)), _begin, (measure, folder)) as pool:
            yield from pool.imap_unordered(_measure_chunk, chunks)

    return run


_state: tuple[Measure, Checkpoint] | None = None


def _begin(measure: Measure, folder: Path) -> None:
    """Prepare a process of the pool."""
    global _state
    torch.set_num_threads(1)
    _state = measure, load(folder)


def _measure_chunk(numbered: tuple[int, Chunk]) -> tuple[int, Sums]:
    assert _state is not None
    measure, checkpoint = _state
    number, chunk = numbered
    return number, measure(checkpoint, chunk)
