"""The line for long work: one at a time, a few that wait, and its memory given back."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from core.serving.queue import POLL_S, BusyError

WAITING = 4
T = TypeVar("T")


class LongTaskQueue:
    """Long work in the threads of those who ask for it, one after another."""

    def __init__(self, waiting: int = WAITING) -> None:
        self._limit = 1 + waiting
        self._changed = threading.Condition()
        self._inside: list[object] = []  # whose turn it is comes first

    @property
    def busy(self) -> bool:
        """Whether a long work runs or waits now."""
        return bool(self._inside)

    def steps(
        self,
        begin: Callable[[], Iterable[T]],
        waits: Callable[[int], object] = lambda ahead: None,
    ) -> Generator[T, None, Any]:
        """The steps of a long work, which begins when its turn has come; it is to be closed.

        While it waits, `waits` is told again and again how many are ahead; what that raises ends
        the wait. Raises BusyError at the first step where too many wait already.
        """
        me = object()
        with self._changed:
            if len(self._inside) >= self._limit:
                raise BusyError(len(self._inside))
            self._inside.append(me)
        try:
            while ahead := self._ahead(me):
                waits(ahead)
            try:
                return (yield from begin())
            finally:  # nothing holds what the steps held, also where they are closed early
                give_back()
        finally:
            with self._changed:
                self._inside.remove(me)
                self._changed.notify_all()

    def _ahead(self, me: object) -> int:
        """How many come first, after a short wait where there are any."""
        with self._changed:
            if self._inside[0] is not me:
                self._changed.wait(POLL_S)
            return self._inside.index(me)


def give_back() -> None:
    """Return the memory of what is gone to the system, as far as the C library can.

    It keeps freed memory for the next time: after a checklist in float64 that was most of it.
    """
    gc.collect()
    with suppress(OSError, TypeError, AttributeError):  # another C library has no such function
        ctypes.CDLL(None).malloc_trim(0)
