"""Many visitors on one server: abandoned work is cancelled, and long tasks are limited."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.load.abuse import KINDS, alone, beside, ratio
from tests.load.client import Visitor
from tests.load.crowd import crowd
from tests.load.proxy import proxy, seat_of
from tests.load.sentences import MOST, sentences, wrong
from tests.load.server import Server, server
from tests.load.sessions import sessions

LONG = " und ".join(text.removesuffix(".") for text in sentences(11))[:490]
SOON = 60  # seconds after which a test has hung
TABS = 10
T = TypeVar("T")


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new thread: this one may have a browser's event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


class Log:
    """The requests in the server's log."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, what: str, outcome: str) -> list[dict]:
        lines = [line for line in self._path.read_text().splitlines() if line.startswith("{")]
        asked = map(json.loads, lines)
        return [line for line in asked if (line["what"], line["outcome"]) == (what, outcome)]

    async def until(self, so: Callable[[], object]) -> None:
        end = time.monotonic() + SOON
        while not so():
            assert time.monotonic() < end, self._path.read_text()[-2000:]
            await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Iterator[tuple[Server, Log]]:
    """A server for this file, with its model loaded, and its log."""
    path = tmp_path_factory.mktemp("many") / "log.txt"

    async def load(port: int) -> None:
        async with await Visitor.arrive(port) as visitor:
            assert (await visitor.open()).translation

    with server(path) as found:
        finished(load(found.port))
        yield found, Log(path)


def test_concurrent_visitors_get_correct_translations(own):
    found, _ = own
    seen = finished(crowd(found.port, visitors=12, seconds=4, think=(0.1, 0.3)))
    assert not seen.errors and len(seen.answers) >= 12
    assert wrong(seen.answers) == []
    text, said = seen.answers[0]
    assert len(wrong([(text, said), (text, f"{said} Not.")])) == 1


def test_a_request_ends_when_its_tab_is_closed(own):
    found, log = own
    before = len(log("inspect", "stopped"))

    async def leave() -> None:
        visitor = await Visitor.arrive(found.port)
        await visitor.open()
        await visitor.begin("source", LONG)
        await asyncio.sleep(0.1)
        await visitor.leave()
        await log.until(lambda: len(log("inspect", "stopped")) > before)

    finished(leave())


def test_input_that_is_too_long_is_rejected_at_once(own):
    found, _ = own

    async def ask() -> tuple[list[str], list[str]]:
        async with await Visitor.arrive(found.port) as visitor:
            await visitor.open()
            first = await visitor.type("source", "a" * 100_000)
        async with await Visitor.arrive(found.port) as visitor:
            await visitor.open("masks")
            box = next(key for key in visitor.keys if key.startswith("mask_batch_"))
            begun = time.monotonic()
            second = await visitor.type(box, "\n".join(sentences(200)))
            assert time.monotonic() - begun < SOON
            return first.errors, second.errors

    (characters,), (lines,) = finished(ask())
    assert "100,000 characters are too many: the limit is 500" in characters
    assert "200 sentences are too many: the limit is 6" in lines


async def at_the_checklist(port: int) -> Visitor:
    visitor = await Visitor.arrive(port)
    await visitor.open("comparison")
    await visitor.press("run_checks")
    return visitor


def test_checklists_are_queued_and_cancelled_with_their_tab(own):
    """Ten at once would take 8 GB."""
    found, log = own
    before = found.memory

    async def ten() -> list[list[str]]:
        tabs = [await at_the_checklist(found.port) for _ in range(TABS)]
        reading = [asyncio.create_task(tab.read()) for tab in tabs]
        await log.until(lambda: sum(task.done() for task in reading) == TABS - 5)
        errors = [task.result().errors for task in reading if task.done()]
        for task, tab in zip(reading, tabs, strict=True):
            task.cancel()
            await tab.leave()
        await log.until(lambda: len(log("checklist", "stopped")) == 5)
        return errors

    assert finished(ten()) == [["busy, 5 ahead: try again in a few seconds"]] * (TABS - 5)
    assert found.most_memory < before + 1000  # one copy in double precision, and the pages


def test_a_session_stays_with_its_process(own):
    found, _ = own
    heads = [f"GET / HTTP/1.1\r\nCookie: a=b; seat={i}; c=d\r\n\r\n".encode() for i in range(40)]
    assert {seat_of(head, 2) for head in heads} == {0, 1}
    assert seat_of(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 2) == 0

    async def through() -> list[str | None]:
        async with (
            proxy([found.port, found.port]) as port,
            await Visitor.arrive(port, "seat=7") as visitor,
        ):
            await visitor.open()
            return [(await visitor.type("source", text)).translation for text in asked]

    asked = sentences(MOST)[-2:]
    answers = list(zip(asked, finished(through()), strict=True))
    assert wrong(answers) == []


@pytest.mark.soak
def test_fifty_visitors_for_two_minutes():
    with server() as found:
        before = found.seconds
        seen = finished(crowd(found.port, visitors=50, seconds=120, think=(3.0, 7.0)))
        cost = (found.seconds - before) / (len(seen.seconds) + len(seen.first))
    print(f"\n{seen.line()}; {cost:.3f} s of processor time a request")  # noqa: T201
    assert not seen.errors and len(seen.answers) > 500
    assert wrong(seen.answers) == []


@pytest.mark.soak
def test_a_thousand_sessions_leave_no_more_memory_than_a_hundred():
    memory = []
    with server() as found:
        finished(sessions(found.port, 100))
        memory.append(found.memory)
        answers, errors = finished(
            sessions(found.port, 1000, lambda done: done % 100 or memory.append(found.memory))
        )
    print("\nMB after each hundred:", *map(round, memory))  # noqa: T201
    assert not errors and wrong(answers) == []
    assert max(memory) < 1.1 * memory[0]


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_abuse_changes_no_answer_and_takes_no_memory(own, kind):
    """The effect on waiting times is printed, not tested: it depends on the machine."""
    found, _ = own
    usual, answers = finished(alone(found.port, 10, 0))
    abused, more, _ = finished(beside(found.port, kind, 10, 10))
    print(f"\n{kind}: {ratio(usual, abused):.1f} times the median wait")  # noqa: T201
    assert wrong(answers + more) == []
    assert found.most_memory < 2000


@pytest.mark.soak
def test_memory_is_released_after_the_checklists(own):
    found, log = own
    before, done = found.memory, len(log("checklist", "answered"))

    async def run() -> None:
        tabs = [await at_the_checklist(found.port) for _ in range(3)]
        pages = await asyncio.gather(*(tab.read() for tab in tabs))
        assert not any(page.errors or page.failed for page in pages)
        await asyncio.gather(*(tab.leave() for tab in tabs))

    finished(run())
    print(f"\n{before:.0f} → {found.memory:.0f} MB, most {found.most_memory:.0f}")  # noqa: T201
    assert len(log("checklist", "answered")) == done + 3
    assert found.memory < before + 250
