"""Which account pays for a session's runs: its own or, in a new tab, that of its address.

Without this, a client that opens a new tab for each request would always be a new, light visitor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

import streamlit as st

from app.serving.connections import network_of
from app.streamlit_internals import is_active_session, is_server_running
from core.serving.fair_share import FairShare

OPENING_S = 0.1
"""Seconds that a new session costs outside its runs, where they are not measured."""


def _is_open(session: str) -> bool:
    return not is_server_running() or is_active_session(session)


class Visits:
    """The open sessions and their addresses. Thread-safe.

    A session that ends leaves its debt to the account of its address. While that account is heavy,
    it pays for the first run of each new session from there. Readers leave no debt: it decays while
    they read.
    """

    def __init__(self, shares: FairShare, is_open: Callable[[str], bool] = _is_open) -> None:
        self._shares = shares
        self._is_open = is_open
        self._lock = threading.Lock()
        self._addresses: dict[str, Hashable] = {}  # the account of each session's address

    def begin(self, session: str | None) -> Hashable:
        """Return the account that pays for a session's next run, and mark the visitor as active."""
        if session is None:
            return None
        with self._lock:
            if session not in self._addresses:
                self._settle_ended()
                address = self._addresses[session] = ("address", _address())
                payer = session if self._shares.is_light(address) else address
                self._shares.charge(payer, OPENING_S)
                if payer == address:
                    return address
        self._shares.arrive(session)
        return session

    def _settle_ended(self) -> None:
        """Move the debts of ended sessions to their addresses. The caller holds the lock."""
        for session in [one for one in self._addresses if not self._is_open(one)]:
            self._shares.move(session, self._addresses.pop(session))


def _address() -> str:
    """Return the network of this run's client; all local clients are one."""
    return network_of(st.context.ip_address or "")
