"""Measure a corpus in chunks: in this process, or by workers that may die and are replaced."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Protocol

import torch

from core.atlas.corpus import Line, Sentence, tokenised
from core.atlas.sums import Sums
from core.checkpoint.folder import Checkpoint, load

Chunk = tuple[Line, ...]
"""Lines that are measured together. They are tokenised where they are measured."""

AHEAD = 4
"""How many chunks per worker are under way at most, so that memory does not grow with a corpus."""
DEATHS = 3
"""After how many deaths of workers in a row, without a measured chunk between, a run ends."""


class Measure(Protocol):
    """Computes the sums of one chunk of sentences. Instances are pickled for other processes."""

    def __call__(self, checkpoint: Checkpoint, chunk: tuple[Sentence, ...], /) -> Sums: ...


class Runner(Protocol):
    """Applies a measure to chunks; yields the sums of each chunk in the order of the chunks."""

    def __call__(
        self, measure: Measure, folder: Path, chunks: Iterable[Chunk], /
    ) -> Iterator[Sums]: ...


Submit = Callable[[Measure, Path, Chunk], "Future[Sums]"]
"""Hands one chunk to a pool of workers, which replaces those that died.

The future raises BrokenExecutor, a RuntimeError, if the chunk's worker died.
"""


def in_process(checkpoint: Checkpoint) -> Runner:
    """Return a runner that measures the chunks in turn with a loaded checkpoint."""

    def run(measure: Measure, folder: Path, chunks: Iterable[Chunk]) -> Iterator[Sums]:
        for chunk in chunks:
            yield measure(checkpoint, tokenised(checkpoint, chunk))

    return run


def by_workers(submit: Submit, count: int) -> Runner:
    """Return a runner over a pool of `count` workers, which serves any number of measures.

    The order of the sums is fixed, so their total has the same bytes for any number of workers. The
    chunk of a worker that died is measured again. The runner raises RuntimeError after DEATHS
    deaths without a measured chunk between.
    """

    def run(measure: Measure, folder: Path, chunks: Iterable[Chunk]) -> Iterator[Sums]:
        left, deaths = iter(chunks), 0
        waiting: deque[tuple[Chunk, Future[Sums]]] = deque()
        try:
            while True:
                for chunk in islice(left, AHEAD * count - len(waiting)):
                    waiting.append((chunk, submit(measure, folder, chunk)))
                if not waiting:
                    return
                chunk, task = waiting[0]
                try:
                    sums = task.result()
                except BrokenExecutor:
                    deaths += 1
                    if deaths == DEATHS:
                        raise RuntimeError(_dead(chunk)) from None
                    for i, (chunk, task) in enumerate(waiting):
                        if _died(task):
                            waiting[i] = chunk, submit(measure, folder, chunk)
                    continue
                waiting.popleft()
                deaths = 0
                yield sums
        finally:
            for _, task in waiting:
                task.cancel()

    return run


def _died(task: Future[Sums]) -> bool:
    return task.done() and isinstance(task.exception(), BrokenExecutor)


def _dead(chunk: Chunk) -> str:
    return (
        f"{DEATHS} workers died, the last ones at lines {chunk[0].index + 1} to "
        f"{chunk[-1].index + 1} or soon after: the memory may be full, use fewer --shards or "
        "shorter lines"
    )


@contextmanager
def in_processes(count: int) -> Generator[Runner]:
    """Context manager: a runner with `count` processes of one thread each; see `by_workers`.

    Each process keeps the last checkpoint that it loaded, for any number of measures.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when a process loads NumPy
    spawn = multiprocessing.get_context("spawn")  # forking a process that ran torch may hang
    pools = [ProcessPoolExecutor(count, spawn, _begin)]

    def submit(measure: Measure, folder: Path, chunk: Chunk) -> Future[Sums]:
        try:
            return pools[-1].submit(measure_chunk, measure, folder, chunk)
        except BrokenExecutor:  # one death ends the whole pool
            pools.append(ProcessPoolExecutor(count, spawn, _begin))
            pools.pop(0).shutdown()
            return pools[-1].submit(measure_chunk, measure, folder, chunk)

    try:
        yield by_workers(submit, count)
    finally:
        pools[-1].shutdown(cancel_futures=True)


def _begin() -> None:
    """Prepare a process of the pool: one thread, and no reaction to Ctrl+C; the parent ends it."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


_loaded = lru_cache(maxsize=1)(load)


def measure_chunk(measure: Measure, folder: Path, chunk: Chunk) -> Sums:
    """Measure one chunk in a worker, which loads a checkpoint once."""
    checkpoint = _loaded(folder)
    return measure(checkpoint, tokenised(checkpoint, chunk))
