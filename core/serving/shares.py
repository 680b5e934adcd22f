"""Who has used how much of the machine: who used much makes pauses while others are there."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable

CREDIT_S = 2.0
"""Seconds of processor time that one may use at once; then others have the first claim."""
SHARE = 1 / 3
"""Of the time, at most, for one who has used that up and goes on asking."""
RECENT_S = 30.0
"""Seconds for which somebody who asked counts as one of those for whom others make pauses."""


class Shares:
    """Accounts of processor time, paid back at a rate of `SHARE`; for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paid: dict[Hashable, float] = {}  # when what each account has used is paid back
        self._asked: dict[Hashable, float] = {}  # when each visitor asked last

    def asks(self, visitor: Hashable) -> None:
        """A visitor is there now; None is nobody in particular."""
        if visitor is not None:
            with self._lock:
                self._asked[visitor] = time.monotonic()

    def charge(self, account: Hashable, seconds: float) -> None:
        """Put down what an account has used; that of None is paid by nobody."""
        now = time.monotonic()
        with self._lock:
            self._paid = {known: paid for known, paid in self._paid.items() if paid > now}
            if account is not None:
                self._paid[account] = self._paid.get(account, now) + seconds / SHARE

    def has_to_wait(self, account: Hashable, visitor: Hashable) -> bool:
        """Whether an account is overdrawn while others than its visitor are there."""
        now = time.monotonic()
        with self._lock:
            self._asked = {v: at for v, at in self._asked.items() if at > now - RECENT_S}
            others = self._asked.keys() - {visitor}
            return bool(others) and self._paid.get(account, now) >= now + CREDIT_S / SHARE
