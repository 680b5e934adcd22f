"""Processor-time accounting: throttle heavy users while others are active."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

CREDIT_S = 2.0
"""Debt, in seconds of processor time, that heavy accounts may have together before they wait."""
LIGHT_S = CREDIT_S / 4
"""Debt in seconds below which an account is light; a light account never waits."""
SHARE = 1 / 3
"""Maximum share of processor time for all heavy accounts together while light ones are active."""
LIGHT_SHARE = 1 / 20
"""Share of processor time that an account can use indefinitely and stay light."""
RECENT_S = 30.0
"""A visitor counts as active for this many seconds after a request."""


class FairShare:
    """Thread-safe accounts of processor time.

    An account is a leaky bucket: it owes the seconds that it has used, and the debt decays over
    time. Below `LIGHT_S`, an account is light and its debt decays at the rate `LIGHT_SHARE`. All
    other accounts are heavy and share the rate `SHARE` and the credit `CREDIT_S`, so that each
    extra browser tab gains at most `LIGHT_SHARE`. Heavy accounts wait only while a light
    visitor is active.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._owed: dict[Hashable, float] = {}  # seconds, by account
        self._settled = clock()  # when the debts were last reduced
        self._active: dict[Hashable, float] = {}  # time of each visitor's last request

    def mark_active(self, visitor: Hashable) -> None:
        """Mark a visitor as active; None is ignored."""
        if visitor is not None:
            with self._lock:
                self._active[visitor] = self._clock()

    def charge(self, account: Hashable, seconds: float) -> None:
        """Charge an account for processor time; None is ignored."""
        with self._lock:
            self._settle()
            if account is not None:
                self._owed[account] = self._owed.get(account, 0.0) + seconds

    def has_to_wait(self, account: Hashable, visitor: Hashable) -> bool:
        """Return whether an account is out of credit while another, light visitor is active."""
        with self._lock:
            self._settle()
            now, heavy = self._clock(), self._heavy()
            self._active = {v: at for v, at in self._active.items() if at > now - RECENT_S}
            others = self._active.keys() - heavy - {visitor}
            credit = max(LIGHT_S, CREDIT_S / max(1, len(heavy)))
            return bool(others) and self._owed.get(account, 0.0) >= credit

    def is_light(self, account: Hashable) -> bool:
        """Return whether an account is light, which gives it priority over heavy ones."""
        with self._lock:
            self._settle()
            return self._owed.get(account, 0.0) < LIGHT_S

    def _heavy(self) -> set[Hashable]:
        """Return the heavy accounts. The caller holds the lock."""
        return {account for account, owed in self._owed.items() if owed >= LIGHT_S}

    def _settle(self) -> None:
        """Decay all debts by the time since the last call. The caller holds the lock."""
        now = self._clock()
        elapsed, self._settled = now - self._settled, now
        heavy = self._heavy()
        remaining = {
            account: owed - elapsed * (SHARE / len(heavy) if account in heavy else LIGHT_SHARE)
            for account, owed in self._owed.items()
        }
        self._owed = {account: owed for account, owed in remaining.items() if owed > 0}
