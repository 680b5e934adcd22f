"""Measure a corpus on a cluster: workers that are Ray actors."""

from __future__ import annotations

import threading
from collections.abc import Generator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from core.atlas.shards import Chunk, Measure, Runner, by_workers, measure_chunk
from core.atlas.sums import Sums
from core.cluster import connect


class _Worker:
    """A Ray actor on one processor, with one thread."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)

    def measure(self, measure: Measure, folder: Path, chunk: Chunk) -> Sums:
        """See `measure_chunk`; the checkpoint is loaded once."""
        return measure_chunk(measure, folder, chunk)


@contextmanager
def on_ray(count: int) -> Generator[Runner]:
    """Context manager: a runner with up to `count` Ray actors, started once; see `by_workers`.

    Each of `count` threads waits until the cluster has a processor free for its actor, then hands
    it one chunk after the other. So if the cluster has fewer processors, it has fewer workers.
    Raises ValueError and RuntimeError as `connect` does.
    """
    ray = connect()
    new_worker: Any = ray.remote(num_cpus=1)(_Worker)
    own, workers, ended = threading.local(), [], threading.Event()

    def begin() -> None:
        own.worker = None
        if ended.is_set():
            return
        worker = new_worker.remote()
        workers.append(worker)
        with suppress(ray.exceptions.RayError):
            ray.get(worker.__ray_ready__.remote())
            own.worker = worker

    def measured(measure: Measure, folder: Path, chunk: Chunk) -> Sums:
        if own.worker is None:
            begin()
        if own.worker is None:
            raise BrokenExecutor("the worker did not start")
        try:
            return ray.get(own.worker.measure.remote(measure, folder.resolve(), chunk))
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None  # the measure's own error
        except ray.exceptions.RayError:
            ray.kill(own.worker)  # it may only have lost its connection
            own.worker = None
            raise BrokenExecutor("the worker died") from None

    threads = ThreadPoolExecutor(count, "ray", begin)

    def submit(measure: Measure, folder: Path, chunk: Chunk) -> Future[Sums]:
        return threads.submit(measured, measure, folder, chunk)

    try:
        yield by_workers(submit, count)
    finally:
        ended.set()
        threads.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            ray.kill(worker)  # ends the threads that wait for one, too
        threads.shutdown()
