"""Mounts a row of small maps that share one layer and head; switching is client-side."""

from __future__ import annotations

from app.components.explorer.payload import pack
from app.components.map_row.payload import MapRow, payload
from app.components.mount import component

__all__ = ["map_row"]

_mount = component(__file__, "main.js", ".map-row")


def map_row(row: MapRow, *, key: str) -> None:
    """Show a row of maps; layer, head and cell are chosen client-side, without a rerun."""
    _mount(key=key, data=pack(payload(row)))
