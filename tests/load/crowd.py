"""Many concurrent users who type, read for some seconds and type again."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle

from tests.load.client import Client
from tests.load.sentences import MOST, sentences


@dataclass
class Results:
    """Latencies, answers and errors of a crowd."""

    seconds: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    answers: list[tuple[str, str | None]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    lasted: float = 0.0

    @property
    def p50(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p95(self) -> float:
        return percentile(self.seconds, 0.95)

    def line(self) -> str:
        """Summarise the results in one line."""
        count = len(self.seconds)
        return (
            f"{count} answers in {self.lasted:.0f} s ({count / self.lasted:.1f} a second), "
            f"{len(self.errors)} errors; p50 {self.p50:.2f} s, p95 {self.p95:.2f} s, "
            f"max {max(self.seconds):.2f} s"
        )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def crowd(
    port: int, visitors: int, seconds: float, think: tuple[float, float], seed: int = 0
) -> Results:
    """Simulate users for some seconds; all of them share one sequence of sentences.

    `think` holds the shortest and the longest pause between two sentences. Each user arrives after
    a random delay of at most the longest pause.
    Opening the page is measured separately.
    """
    seen = Results()
    texts = cycle(sentences(MOST))
    start = time.monotonic()

    async def visit(own: random.Random) -> None:
        await asyncio.sleep(own.uniform(0, think[1]))
        try:
            async with await Client.connect(port, f"seat={own.random()}") as client:
                seen.first.append((await client.open()).seconds)
                while time.monotonic() - start < seconds:
                    await asyncio.sleep(own.uniform(*think))
                    text = next(texts)
                    page = await client.type("source", text)
                    seen.seconds.append(page.seconds)
                    if page.errors or page.failed:
                        seen.errors += [*page.errors, *page.failed]
                    else:
                        seen.answers.append((text, page.translation))
        except (OSError, TimeoutError, KeyError) as error:
            seen.errors.append(repr(error))

    await asyncio.gather(*(visit(random.Random(f"{seed} {i}")) for i in range(visitors)))
    seen.lasted = time.monotonic() - start
    return seen
