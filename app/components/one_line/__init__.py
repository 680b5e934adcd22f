"""Mounts what makes one line of a text area: Enter is its button, and it grows with its text."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app.components.assets import as_module, joined, read

__all__ = ["one_line"]

_HERE = Path(__file__).parent

_mount = st.components.v2.component(
    "one_line",
    css=read(_HERE / "one_line.css"),
    js=as_module(joined(_HERE / "one_line.js")),
    isolate_styles=False,  # the style is about the text area, which lies outside the component
)


def one_line(box: str, *, key: str = "one_line") -> None:
    """Let the text area with the widget key `box` be one line, take Enter and hold no break."""
    _mount(key=key, data=box, width="content", height="content")
