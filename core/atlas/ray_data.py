"""Measure a corpus on a cluster, with Ray Data."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from core.atlas.shards import Chunk, Measure, Runner
from core.atlas.sums import Sums


def on_ray(workers: int) -> Runner:
    """Return a runner with a pool of up to `workers` Ray actors of one processor each.

    `ray.init` connects to the cluster at RAY_ADDRESS, or starts one on this machine. Each machine
    needs this project and the checkpoint folder at the same paths. Raises ValueError if Ray is not
    installed (the project's extra `ray`).
    """
    try:
        import ray
        import ray.data
    except ImportError:
        raise ValueError('Ray is not installed: pip install -e ".[ray]"') from None

    def run(
        measure: Measure, folder: Path, chunks: Sequence[tuple[int, Chunk]]
    ) -> Iterator[tuple[int, Sums]]:
        if not ray.is_initialized():
            ray.init(logging_level=logging.ERROR, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        by_number = ray.put(dict(chunks))
        rows = ray.data.from_items([{"number": number} for number, _ in chunks])
        rows = rows.repartition(len(chunks))  # one chunk per task, so that any worker can take it
        pool = ray.data.ActorPoolStrategy(min_size=1, max_size=min(workers, len(chunks)))
        arguments = measure, folder, by_number
        measured = rows.map(_Worker, compute=pool, fn_constructor_args=arguments, num_cpus=1)
        for row in measured.iter_rows():
            yield int(row["number"]), Sums.from_bytes(row["sums"])

    return run


class _Worker:
    """An actor that has loaded the checkpoint and measures chunks by number."""

    def __init__(self, measure: Measure, folder: Path, by_number: Any):
        import ray
        import torch

        from core.checkpoint.folder import load

        torch.set_num_threads(1)
        self._measure = measure
        self._checkpoint = load(folder)
        self._chunks = ray.get(by_number)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        sums = self._measure(self._checkpoint, self._chunks[row["number"]])
        return {"number": row["number"], "sums": sums.to_bytes()}
