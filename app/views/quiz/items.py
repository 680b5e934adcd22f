"""Reads the items of the test from their lesson file: texts, options and attention maps."""

from __future__ import annotations

from typing import Any

from app.lessons.texts import keys, text

LESSON = "quiz"
FORMS = ("A", "B")
LETTERS = "ABCD"
MASKED, EMPTY, UNKNOWN = "#", "_", "?"
"""Marks of cells that show no weight: masked, empty, and the one to find."""


def names() -> list[str]:
    """Return the items' names in order, such as axes_1."""
    tops = dict.fromkeys(key.split(".")[0] for key in keys(LESSON) if key.endswith(".A.prompt"))
    return list(tops)


def item(name: str, form: str) -> dict[str, Any]:
    """Return an item in one form as JSON values for the component."""
    at = f"{name}.{form}"
    options = [
        {
            "letter": letter,
            "text": text(LESSON, f"{at}.option_{letter}"),
            "why": text(LESSON, f"{at}.why_{letter}"),
        }
        for letter in LETTERS
    ]
    return {
        "name": name,
        "topic": text(LESSON, f"topic.{name.split('_')[0]}"),
        "about": text(LESSON, f"{name}.about"),
        "paper": text(LESSON, f"{name}.paper"),
        "prompt": text(LESSON, f"{at}.prompt"),
        "options": options,
        "right": text(LESSON, f"{at}.right"),
        "picture": _picture(at),
    }


def _picture(at: str) -> dict[str, Any] | None:
    """Return an item's map, if any: labels, cells (weights or marks), and the options' cells."""
    if f"{at}.weights" not in keys(LESSON):
        return None
    rows = [line.split() for line in text(LESSON, f"{at}.weights").split("/")]
    cells = [[c if c in (MASKED, EMPTY, UNKNOWN) else float(c) for c in row] for row in rows]
    marks = {}
    if f"{at}.cells" in keys(LESSON):
        places = (place.split() for place in text(LESSON, f"{at}.cells").split("/"))
        marks = {
            letter: [int(row) - 1, int(column) - 1]
            for letter, (row, column) in zip(LETTERS, places, strict=True)
        }
    return {
        "rows": text(LESSON, f"{at}.rows").split("|"),
        "columns": text(LESSON, f"{at}.columns").split("|"),
        "cells": cells,
        "marks": marks,
    }


def payload(form: str) -> dict[str, Any]:
    """Return the component's data: both forms, and the one to open with."""
    return {
        "title": text(LESSON, "title"),
        "form": form,
        "forms": {name: [item(one, name) for one in names()] for name in FORMS},
    }
