"""Mounts an invisible component that writes query parameters into the page's URL."""

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
    """Write these query parameters into the page's URL; None removes a parameter.

    `seen` holds the parameters that Python last read from the URL, and `arrival` counts these
    reads. If back/forward navigation has changed the URL since the last read, nothing is written.

    Streamlit would add a history entry for every change, which breaks the Back button. This
    component replaces the current entry. With `entry`, each change after the first write adds a
    history entry instead, and drops the parameters that `entry` names from the new URL.
    """
    data = {
        "page": page,
        "values": dict(values),
        "seen": {name: seen[name] for name in values if name in seen},
        "arrival": arrival,
        "entry": None if entry is None else list(entry),
    }
    _mount(key=f"address_{key}", data=data, width="content", height="content")
