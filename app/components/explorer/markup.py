"""The explorer's files: what a browser needs to draw it, in the app and in a page of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.components.assets import joined, palette, read

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Markup:
    """Frame, style, and a script that has `render`."""

    html: str
    css: str
    script: str


def markup() -> Markup:
    """The files, the modules joined."""
    return Markup(
        html=read(_HERE / "explorer.html"),
        css="\n".join(
            [palette(".explorer"), *(read(_HERE / f"{name}.css") for name in ("explorer", "level"))]
        ),
        script=joined(_HERE / "main.js"),
    )
