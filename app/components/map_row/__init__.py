"""Mounts a row of small maps that share one layer and head, switched and read in the browser."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app.components.assets import as_module, joined, palette, read
from app.components.explorer.payload import pack
from app.components.map_row.payload import MapRow, payload

__all__ = ["map_row", "script"]

_HERE = Path(__file__).parent


def script() -> str:
    """The row's modules, joined."""
    return joined(_HERE / "main.js")


_mount = st.components.v2.component(
    "map_row",
    html=read(_HERE / "map_row.html"),
    css=f"{palette('.map-row')}\n{read(_HERE / 'map_row.css')}",
    js=as_module(script()),
)


def map_row(row: MapRow, *, key: str) -> None:
    """Show a row of maps; layer, head and cell are chosen in the browser, without a rerun."""
    _mount(key=key, data=pack(payload(row)), width="stretch", height="content")
