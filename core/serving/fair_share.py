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
IN_ADVANCE_S = LIGHT_S / 2
"""Seconds that a heavy account is charged before its work; about what a page takes."""
IDLE_SHARE = 1 / 10
"""Seconds of debt that an account pays back for each second in which it asks for nothing."""
RECENT_S = 30.0
"""A visitor counts as active for this many seconds after a request."""


class FairShare:
    """Thread-safe accounts of the time that visitors use.

    An account is a leaky bucket: it owes the seconds that it has used, and the debt decays over
    time. Below `LIGHT_S`, an account is light and its debt decays at the rate `LIGHT_SHARE`. All
    other accounts are heavy and share the rate `SHARE` and the credit `CREDIT_S`, so that each
    extra browser tab gains at most `LIGHT_SHARE`. An account also pays back during its pauses,
    which a reader makes and a script does not. Heavy accounts wait only while a light visitor is
    active.

    A light account is charged its processor time, so that a slow machine makes nobody heavy; a
    heavy one the wall-clock time, which is what it makes others wait for.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._owed: dict[Hashable, float] = {}  # seconds, by account
        self._settled = clock()  # when the debts were last reduced
        self._active: dict[Hashable, float] = {}  # time of each visitor's last request

    def mark_active(self, visitor: Hashable) -> None:
        """Mark a visitor as active; None is ignored."""
        if visitor is not None:
            with self._lock:
                self._active[visitor] = self._clock()

    def arrive(self, visitor: Hashable) -> None:
        """Mark a visitor as active after a pause, which pays back a part of its debt."""
        with self._lock:
            self._settle()
            self._pay_for_pause(visitor)
        self.mark_active(visitor)

    def charge(self, account: Hashable, cpu_s: float, wall_s: float | None = None) -> None:
        """Charge an account for its work; None is ignored."""
        with self._lock:
            self._settle()
            if account is None:
                return
            heavy = self._owed.get(account, 0.0) >= LIGHT_S
            seconds = max(cpu_s, wall_s) if heavy and wall_s is not None else cpu_s
            self._owed[account] = self._owed.get(account, 0.0) + seconds
            if account in self._active:
                self._active[account] = self._clock()

    def move(self, account: Hashable, to: Hashable) -> None:
        """Add the debt of an account that asks no more to another one."""
        with self._lock:
            self._settle()
            self._pay_for_pause(account)
            self._active.pop(account, None)
            if owed := self._owed.pop(account, 0.0):
                self._owed[to] = self._owed.get(to, 0.0) + owed

    def admit(self, account: Hashable, visitor: Hashable) -> float | None:
        """Return None if an account has to wait, else the seconds charged to it in advance.

        A heavy account pays in advance, so that its visitors start one after another.
        """
        with self._lock:
            if self.has_to_wait(account, visitor):
                return None
            in_advance = 0.0 if self.is_light(account) else IN_ADVANCE_S
            self.charge(account, in_advance)
            return in_advance

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

    def _pay_for_pause(self, visitor: Hashable) -> None:
        """Reduce a visitor's debt by its pause until now. The caller holds the lock."""
        if visitor in self._active and visitor in self._owed:
            self._owed[visitor] -= IDLE_SHARE * (self._clock() - self._active[visitor])

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
