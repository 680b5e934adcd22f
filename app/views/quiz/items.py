"""Reads the items of the test from their lesson: texts, options and attention maps."""

from __future__ import annotations

from typing import Any

from app.lessons.texts import rows, text

LESSON = "quiz"
FORMS = ("A", "B")


def item(name: str, form: str) -> dict[str, Any]:
    """Return an item in one form as JSON values for the component."""
    own = rows(LESSON, form)[name]
    picture = own.get("picture")
    return {
        "name": name,
        "topic": text(LESSON, f"topic.{name.split('_')[0]}"),
        "paper": text(LESSON, f"item.{name}.paper"),
        "prompt": own["prompt"],
        "options": [
            {"letter": letter, "text": own[f"{letter}.text"], "why": own[f"{letter}.why"]}
            for letter in "ABCD"
        ],
        "right": own["right"],
        "picture": picture and {"marks": {}} | picture,
    }


def payload(form: str) -> dict[str, Any]:
    """Return the component's data: both forms, and the one to open with."""
    return {
        "title": text(LESSON, "title"),
        "form": form,
        "forms": {one: [item(name, one) for name in rows(LESSON, "item")] for one in FORMS},
    }
