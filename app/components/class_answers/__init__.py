"""Mounts the answers of a class: files are read and counted in the teacher's browser only."""

from __future__ import annotations

from collections.abc import Mapping

from app.components.mount import component

__all__ = ["class_answers"]

_mount = component(__file__, "main.js", ".class-answers")


def class_answers(known: Mapping[str, Mapping[str, str]], *, key: str) -> None:
    """Show a box for answer files and what they say; the script sends nothing back.

    `known` are the titles of the stops by form and item, as in the files. In a form with the item
    "", every item is a stop of its own: a sentence, which follows the title.
    """
    _mount(key=key, data={"known": known}, width="stretch", height="content")
