"""Reads the files of the canvas components and joins their scripts, of which several are shared."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from app.look.palette import PALETTES


def read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def joined(files: Iterable[Path]) -> str:
    """Scripts in one scope, in this order: Streamlit takes a single module, one default export.

    Without indentation, blank lines, and comments on lines of their own: Streamlit sends all
    scripts along with every change of the data.
    """
    return "\n".join(_bare(read(file)) for file in files)


def _bare(script: str) -> str:
    text = re.sub(r"^ */\*.*?\*/\n", "", script, flags=re.DOTALL | re.MULTILINE)
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def palette(root: str) -> str:
    """The figures' inks and greys as CSS variables of the selector `root`, for light and dark.

    Page and first ink are the page's own. `colour.js` sets `data-theme`.
    """
    rules = []
    for name, colours in PALETTES.items():
        variables = {
            "page": f"var(--st-background-color, {colours.page})",
            "ink": f"var(--st-text-color, {colours.ink})",
            "ink2": colours.second,
            "ink3": colours.third,
            "line": colours.line,
            "hairline": colours.hairline,
            "hatch": colours.hatch,
            "hatch-ground": colours.hatch_ground,
        }
        where = f'{root}[data-theme="{name}"]'
        if not rules:
            where = f"{root}, {where}"  # until a script has read the page
        lines = "".join(f" --{variable}: {value};" for variable, value in variables.items())
        rules.append(f"{where} {{{lines} }}")
    return "\n".join(rules)
