"""Mounts a word-by-word gloss: each source word above what it became in the translation."""

from __future__ import annotations

from collections.abc import Sequence

from app.components.mount import component

__all__ = ["gloss"]

_mount = component(__file__, "main.js", ".gloss")


def gloss(words: Sequence[tuple[str, str]], title: str, *, key: str) -> None:
    """Show pairs (word, gloss), with – for an empty gloss; screen readers announce `title`."""
    _mount(
        key=key,
        data={"words": list(map(list, words)), "title": title},
        width="stretch",
        height="content",
    )
