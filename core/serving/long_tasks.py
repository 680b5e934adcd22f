"""A bounded queue that runs one long task at a time and returns its memory to the system."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

from core.files import release_memory
from core.serving.queue import POLL_S, BusyError

WAITING = 4  # tasks that may wait behind the running one
T = TypeVar("T")


class LongTaskQueue:
    """Runs long tasks in their callers' threads, one at a time."""

    def __init__(self, waiting: int = WAITING) -> None:
        self._limit = 1 + waiting
        self._changed = threading.Condition()
        self._tasks: list[object] = []  # the running task comes first

    @property
    def busy(self) -> bool:
        """Whether a task is running or waiting."""
        return bool(self._tasks)

    def steps(
        self,
        begin: Callable[[], Iterable[T]],
        on_wait: Callable[[int], object] = lambda ahead: None,
    ) -> Generator[T, None, Any]:
        """Yield the steps of a task once its turn has come, and return the task's result.

        The caller must close the generator when done. While the task waits, `on_wait` is called
        repeatedly with the number of tasks ahead; an exception that it raises ends the wait. Raises
        BusyError at the first step if the queue is full.
        """
        task = object()
        with self._changed:
            if len(self._tasks) >= self._limit:
                raise BusyError(len(self._tasks))
            self._tasks.append(task)
        try:
            while ahead := self._ahead(task):
                on_wait(ahead)
            try:
                return (yield from begin())
            finally:  # the steps are closed, so that their memory can be released
                release_memory()
        finally:
            with self._changed:
                self._tasks.remove(task)
                self._changed.notify_all()

    def _ahead(self, task: object) -> int:
        """Return the number of tasks ahead, after a short wait if there are any."""
        with self._changed:
            if self._tasks[0] is not task:
                self._changed.wait(POLL_S)
            return self._tasks.index(task)
