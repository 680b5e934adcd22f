"""One abuser of each kind beside one visitor: by how much the visitor waits longer than alone."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable

from websockets.exceptions import ConnectionClosed

from tests.load.client import Visitor
from tests.load.sentences import MOST, sentences

TABS = 10
Abuser = Callable[[int], Awaitable[None]]


async def texts(port: int) -> None:
    """A text of 100,000 characters, again and again."""
    async with await Visitor.arrive(port) as visitor:
        await visitor.open()
        while True:
            for letter in "ab":
                await visitor.type("source", letter * 100_000)


async def messages(port: int) -> None:
    """Messages of 20 MB, each of which ends its connection."""
    while True:
        try:
            async with await Visitor.arrive(port) as visitor:
                await visitor.open()
                await visitor.type("source", "a" * 20_000_000)
        except ConnectionClosed:
            pass


async def long(port: int) -> None:
    """Sentences as long as may be, searched with a beam of 5, one after the other."""
    words = [text.removesuffix(".") for text in sentences(MOST)]
    async with await Visitor.arrive(port) as visitor:
        await visitor.open()
        for i in range(0, MOST, 10):
            await visitor.type("source", " und ".join(words[i : i + 10])[:480])


async def tabs(port: int) -> None:
    """Sentences as long as may be, in five tabs, each with its own sentences."""
    words = [text.removesuffix(".") for text in sentences(MOST)]

    async def tab(first: int) -> None:
        async with await Visitor.arrive(port) as visitor:
            await visitor.open()
            for i in range(first, MOST, 50):
                await visitor.type("source", " und ".join(words[i : i + 10])[:480])

    await asyncio.gather(*(tab(10 * number) for number in range(5)))


async def lines(port: int) -> None:
    """200 sentences pasted on the page on masks, again and again."""
    async with await Visitor.arrive(port) as visitor:
        await visitor.open("masks")
        box = next(key for key in visitor.keys if key.startswith("mask_batch_"))
        for i in range(MOST):
            await visitor.type(box, "\n".join(sentences(MOST)[i : i + 200]))


async def trainings(port: int) -> None:
    """The small trainings, in ten tabs."""

    async def tab() -> None:
        async with await Visitor.arrive(port) as visitor:
            await visitor.open("masks")
            await visitor.unfold("open_causal")
            while True:
                await visitor.click("train_cheating")

    await asyncio.gather(*(tab() for _ in range(TABS)))


async def checklists(port: int) -> None:
    """The checklist, in ten tabs."""

    async def tab() -> None:
        async with await Visitor.arrive(port) as visitor:
            await visitor.open("comparison")
            while True:
                await visitor.click("run_checks")
                await asyncio.sleep(0.2)

    await asyncio.gather(*(tab() for _ in range(TABS)))


KINDS: dict[str, Abuser] = {
    one.__name__: one for one in (texts, messages, long, tabs, lines, trainings, checklists)
}


async def abuse(port: int, kind: str, seconds: float) -> None:
    """Abuse the app in one way for so long."""
    try:
        async with asyncio.timeout(seconds):
            await KINDS[kind](port)
    except TimeoutError:
        pass


async def alone(
    port: int, count: int, first: int
) -> tuple[list[float], list[tuple[str, str | None]]]:
    """What one visitor waits for each of some sentences, reading a second each, and sees."""
    seconds, answers = [], []
    async with await Visitor.arrive(port) as visitor:
        await visitor.open()
        for text in sentences(MOST)[first : first + count]:
            await asyncio.sleep(1)
            page = await visitor.type("source", text)
            seconds.append(page.seconds)
            answers.append((text, page.translation))
    return seconds, answers


async def refusals(port: int, count: int) -> list[float]:
    """After how many seconds each of some clicks is told that the line is full, where it is."""
    async with await Visitor.arrive(port) as visitor:
        await visitor.open("masks")
        await visitor.unfold("open_causal")
        pages = [await visitor.click("train_cheating") for _ in range(count)]
    return [page.told for page in pages if page.told is not None]


async def beside(
    port: int, kind: str, count: int, first: int
) -> tuple[list[float], list[tuple[str, str | None]], list[float]]:
    """The same beside an abuser, who is a process of its own and stands in full swing.

    Beside trainings, when a click was told that the line is full, too.
    """
    command = [sys.executable, "-m", "tests.load", "--port", str(port), "abuser", kind]
    abuser = subprocess.Popen(command)
    try:
        await asyncio.sleep(5)
        told = await refusals(port, 5) if kind == trainings.__name__ else []
        return *await alone(port, count, first), told
    finally:
        abuser.terminate()
        abuser.wait()


def ratio(usual: list[float], abused: list[float]) -> float:
    """How many times as long the median is."""
    return statistics.median(abused) / statistics.median(usual)
