"""Counts what is open, by the address of its visitor, and says when no more may be opened."""

from __future__ import annotations

import ipaddress
import logging
import os
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

if TYPE_CHECKING:
    from starlette.types import Scope

PROXIES = "FORWARDED_ALLOW_IPS"
"""uvicorn's own variable: the proxies whose X-Forwarded-For it believes, as the visitor's address.

Without it uvicorn believes every program of this machine.
"""
UNNAMED_PROXY = "a proxy that FORWARDED_ALLOW_IPS does not name"
NOTICE_S = 10.0
"""Seconds between two log lines of one kind."""
_LOG = logging.getLogger("headlight.server")
if not _LOG.handlers:
    _LOG.addHandler(logging.StreamHandler())
    _LOG.setLevel(logging.INFO)
    _LOG.propagate = False
_noticed: dict[str, float] = {}


def notice(kind: str, text: str) -> None:
    """Write a line to the log, unless one of this kind was written a moment ago."""
    now = time.monotonic()
    if now - _noticed.get(kind, -NOTICE_S) >= NOTICE_S:
        _noticed[kind] = now
        _LOG.log(logging.INFO, text)


def address_of(scope: Scope, environment: Mapping[str, str] = os.environ) -> str:
    """Whom a request counts for: an IPv4 address, or the /64 network of an IPv6 address.

    Where a proxy forwards requests but is not named, all of them count for the proxy: what a
    visitor writes into X-Forwarded-For is not believed.
    """
    if "x-forwarded-for" in Headers(scope=scope) and PROXIES not in environment:
        return UNNAMED_PROXY
    host = (scope.get("client") or ("",))[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:  # a UNIX socket, or a name that a proxy forwards
        return "unknown"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


class Open:
    """How many of one thing are open, for everybody and for each address."""

    def __init__(self, what: str, most: int, most_per_address: int) -> None:
        self._what = what
        self._most = most
        self._most_per_address = most_per_address
        self._by_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._by_address.total()

    def refusal(self, address: str) -> str | None:
        """One line that says why an address may open no more, or None if it may."""
        if len(self) >= self._most:
            return f"{self._most} {self._what} are open, the limit: try again in a minute"
        if self._by_address[address] >= self._most_per_address:
            return (
                f"{self._most_per_address} {self._what} are open from your address, the limit: "
                "close some, or try again in a minute"
            )
        return None

    @contextmanager
    def one_more(self, address: str) -> Generator[None]:
        """Count one more while the block lasts."""
        self._by_address[address] += 1
        try:
            yield
        finally:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]
