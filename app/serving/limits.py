"""The server's limits, each configurable by an environment variable."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

try:
    import resource
except ImportError:  # Windows has no descriptor limit to raise
    resource = None

PREFIX = "HEADLIGHT_"
DESCRIPTORS = 65_536
"""File descriptors to request at start, if the hard limit allows."""
RESERVE = 128
"""Descriptors reserved for files, requests and the health check."""
PER_PAGE = 4
"""Descriptors per open page: its websocket and the files that its browser fetches."""
LARGEST = 1_000_000


@dataclass(frozen=True)
class Limits:
    """Limits on clients; `HEADLIGHT_<NAME>` in the environment overrides each.

    `connections` and `connections_per_address` limit open pages (websockets). `idle_s` is the
    timeout of a page that never ran, `silent_s` that of a connection without a complete request.
    A session keeps its newest `files_per_visit` uploads. All uploads together take at most
    `upload_mb` MiB, and those of one address half as much. An upload may last `upload_s` seconds.
    `messages_per_s` is the average message rate of one page.
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
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Limits:
        """Read the limits; raise ValueError with a one-line message for an invalid value."""
        changed = {}
        for field in fields(cls):
            name = PREFIX + field.name.upper()
            if (text := environment.get(name)) is None:
                continue
            if not (text.isascii() and text.isdigit() and 0 < int(text[:8]) <= LARGEST):
                raise ValueError(f"{name}={text[:40]}: give a whole number from 1 to {LARGEST:,}")
            changed[field.name] = int(text)
        return cls(**changed)

    def within(self, descriptors: int) -> Limits:
        """Reduce the connections to what the file descriptors allow.

        One address gets at most half of them, so that it cannot lock others out.
        """
        most = max(2, min(self.connections, (descriptors - RESERVE) // PER_PAGE))
        return replace(
            self,
            connections=most,
            connections_per_address=min(self.connections_per_address, most // 2),
        )


def raise_descriptors() -> int:
    """Raise the soft limit on open files towards the hard limit; return the new soft limit."""
    if resource is None:
        return DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = DESCRIPTORS if hard == unlimited else min(DESCRIPTORS, hard)
    if soft != unlimited and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # some systems allow less than they report
            return soft
        return wanted
    return DESCRIPTORS if soft == unlimited else soft
