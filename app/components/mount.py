"""Mounts a canvas from the files of its folder: its script, its style and its markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from app.components.assets import as_module, joined, palette, read


def component(package: str, script: str, root: str = "") -> Any:
    """Streamlit's function that mounts the component of a folder, here given as its `__file__`.

    `script` is the module from which the others are joined. With `root`, the selector of its root
    element, it has markup and the page's colours; without, it draws nothing, and its style is about
    what lies outside it.
    """
    folder = Path(package).parent
    name = folder.name
    style = read(folder / f"{name}.css")
    return st.components.v2.component(
        name,
        html=read(folder / f"{name}.html") if root else None,
        css=f"{palette(root)}\n{style}" if root else style,
        js=as_module(joined(folder / script)),
        isolate_styles=bool(root),
    )
