"""Measure a corpus in shards: in this process, or in several on this machine."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import torch

from core.atlas.corpus import Sentence
from core.atlas.sums import Sums
from core.checkpoint.folder import Checkpoint, load

Chunk = tuple[Sentence, ...]


class Measure(Protocol):
    """Computes the sums of one chunk of sentences. Instances are pickled for other processes."""

    def __call__(self, checkpoint: Checkpoint, chunk: Chunk) -> Sums: ...


class Runner(Protocol):
    """Applies a measure to numbered chunks; yields (number, sums) in any order."""

    def __call__(
        self, measure: Measure, folder: Path, chunks: Sequence[tuple[int, Chunk]]
    ) -> Iterator[tuple[int, Sums]]: ...


def in_process(checkpoint: Checkpoint) -> Runner:
    """Return a runner that measures the chunks in turn with a loaded checkpoint."""

    def run(
        measure: Measure, folder: Path, chunks: Sequence[tuple[int, Chunk]]
    ) -> Iterator[tuple[int, Sums]]:
        for number, chunk in chunks:
            yield number, measure(checkpoint, chunk)

    return run


@contextmanager
def in_processes(count: int) -> Generator[Runner]:
    """Context manager: a runner with `count` processes of one thread each.

    Each process keeps the last checkpoint that it loaded, for any number of measures. If a process
    dies, the runner raises BrokenProcessPool, a RuntimeError.
    """
    spawn = multiprocessing.get_context("spawn")  # forking a process that ran torch may hang
    with ProcessPoolExecutor(count, spawn, _begin) as pool:

        def run(
            measure: Measure, folder: Path, chunks: Sequence[tuple[int, Chunk]]
        ) -> Iterator[tuple[int, Sums]]:
            tasks = [pool.submit(_measure_chunk, measure, folder, *chunk) for chunk in chunks]
            try:
                for task in as_completed(tasks):
                    yield task.result()
            finally:
                for task in tasks:
                    task.cancel()

        yield run


def _begin() -> None:
    """Prepare a process of the pool: one thread, and no reaction to Ctrl+C; the parent ends it."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


_loaded = lru_cache(maxsize=1)(load)


def _measure_chunk(measure: Measure, folder: Path, number: int, chunk: Chunk) -> tuple[int, Sums]:
    return number, measure(_loaded(folder), chunk)
