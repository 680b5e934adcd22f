"""Unfinished measurements on disk, so that a long command continues where it was interrupted."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from core.atlas.corpus import CHUNK, Line, chunked
from core.atlas.shards import Measure, Runner
from core.atlas.sums import Sums
from core.files import write_atomic

_SAVE_EVERY_S = 20.0
_LEAST_WORK = 20  # times as long as saving took, so that saving much takes at most 5 % of the time
_DONE = "chunks_done"


class Partial:
    """A folder with the sums of each measure over the first chunks, those that are done.

    If `folder` is None, nothing is saved. `identity` names what the sums depend on besides the
    measure: weights, corpus, version. Sums of another identity or measure are ignored.
    """

    def __init__(self, folder: Path | None, identity: str):
        self._folder = folder
        self._identity = identity

    def measured(
        self,
        measure: Measure,
        checkpoint: Path,
        lines: Sequence[Line],
        run: Runner,
        on_progress: Callable[[int], object] = lambda count: None,
        size: int = CHUNK,
    ) -> Sums:
        """Return the sums of a measure over lines, in chunks of `size`, continuing from saved ones.

        `on_progress` is called first with the number of lines measured earlier, then with the
        number of newly measured ones. The sums are saved every 20 seconds or, if saving takes long,
        less often; at the end; and on interruption. Chunks are added in their order, so the sums
        have the same bytes after an interruption. Raises ValueError if earlier sums cannot be read.
        """
        file = self._file(measure, lines, size)
        chunks = -(-len(lines) // size)
        done, total = self._load(file, chunks)
        measured = min(done * size, len(lines))
        on_progress(measured)
        due = time.monotonic() + _SAVE_EVERY_S
        try:
            left = chunked(lines, size, done)
            for sums in run(measure, checkpoint, left) if done < chunks else ():
                total.include(sums)
                done += 1
                now_measured = min(done * size, len(lines))
                on_progress(now_measured - measured)
                measured = now_measured
                if (started := time.monotonic()) > due:
                    self._save(file, done, total)
                    ended = time.monotonic()
                    due = ended + max(_SAVE_EVERY_S, _LEAST_WORK * (ended - started))
        finally:
            self._save(file, done, total)
        return total

    def remove(self) -> None:
        """Delete the folder once its results have been written."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _file(self, measure: Measure, lines: Sequence[Line], size: int) -> Path | None:
        if self._folder is None:
            return None
        digest = hashlib.sha256(f"{self._identity}\n{measure!r}\n{size}".encode())
        for line in lines:
            digest.update(f" {line.index}".encode())
        return self._folder / f"{digest.hexdigest()[:32]}.npz"

    def _load(self, file: Path | None, chunks: int) -> tuple[int, Sums]:
        if file is None or not file.is_file():
            return 0, Sums()
        try:
            arrays = dict(Sums.from_bytes(file.read_bytes()))
            done = arrays.pop(_DONE, np.array(-1)).item()
            if not 0 < done <= chunks:
                raise ValueError("it holds sums of other chunks")
        except ValueError as error:
            problem = f"{file} cannot be continued: {error}"
            raise ValueError(f"{problem}; delete it and run the command again") from None
        return done, Sums.total((Sums(arrays),))  # in arrays that can be added to

    def _save(self, file: Path | None, done: int, total: Sums) -> None:
        if file is None or not done:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, Sums({**total, _DONE: np.array(done, np.int64)}).to_bytes())
