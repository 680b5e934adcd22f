"""The explorer's files: what a browser needs to draw it, in the app and in a page of its own."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path

from app.components.assets import joined, palette, read
from app.look.glossary import TERMS

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Markup:
    """Frame, style, and a script that has `render`."""

    html: str
    css: str
    script: str


def markup() -> Markup:
    """The files, the modules joined; a term of the glossary in {{…}} becomes its sentence."""
    frame = read(_HERE / "explorer.html")
    return Markup(
        html=re.sub(r"\{\{(.+?)\}\}", lambda term: html.escape(TERMS[term[1]], False), frame),
        css="\n".join(
            [palette(".explorer"), *(read(_HERE / f"{name}.css") for name in ("explorer", "level"))]
        ),
        script=joined(_HERE / "main.js"),
    )
