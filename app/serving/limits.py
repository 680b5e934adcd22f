"""The limits of the server, each of which an environment variable can change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

try:
    import resource
except ImportError:  # Windows has no limit of descriptors to raise
    resource = None

PREFIX = "HEADLIGHT_"
DESCRIPTORS = 65_536
"""File descriptors to ask for at start, where the hard limit allows."""
RESERVE = 128
"""Descriptors kept for files, requests and the health check."""
PER_VISIT = 4
"""Descriptors that an open page may hold at once: its socket, and what its browser fetches."""
LARGEST = 1_000_000


@dataclass(frozen=True)
class Limits:
    """What visitors may take of the server; `HEADLIGHT_` and a name in capitals sets another.

    `connections` and `connections_per_address` bound the open pages (websockets); `idle_s` is for
    how many seconds one may stay open that never ran a page, and `silent_s` a connection without a
    complete request. A visit keeps `files_per_visit`
    uploads, the newest; all visits together keep `upload_mb` (MB of 2²⁰ bytes), of which one
    address may take half. `upload_s` bounds the seconds of one upload. `messages_per_s` is for how
    many messages of one page are read each second on average.
    """

    connections: int = 500
    connections_per_address: int = 100
    idle_s: int = 60
    silent_s: int = 20
    files_per_visit: int = 2
    upload_mb: int = 128
    upload_s: int = 60
    messages_per_s: int = 20

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Limits:
        """The usual limits, changed as the environment says. Raises ValueError with one line."""
        changed = {}
        for field in fields(cls):
            name = PREFIX + field.name.upper()
            if (text := environment.get(name)) is None:
                continue
            if not (text.isascii() and text.isdigit() and 0 < int(text[:8]) <= LARGEST):
                raise ValueError(f"{name}={text[:40]}: give a whole number from 1 to {LARGEST:,}")
            changed[field.name] = int(text)
        return cls(**changed)

    def fitting(self, descriptors: int) -> Limits:
        """The same limits with no more connections than so many descriptors allow.

        One address gets half of them at most, so that it cannot keep the others out.
        """
        most = max(2, min(self.connections, (descriptors - RESERVE) // PER_VISIT))
        changed = {"connections": most}
        changed["connections_per_address"] = min(self.connections_per_address, most // 2)
        return Limits(**{field.name: getattr(self, field.name) for field in fields(self)} | changed)


def raise_descriptors() -> int:
    """Raise the soft limit of open files as far as the hard one allows; return what it is now."""
    if resource is None:
        return DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = DESCRIPTORS if hard == unlimited else min(DESCRIPTORS, hard)
    if soft != unlimited and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # a system may allow less than it says
            return soft
        return wanted
    return DESCRIPTORS if soft == unlimited else soft
