"""Write what a page shows as a notebook and as a script, which use the public Python API alone."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TEMPLATES = Path(__file__).parent / "notebooks"
_SHIPPED = Path(__file__).parents[2] / "checkpoints"
_CELL = re.compile(r"^# %% (.*)\n", re.MULTILINE)


def script(page: str, values: Mapping[str, Any]) -> str:
    """Return a page's script, with these values for the constants of its first cell.

    `page` names a file in `notebooks/`, each a script that runs as it is. Values are written by
    `repr`, which quotes any text on one line. Raises KeyError for a constant that is not there.
    """
    text = (_TEMPLATES / f"{page}.py").read_text(encoding="utf-8")
    for name, value in values.items():
        line = re.compile(rf"^{name} = .*?(  #.*)?$", re.MULTILINE)
        found = line.search(text)
        if found is None:
            raise KeyError(name)
        start, end = found.span()
        text = f"{text[:start]}{name} = {value!r}{found[1] or ''}{text[end:]}"
    return text


def notebook(script: str) -> str:
    """Return a script as a notebook, nbformat 4.5: its docstring, and a cell for each `# %%`.

    The words after `# %%` become a heading.
    """
    about, *rest = (ast.get_docstring(ast.parse(script)) or "").split("\n")
    parts = _CELL.split(script)[1:]
    cells = [_cell("markdown", "\n".join([f"# {about.removesuffix('.')}", *rest]))]
    for title, code in zip(parts[::2], parts[1::2], strict=True):
        cells += [_cell("markdown", f"## {title}"), _cell("code", code.strip())]
    made = {
        "cells": [cell | {"id": f"cell-{number}"} for number, cell in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def name_of(folder: Path) -> str:
    """Return what `core.load` takes for a checkpoint: a shipped one's name, or another's path."""
    folder = folder.resolve()
    return folder.name if folder.parent == _SHIPPED.resolve() else str(folder)


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell | {"source": text.splitlines(keepends=True)}
