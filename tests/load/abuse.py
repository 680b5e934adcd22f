"""Measure how much a user's latency increases next to an abusive client."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

from websockets.exceptions import ConnectionClosed

from tests.load.client import Client
from tests.load.sentences import MOST, sentences

TABS = 10
LEARNERS = "train_example_dates"
"""A widget in the fragment that trains."""
Abuser = Callable[[int], Awaitable[None]]


async def texts(port: int) -> None:
    """Send a text of 100,000 characters repeatedly."""
    async with await Client.connect(port) as client:
        await client.open()
        while True:
            for letter in "ab":
                await client.type("source", letter * 100_000)


async def messages(port: int) -> None:
    """Send messages of 20 MB, each of which closes its connection."""
    while True:
        try:
            async with await Client.connect(port) as client:
                await client.open()
                await client.type("source", "a" * 20_000_000)
        except ConnectionClosed:
            pass


def _long(texts: list[str], first: int) -> str:
    """Return ten of the sentences as one, of up to 480 characters."""
    return " und ".join(text.removesuffix(".") for text in texts[first:][:10])[:480]


async def long(port: int, first: int = 0, step: int = 10) -> None:
    """Send sentences of up to 480 characters, one after the other, decoded with beam 5."""
    texts = sentences(MOST)
    async with await Client.connect(port) as client:
        await client.open()
        for i in range(first, MOST, step):
            await client.type("source", _long(texts, i))


async def tabs(port: int) -> None:
    """Send sentences of up to 480 characters from five tabs, each with its own sentences."""
    await asyncio.gather(*(long(port, 10 * number, 50) for number in range(5)))


async def visits(port: int) -> None:
    """Send a sentence and leave, from four clients that open a new tab for each sentence."""

    async def client(first: int) -> None:
        for text in sentences(MOST)[first::4]:
            async with await Client.connect(port) as tab:
                await tab.open(query=urlencode({"source": text}))

    await asyncio.gather(*(client(number) for number in range(4)))


async def own_texts(port: int) -> None:
    """Measure 300 lines of up to 480 characters on the page *Heads* in three tabs, repeatedly."""
    texts = sentences(MOST)

    async def tab(number: int) -> None:
        async with await Client.connect(port) as client:
            await client.open("heads")
            for first in range(number * 1000, MOST, 300):
                given = [_long(texts, (first + i) % MOST) for i in range(300)]
                await client.submit("own_text_lines", "\n".join(given), "own_text_measure")

    await asyncio.gather(*(tab(number) for number in range(3)))


async def lines(port: int) -> None:
    """Paste 200 sentences on the page *Masks* repeatedly."""
    async with await Client.connect(port) as client:
        await client.open("masks")
        await client.unfold("open_batch")
        box = next(key for key in client.keys if key.startswith("mask_batch_"))
        for i in range(MOST):
            await client.type(box, "\n".join(sentences(MOST)[i : i + 200]))


async def _clicking(port: int, page: str, button: str, pause: float, unfolded: str = "") -> None:
    """Click a button in ten tabs, again and again."""

    async def tab() -> None:
        async with await Client.connect(port) as client:
            await client.open(page)
            if unfolded:
                await client.unfold(unfolded)
            while True:
                await client.click(button)
                await asyncio.sleep(pause)

    await asyncio.gather(*(tab() for _ in range(TABS)))


async def trainings(port: int) -> None:
    """Run the small trainings in ten tabs, again and again."""
    await _clicking(port, "masks", "train_cheating", 0, "open_causal")


async def learners(port: int, count: int = 4) -> None:
    """Train a network in each of some tabs, as browsers do: a run every second, again and again."""

    async def tab(number: int) -> None:
        while True:
            async with await Client.connect(port) as client:
                await client.open("train", urlencode({"train_seed": number}))
                await client.click("train_run")
                for _ in range(60):
                    await asyncio.sleep(max(0.0, 1 - (await client.again(LEARNERS)).seconds))

    await asyncio.gather(*(tab(number) for number in range(2, 2 + count)))


async def checklists(port: int) -> None:
    """Run the checklist in ten tabs, again and again."""
    await _clicking(port, "comparison", "run_checks", 0.2)


KINDS: dict[str, Abuser] = {
    one.__name__: one
    for one in (
        *(texts, messages, long, tabs, visits, own_texts, lines, trainings, learners, checklists),
    )
}


async def abuse(port: int, kind: str, seconds: float) -> None:
    """Abuse the app in one way for some seconds."""
    try:
        async with asyncio.timeout(seconds):
            await KINDS[kind](port)
    except TimeoutError:
        pass


async def alone(
    port: int, count: int, first: int
) -> tuple[list[float], list[tuple[str, str | None]]]:
    """Return the latencies and answers of one user who pauses a second between sentences."""
    seconds, answers = [], []
    async with await Client.connect(port) as client:
        await client.open()
        for text in sentences(MOST)[first : first + count]:
            await asyncio.sleep(1)
            page = await client.type("source", text)
            seconds.append(page.seconds)
            answers.append((text, page.translation))
    return seconds, answers


async def refusals(port: int, count: int) -> list[float]:
    """Click `count` times; return the seconds until the error of each rejected click."""
    async with await Client.connect(port) as client:
        await client.open("masks")
        await client.unfold("open_causal")
        pages = [await client.click("train_cheating") for _ in range(count)]
    return [page.error_s for page in pages if page.error_s is not None]


async def next_to(
    port: int, kind: str, count: int, first: int
) -> tuple[list[float], list[tuple[str, str | None]], list[float]]:
    """Return the latencies and answers of `alone`, measured next to an abuser in another process.

    The third list is that of `refusals` for trainings, and empty for all other kinds.
    """
    command = [sys.executable, "-m", "tests.load", "--port", str(port), "abuser", kind]
    abuser = subprocess.Popen(command)
    try:
        await asyncio.sleep(5)
        rejected = await refusals(port, 5) if kind == trainings.__name__ else []
        return *await alone(port, count, first), rejected
    finally:
        abuser.terminate()
        abuser.wait()


def ratio(usual: list[float], abused: list[float]) -> float:
    """Return the ratio of the medians."""
    return statistics.median(abused) / statistics.median(usual)
