"""Unfinished measurements on disk, so that a long command continues where it was interrupted."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from core.atlas.shards import Chunk, Measure, Runner
from core.atlas.sums import Sums
from core.files import write_atomic

_SAVE_EVERY_S = 20.0
_DONE = "done"


class Partial:
    """A folder with the sums of each measure over the chunks that are done.

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
        chunks: Sequence[Chunk],
        run: Runner,
        on_progress: Callable[[int], object] = lambda count: None,
    ) -> Sums:
        """Return the sums of a measure over all chunks, continuing from sums saved earlier.

        `on_progress` is called first with the number of sentences measured earlier, then with the
        number of newly measured ones. The sums are saved every 20 seconds, at the end and on
        interruption. Raises ValueError if earlier sums cannot be read.
        """
        file = self._file(measure, chunks)
        done, total = self._load(file, len(chunks))
        on_progress(sum(len(chunks[number]) for number in done))
        missing = [(number, chunk) for number, chunk in enumerate(chunks) if number not in done]
        saved = time.monotonic()
        try:
            for number, sums in run(measure, checkpoint, missing) if missing else ():
                total, done = total + sums, done | {number}
                on_progress(len(chunks[number]))
                if time.monotonic() - saved > _SAVE_EVERY_S:
                    self._save(file, done, total)
                    saved = time.monotonic()
        finally:
            self._save(file, done, total)
        return total

    def remove(self) -> None:
        """Delete the folder once its results have been written."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _file(self, measure: Measure, chunks: Sequence[Chunk]) -> Path | None:
        if self._folder is None:
            return None
        lines = [[sentence.index for sentence in chunk] for chunk in chunks]
        name = hashlib.sha256(f"{self._identity}\n{measure!r}\n{lines}".encode()).hexdigest()
        return self._folder / f"{name[:32]}.npz"

    def _load(self, file: Path | None, chunks: int) -> tuple[frozenset[int], Sums]:
        if file is None or not file.is_file():
            return frozenset(), Sums()
        try:
            arrays = dict(Sums.from_bytes(file.read_bytes()))
            done = frozenset(arrays.pop(_DONE, np.array([-1])).tolist())
            if not done <= frozenset(range(chunks)):
                raise ValueError("it holds sums of other chunks")
        except ValueError as error:
            problem = f"{file} cannot be continued: {error}"
            raise ValueError(f"{problem}; delete it and run the command again") from None
        return done, Sums(arrays)

    def _save(self, file: Path | None, done: frozenset[int], total: Sums) -> None:
        if file is None or not done:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        numbers = np.array(sorted(done), np.int64)
        write_atomic(file, Sums({**total, _DONE: numbers}).to_bytes())
