"""Train a small network from Python: `core.train_small` yields its history after each point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from core.data.captions import CAPTIONS, short_captions
from core.small.examples import Examples
from core.small.history import History
from core.small.run import SmallConfig, SmallRun


def train_small(
    task: str,
    pairs: Sequence[tuple[str, str]] = (),
    data: Path | str | None = None,
    **settings: Any,
) -> Iterator[History]:
    """Train on a generated task, or on `pairs` of lines, and yield the history after each point.

    The task "captions" reads short captions of Multi30k from the folder of corpora `data`, or
    downloads them; their alignment is unknown, so no share on the right token is measured.

    `settings` are those of SmallConfig. The first point comes before any step; the object is the
    same each time. In a notebook, `for run in core.train_small("dates"): run.show()` draws the
    maps and curves while the network learns. Raises ValueError for unknown tasks and settings.
    """
    if task == CAPTIONS and not pairs:
        pairs = short_captions(None if data is None else Path(data))
    history = History(SmallRun(Examples(task, pairs), SmallConfig(**settings)))
    yield history
    while history.run.step_number < history.run.config.steps:
        history.run.step()
        if history.is_due() or history.run.step_number == history.run.config.steps:
            history.add()
            yield history
