"""Mounts the writer of the page's address: parameters that Python chose, beside all others."""

from __future__ import annotations

from collections.abc import Mapping

from app.components.mount import component

__all__ = ["address"]

_mount = component(__file__, "address.js")


def address(
    values: Mapping[str, str | None],
    *,
    page: str,
    seen: Mapping[str, str],
    arrival: int,
    key: str,
    entry: tuple[str, ...] | None = None,
) -> None:
    """Keep these parameters in the address of this page; None takes a name out.

    `seen` is the address as it was last read, and `arrival` counts how often it was: an address
    that has changed since, because the visitor went back, is left alone.

    Streamlit makes a history entry of every change of its query parameters, and then the browser's
    Back leads nowhere. Here the entry stays the same one, unless `entry` is given: then each change
    after the first write makes a new one, without the parameters that `entry` names.
    """
    data = {
        "page": page,
        "values": dict(values),
        "seen": {name: seen[name] for name in values if name in seen},
        "arrival": arrival,
        "entry": None if entry is None else list(entry),
    }
    _mount(key=f"address_{key}", data=data, width="content", height="content")
