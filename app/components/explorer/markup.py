"""Assembles the explorer's HTML, CSS and script, for the app and for saved pages."""

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
    """Markup, style, and a script that defines what its entry module declares."""

    html: str
    css: str
    script: str


def markup(entry: Path = _HERE / "main.js") -> Markup:
    """Return the bundled files; {{term}} is replaced by its definition in the glossary.

    `entry` is the script's entry module. With `main.js`, the caller of `render` provides the host.
    """
    frame = read(_HERE / "explorer.html")
    return Markup(
        html=re.sub(r"\{\{(.+?)\}\}", lambda term: html.escape(TERMS[term[1]], False), frame),
        css="\n".join(
            [palette(".explorer"), *(read(_HERE / f"{name}.css") for name in ("explorer", "level"))]
        ),
        script=joined(entry),
    )
