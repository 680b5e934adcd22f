"""A lock that threads get in the order in which they ask for it, and may stop waiting for."""

import threading
from collections import deque
from collections.abc import Callable

_LOOK_S = 0.05  # after which whoever waits looks whether anybody wants the answer still


class Turns:
    """A lock that threads get in the order in which they ask for it.

    A plain Lock goes back to the thread that let go of it a moment ago: the others would wait for
    a long list's last batch. A thread that has it may take it again.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holder: int | None = None
        self._again = 0
        self._waiting: deque[object] = deque()  # who has the lock comes first

    def __enter__(self) -> None:
        self.take(lambda: None)

    def take(self, still_here: Callable[[], object]) -> None:
        """Wait for the lock; `still_here` is called meanwhile, and what it raises ends the wait."""
        if self.mine():
            self._again += 1
            return
        me = object()
        with self._changed:
            self._waiting.append(me)
        try:
            while not self._turn(me):
                still_here()
        except BaseException:  # such as Ctrl-C: nobody waits for one who is gone
            with self._changed:
                self._waiting.remove(me)
                self._changed.notify_all()
            raise

    def _turn(self, me: object) -> bool:
        """Whether it is one's turn, after a short wait if it is not yet."""
        with self._changed:
            if self._waiting[0] is not me:
                self._changed.wait(_LOOK_S)
            if mine := self._waiting[0] is me:
                self._holder = threading.get_ident()
            return mine

    def __exit__(self, *error: object) -> None:
        self.give()

    def give(self) -> None:
        """Let the next one have it, as often as it was taken."""
        if self._again:
            self._again -= 1
            return
        with self._changed:
            self._holder = None
            self._waiting.popleft()
            self._changed.notify_all()

    def mine(self) -> bool:
        """Whether the calling thread holds the lock."""
        return self._holder == threading.get_ident()

    def locked(self) -> bool:
        return bool(self._waiting)
