"""Who has used how much processor time: heavy users are throttled while others are active."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

CREDIT_S = 2.0
"""Seconds of processor time that all heavy accounts together may owe before they have to wait."""
LIGHT_S = CREDIT_S / 4
"""Seconds that an account may owe and still be light: a light account never waits."""
SHARE = 1 / 3
"""Of the processor time, at most, for all heavy accounts together while others are active."""
LIGHT_SHARE = 1 / 20
"""Of the processor time, for as long as it likes, for an account that stays light."""
RECENT_S = 30.0
"""Seconds after a request for which its visitor counts as active."""


class FairShare:
    """Accounts of processor time, shared by all threads.

    An account owes the seconds it has used, and its debt shrinks with time, as in a leaky bucket:
    at a rate of `LIGHT_SHARE` while it owes less than `LIGHT_S`. All others are heavy, and divide
    both the rate `SHARE` and the credit between them: more tabs bring nobody more than
    `LIGHT_SHARE` each. They wait only while a visitor is active who is light.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._owed: dict[Hashable, float] = {}  # seconds, by account
        self._settled = clock()  # when the debts were last reduced
        self._asked: dict[Hashable, float] = {}  # time of each visitor's last request

    def asks(self, visitor: Hashable) -> None:
        """Count a visitor as active from now on; None stands for no visitor in particular."""
        if visitor is not None:
            with self._lock:
                self._asked[visitor] = self._clock()

    def charge(self, account: Hashable, seconds: float) -> None:
        """Add the time that an account has used; time of the account None is not counted."""
        with self._lock:
            self._settle()
            if account is not None:
                self._owed[account] = self._owed.get(account, 0.0) + seconds

    def has_to_wait(self, account: Hashable, visitor: Hashable) -> bool:
        """Whether an account has used up its credit while others than its visitor are active."""
        with self._lock:
            self._settle()
            now, heavy = self._clock(), self._heavy()
            self._asked = {v: at for v, at in self._asked.items() if at > now - RECENT_S}
            others = self._asked.keys() - heavy - {visitor}
            credit = max(LIGHT_S, CREDIT_S / max(1, len(heavy)))
            return bool(others) and self._owed.get(account, 0.0) >= credit

    def is_light(self, account: Hashable) -> bool:
        """Whether an account owes so little that it goes before the heavy ones."""
        with self._lock:
            self._settle()
            return self._owed.get(account, 0.0) < LIGHT_S

    def _heavy(self) -> set[Hashable]:
        """The accounts that owe too much to be light. The lock is held."""
        return {account for account, owed in self._owed.items() if owed >= LIGHT_S}

    def _settle(self) -> None:
        """Reduce all debts by the time since this was last done. The lock is held."""
        now = self._clock()
        passed, self._settled = now - self._settled, now
        heavy = self._heavy()
        left = {
            account: owed - passed * (SHARE / len(heavy) if account in heavy else LIGHT_SHARE)
            for account, owed in self._owed.items()
        }
        self._owed = {account: owed for account, owed in left.items() if owed > 0}
