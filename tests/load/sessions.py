"""Sessions one after another, each of which opens the page, asks, reads and leaves."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

from tests.load.client import Visitor
from tests.load.sentences import sentences

ASKED = 20
"""Different sentences: their results fill the store at once, and what grows then is a leak."""


async def sessions(
    port: int, count: int, after: Callable[[int], object] = lambda done: None
) -> tuple[list[tuple[str, str | None]], list[str]]:
    """What so many sessions were answered, and what failed; `after` is called behind each."""
    answers, errors = [], []
    for done, text in zip(range(1, count + 1), cycle(sentences(ASKED)), strict=False):
        async with await Visitor.arrive(port) as visitor:
            for page in (await visitor.open(), await visitor.type("source", text)):
                errors += page.errors + page.failed
            answers.append((text, page.translation))
        after(done)
    return answers, errors
