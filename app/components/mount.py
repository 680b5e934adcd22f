"""Mounts a canvas from the files of its folder; its script has an address, and is fetched once."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import streamlit as st

from app import streamlit_internals
from app.components.assets import as_module, joined, palette, read

_PACKAGE = "headlight"
_lock = Lock()
_scripts = TemporaryDirectory(prefix="headlight-scripts-")


def component(package: str, script: str, root: str = "") -> Callable[..., Any]:
    """The function that mounts the component of a folder, here given as its `__file__`.

    `script` is the module from which the others are joined. With `root`, the selector of its root
    element, it has markup and the page's colours; without, it draws nothing, and its style is about
    what lies outside it.
    """
    folder = Path(package).parent
    name = folder.name
    style = read(folder / f"{name}.css")
    return mounting(
        name,
        html=read(folder / f"{name}.html") if root else None,
        css=f"{palette(root)}\n{style}" if root else style,
        script=joined(folder / script),
        isolate_styles=bool(root),
    )


def mounting(
    name: str, *, html: str | None, css: str, script: str, isolate_styles: bool = True
) -> Callable[..., Any]:
    """Streamlit's function that mounts a component with this joined script.

    Streamlit sends an inline script along with every answer, two thirds of a short sentence's. A
    browser asks once for one that has an address. Such a script is a file of an installed package;
    this one is joined when the app starts, so its folder is made known to Streamlit here.
    """
    module = as_module(script)
    file = f"{name}-{sha256(module.encode()).hexdigest()[:16]}.js"
    folder = Path(_scripts.name)
    (folder / file).write_text(module, encoding="utf-8")
    renderers: list[Callable[..., Any]] = []

    def mount(**arguments: Any) -> Any:
        if not streamlit_internals.is_server_running():  # `python app/main.py`: no file is served
            inline = st.components.v2.component(f"{_PACKAGE}.{name}", html=html, css=css, js=module)
            return inline(**arguments)
        with _lock:
            if not streamlit_internals.has_script_folder(_PACKAGE, name):
                renderers[:] = [
                    streamlit_internals.component_with_script_file(
                        _PACKAGE,
                        name,
                        folder,
                        file,
                        html=html,
                        css=css,
                        isolate_styles=isolate_styles,
                    )
                ]
        return renderers[0](**arguments)

    return mount
