"""Mounts a row of small maps that share one layer and head, switched and read in the browser."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app.components.assets import joined, palette, read
from app.components.explorer.payload import pack
from app.components.map_row.payload import MapRow, payload

__all__ = ["map_row", "script"]

_HERE = Path(__file__).parent
_SHARED = ("colour.js", "tokens.js", "bytes.js", "grid.js", "svg.js", "csv.js")
"""Of the explorer: what does not know what its maps are of."""
_SCRIPTS = ("numbers.js", "drawing.js", "saving.js", "main.js")


def script() -> str:
    """The explorer's shared scripts and the row's own, joined."""
    shared = (_HERE.parent / "explorer" / name for name in _SHARED)
    return joined([*shared, *(_HERE / name for name in _SCRIPTS)])


_mount = st.components.v2.component(
    "map_row",
    html=read(_HERE / "map_row.html"),
    css=f"{palette('.map-row')}\n{read(_HERE / 'map_row.css')}",
    js=script(),
)


def map_row(row: MapRow, *, key: str) -> None:
    """Show a row of maps; layer, head and cell are chosen in the browser, without a rerun."""
    _mount(key=key, data=pack(payload(row)), width="stretch", height="content")
