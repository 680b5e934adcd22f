"""Sessions one after another, each of which opens the page, translates and disconnects."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

from tests.load.client import Client
from tests.load.sentences import sentences

TEXTS = 20
"""Distinct sentences: their results are cached early, so later growth is a leak."""


async def sessions(
    port: int, count: int, after: Callable[[int], object] = lambda done: None
) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Return the answers and errors of the sessions; `after` is called after each."""
    answers, errors = [], []
    for done, text in zip(range(1, count + 1), cycle(sentences(TEXTS)), strict=False):
        async with await Client.connect(port) as client:
            for page in (await client.open(), await client.type("source", text)):
                errors += page.errors + page.failed
            answers.append((text, page.translation))
        after(done)
    return answers, errors
