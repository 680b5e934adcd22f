"""Measure the page of another version and of this one in pairs, in the same run."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from app.benchmark.browser import ROOT, SIZE, headless, serve, text_of, wait_for_explorer
from app.benchmark.page import heads_to_edit, switch_off, translate
from core.benchmarks.contest import Cell, Row, speedup
from core.benchmarks.versions import extracted

_LENGTHS = (13, 60, 100)
_SHELL = ".st-key-source textarea"

Measure = Callable[[int], float]
"""Takes the number of the round, and returns milliseconds."""


def against_rows(ref: str, rounds: int) -> Iterator[Row]:
    """Yield two rows per measurement: this version, and the commit `ref`.

    Each round measures both, in random order. `ratio` is the median over rounds of the other
    version's time / this version's: above 1, this version is faster. A first round is discarded.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="against-"))
        trees = {"headlight": ROOT, ref: extracted(ref, Path(folder))}
        browser = stack.enter_context(headless())
        cell = Cell("start to page shell", "app", 1, 5, 1)
        starts = {name: _start_of(tree, browser) for name, tree in trees.items()}
        yield from _rows(cell, starts, min(rounds, 5))
        pages = {}
        for name, tree in trees.items():
            pages[name] = browser.new_page(viewport=SIZE)
            pages[name].goto(stack.enter_context(serve(tree / "app/main.py")))
            wait_for_explorer(pages[name])
        for tokens in _LENGTHS:
            cell = Cell("new sentence to painted", "shipped model", 1, 5, tokens)
            measures = {name: _sentence_on(page, tokens) for name, page in pages.items()}
            yield from _rows(cell, measures, min(rounds, 300))
        cell = Cell("edit to painted", "shipped model", 1, 5, 13)
        edits = {name: _edit_on(page) for name, page in pages.items()}
        yield from _rows(cell, edits, min(rounds, 14))


def _rows(cell: Cell, measures: Mapping[str, Measure], rounds: int) -> Iterator[Row]:
    """Run all rounds; yield one row per version. A round that a page does not end is left out."""
    from playwright.sync_api import Error

    order, rng = list(measures), random.Random(0)
    times: dict[str, list[float]] = {name: [] for name in order}
    for number in range(rounds + 1):
        rng.shuffle(order)
        with suppress(Error):
            for name, took in [(name, measures[name](number)) for name in order]:
                times[name].append(took)
    *_, other = measures
    for name, (_, *values) in times.items():
        more = {} if name == other else speedup(values, times[other][1:])
        yield cell.measured(name, values, "ms", **more)


def _start_of(tree: Path, browser: Any) -> Measure:
    def start(_: int) -> float:
        started = time.perf_counter()
        with serve(tree / "app/main.py") as url:
            page = browser.new_page(viewport=SIZE)
            page.goto(url)
            page.locator(_SHELL).wait_for()
            took = 1000 * (time.perf_counter() - started)
            page.close()
        return took

    return start


def _sentence_on(page: Any, tokens: int) -> Measure:
    return lambda number: translate(page, text_of(tokens, number))


def _edit_on(page: Any) -> Measure:
    """Switch one more head off in each round, so that no result is cached."""
    translate(page, text_of(13, 999))
    heads = heads_to_edit(page)
    return lambda number: switch_off(page, *heads[number])
