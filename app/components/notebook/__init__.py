"""Mounts an invisible script: a page's notebook is saved with the choices of the page's link."""

from __future__ import annotations

from collections.abc import Mapping

from app.components.mount import component

__all__ = ["notebook"]

_mount = component(__file__, "notebook.js")


def notebook(
    *,
    key: str,
    values: Mapping[str, str] | None = None,
    choices: Mapping[str, tuple[str, int]] | None = None,
    files: Mapping[str, tuple[str, str]] | None = None,
) -> None:
    """Save `files` with the values that the page has when a button is pressed.

    `files` are a name and a text by the widget key of a download button. `values` are literals by
    the constant of a file that they replace. `choices` are constants by the parameter of the link
    that holds their value: a word, or a number below the given limit. A page may mount several:
    a part that runs alone gives its own values.
    """
    data = {"values": values or {}, "choices": choices or {}, "files": files or {}}
    _mount(key=key, data=data, width="content", height="content")
