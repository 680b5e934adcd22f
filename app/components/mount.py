"""Mounts a component from its folder; its script has its own URL, so it is fetched only once."""

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


def component(package: str, entry_file: str, root: str = "") -> Callable[..., Any]:
    """Return the function that mounts the component in a package's folder.

    `package` is the package's `__file__`, `entry_file` the name of the entry module. With `root`,
    the selector of its root element, the component has markup and the palette. Without `root`, it
    draws nothing, and its style applies to the whole page.
    """
    folder = Path(package).parent
    name = folder.name
    style = read(folder / f"{name}.css")
    return mounting(
        name,
        html=read(folder / f"{name}.html") if root else None,
        css=f"{palette(root)}\n{style}" if root else style,
        script=joined(folder / entry_file),
        isolate_styles=bool(root),
    )


def mounting(
    name: str,
    *,
    html: str | None,
    css: str,
    script: str,
    entry: str = "render",
    isolate_styles: bool = True,
) -> Callable[..., Any]:
    """Return the function that mounts a bundled script; Streamlit calls the script's `entry`.

    Streamlit resends an inline script with every update: two thirds of the bytes for a short
    sentence. A script with a URL is fetched once, but Streamlit expects it in an installed package.
    This script is bundled at start-up, so `mount` registers its folder. Unless told otherwise, a
    component is as wide as its container and as high as its content.
    """
    module = as_module(script, entry)
    file = f"{name}-{sha256(module.encode()).hexdigest()[:16]}.js"
    folder = Path(_scripts.name)
    (folder / file).write_text(module, encoding="utf-8")
    renderers: list[Callable[..., Any]] = []

    def mount(**given: Any) -> Any:
        arguments: dict[str, Any] = {"width": "stretch", "height": "content", **given}
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
