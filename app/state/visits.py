"""Which account pays for a session's runs: its own or, in a new tab, that of its address.

Without this, a client that opens a new tab for each request would always be a new, light visitor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import streamlit as st

from app.serving.connections import network_of
from app.streamlit_internals import is_active_session, is_server_running
from core.serving.fair_share import FairShare

NEW_RUNS = 2
"""A session's first runs: opening the page and the first request."""


def _is_open(session: str) -> bool:
    return not is_server_running() or is_active_session(session)


@dataclass
class _Visit:
    address: Hashable  # the account of its address
    runs: int = 0


class Visits:
    """The open sessions and their addresses. Thread-safe.

    A session that ends leaves its debt to the account of its address. While that account is heavy,
    it pays for the first runs of new sessions from there. Readers leave no debt: it decays while
    they read.
    """

    def __init__(self, shares: FairShare, is_open: Callable[[str], bool] = _is_open) -> None:
        self._shares = shares
        self._is_open = is_open
        self._lock = threading.Lock()
        self._visits: dict[str, _Visit] = {}

    def begin(self, session: str | None) -> Hashable:
        """Return the account that pays for a session's next run, and mark the visitor as active."""
        if session is None:
            return None
        with self._lock:
            visit = self._visits.get(session)
            if visit is None:
                self._settle_ended()
                visit = self._visits[session] = _Visit(("address", _address()))
            visit.runs += 1
            if visit.runs <= NEW_RUNS and not self._shares.is_light(visit.address):
                return visit.address
        self._shares.arrive(session)
        return session

    def _settle_ended(self) -> None:
        """Move the debts of ended sessions to their addresses. The caller holds the lock."""
        for session in [one for one in self._visits if not self._is_open(one)]:
            visit = self._visits.pop(session)
            self._shares.move(session, visit.address)


def _address() -> str:
    """Return the network of this run's client; all local clients are one."""
    return network_of(st.context.ip_address or "")
