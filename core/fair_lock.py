"""A fair (FIFO), reentrant lock whose waiters can give up."""

import threading
from collections import deque
from collections.abc import Callable

_POLL_S = 0.05  # between two calls of a waiter's `raise_if_cancelled`


class FairLock:
    """A reentrant lock that is granted in first-come, first-served order.

    threading.Lock is not fair: a thread that releases it between two batches usually reacquires it
    at once, so other threads wait until its last batch is done.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._owner: int | None = None
        self._reentered = 0
        self._queue: deque[object] = deque()  # tickets; the owner's is first

    def __enter__(self) -> None:
        self.acquire(lambda: None)

    def __exit__(self, *error: object) -> None:
        self.release()

    def acquire(self, raise_if_cancelled: Callable[[], object]) -> None:
        """Wait for the lock. Polls `raise_if_cancelled`, whose exception cancels the wait."""
        if self.owned():
            self._reentered += 1
            return
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
        try:
            while not self._is_first(ticket):
                raise_if_cancelled()
        except BaseException:  # including KeyboardInterrupt: an orphaned ticket blocks all others
            with self._changed:
                self._queue.remove(ticket)
                self._changed.notify_all()
            raise

    def _is_first(self, ticket: object) -> bool:
        """Return whether the ticket is first in the queue, which makes this thread the owner.

        If it is not first, wait briefly for a change.
        """
        with self._changed:
            if self._queue[0] is not ticket:
                self._changed.wait(_POLL_S)
            if first := self._queue[0] is ticket:
                self._owner = threading.get_ident()
            return first

    def release(self) -> None:
        """Release the lock once; it is free after as many releases as acquisitions."""
        if self._reentered:
            self._reentered -= 1
            return
        with self._changed:
            self._owner = None
            self._queue.popleft()
            self._changed.notify_all()

    def owned(self) -> bool:
        """Return whether the calling thread holds the lock."""
        return self._owner == threading.get_ident()

    def locked(self) -> bool:
        """Return whether any thread holds the lock or waits for it."""
        return bool(self._queue)
