"""Count open pages and requests per client address, and enforce their limits."""

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

from app.state.log import line_logger

if TYPE_CHECKING:
    from starlette.types import Scope

PROXIES = "FORWARDED_ALLOW_IPS"
"""uvicorn's environment variable: the proxies whose X-Forwarded-For header it trusts.

Without it, uvicorn trusts every local process.
"""
UNNAMED_PROXY = "a proxy that FORWARDED_ALLOW_IPS does not name"
NOTICE_S = 10.0
"""Minimum seconds between two log lines of one kind."""
_LOG = line_logger("server")
_noticed: dict[str, float] = {}


def notice(kind: str, text: str) -> None:
    """Log a line, at most once every `NOTICE_S` seconds per kind."""
    now = time.monotonic()
    if now - _noticed.get(kind, -NOTICE_S) >= NOTICE_S:
        _noticed[kind] = now
        _LOG.log(logging.INFO, text)


def address_of(scope: Scope, environment: Mapping[str, str] = os.environ) -> str:
    """Return the client of a request, for counting: an IPv4 address or an IPv6 /64 network.

    All requests from an unlisted proxy count as one client, since X-Forwarded-For can be forged.
    """
    if "x-forwarded-for" in Headers(scope=scope) and PROXIES not in environment:
        return UNNAMED_PROXY
    return network_of((scope.get("client") or ("",))[0])


def network_of(host: str) -> str:
    """Return an IPv4 address, or an IPv6 address's /64 network; "unknown" for anything else."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:  # a UNIX socket, or a name forwarded by a proxy
        return "unknown"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


class OpenCounter:
    """Count what is open (pages or requests), in total and per address."""

    def __init__(self, noun: str, limit: int, limit_per_address: int) -> None:
        self._noun = noun
        self._limit = limit
        self._limit_per_address = limit_per_address
        self._by_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._by_address.total()

    def refusal(self, address: str) -> str | None:
        """Return why an address may not open another page or request, in one line, or None."""
        if len(self) >= self._limit:
            return f"{self._limit} {self._noun} are open, the limit: try again in a minute"
        if self._by_address[address] >= self._limit_per_address:
            return (
                f"{self._limit_per_address} {self._noun} are open from your address, the limit: "
                "close some, or try again in a minute"
            )
        return None

    @contextmanager
    def one_more(self, address: str) -> Generator[None]:
        """Count one more for the duration of the block."""
        self._by_address[address] += 1
        try:
            yield
        finally:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]
