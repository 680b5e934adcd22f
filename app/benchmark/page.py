"""Measure the page: from a click to the painted frame, and from server start to first sentence."""

import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from app.benchmark import bertviz, parts
from app.benchmark.browser import (
    EXPLORER,
    HARNESS,
    ROOT,
    SENTENCES,
    SHAPE,
    SIZE,
    count_bytes,
    headless,
    hover,
    row,
    serve,
    text_of,
    timed,
    until,
    wait_for_explorer,
)
from app.benchmark.heads import heads_rows
from core.benchmarks.contest import Missing
from core.benchmarks.scale import exponent


def page_rows(rounds: int) -> Iterator[dict[str, Any] | Missing]:
    """Yield one row per measurement; `ratio` is None, as there is no baseline."""
    with headless() as browser:
        started = time.perf_counter()
        with serve(ROOT / "app/main.py") as url:
            page = browser.new_page(viewport=SIZE)
            page.add_init_script(f"({parts.WATCH})()")
            page.goto(url)
            page.locator(".st-key-source textarea").wait_for()
            shell = 1000 * (time.perf_counter() - started)
            wait_for_explorer(page)
            first = 1000 * (time.perf_counter() - started)
            yield row("start to page shell", "app", 1, shell)
            yield row("start to first sentence painted", "app", 1, first)
            for tokens in (13, 60, 100):
                took = sentences(page, tokens, min(rounds, 400))  # `parts` uses texts from 500
                yield row("new sentence to painted", f"shipped model, {tokens}", tokens, took)
                yield from parts.parts(page, tokens, min(rounds, 12))
            painted, again = edits(page, min(rounds, 20))
            yield row("edit to painted", "shipped model, 13", 13, painted)
            yield row("edit to translated again", "shipped model, 13", 13, again)
            yield from heads_rows(page, min(rounds, 9))
            page.close()
        with serve(HARNESS) as url:
            for case, tokens in (("long", 60), ("hundred", 100)):
                page = browser.new_page(viewport=SIZE)
                received = count_bytes(page)
                page.goto(f"{url}/?case={case}&layers=6&heads=8&decoder_layers=6")
                wait_for_explorer(page)
                shape = f"{SHAPE}, {tokens}×{tokens}"
                yield row("sent for a sentence", shape, tokens, max(received) / 1e6, "MB")
                for what, targets in switches(page, rounds).items():
                    times = [timed(page, "click", target.click) for target in targets]
                    yield row(f"{what} to painted", shape, tokens, statistics.median(times))
                yield row("hover to highlighted", shape, tokens, hover(page, rounds))
                page.close()
        yield from bertviz.rows(browser, rounds)


def sentences(page: Any, tokens: int, rounds: int) -> float:
    """Return the median ms from a click to the painted new sentence; no sentence is repeated."""
    times = [translate(page, text_of(tokens, number)) for number in range(rounds + 1)]
    return statistics.median(times[1:])


def translate(page: Any, text: str) -> float:
    """Return the ms from a click on Translate to the painted new sentence."""
    page.locator(".st-key-source textarea").fill(text)
    return timed(page, "click", page.locator(".st-key-translate button").click, "sentence")


# A short run starts and ends before the observer is called: it sees the end alone.
_SCRIPT_STATE = "attributeFilter: ['data-test-script-state']"
# Sets window.headlightAnswered, which resolves with the milliseconds until a script run has ended.
_ANSWER = f"""() => {{
  const started = performance.now();
  const app = document.querySelector("[data-testid=stApp]");
  const running = () => app.dataset.testScriptState === "running";
  window.headlightAnswered = {until("!running()", "app", _SCRIPT_STATE)};
}}"""


# Layer and head of each thumbnail of a single head. Means have the highest layer or head number.
_HEADS = """(thumbnails) => {
  const places = thumbnails.map(({ dataset }) => [Number(dataset.l), Number(dataset.h)]);
  const last = [0, 1].map((axis) => Math.max(...places.map((place) => place[axis])));
  return places.filter((place) => place[0] < last[0] && place[1] < last[1]);
}"""


def edits(page: Any, rounds: int) -> tuple[float, float]:
    """Return the median ms from an edit to its painting, and to the end of the new translation.

    Each round ablates one more head, so that no result is cached. A round whose end the page does
    not report is left out.
    """
    from playwright.sync_api import Error

    translate(page, SENTENCES[0])
    painted, answered = [], []
    for layer, head in heads_to_edit(page)[: rounds + 1]:
        page.evaluate(_ANSWER)
        with suppress(Error):
            painted.append(switch_off(page, layer, head))
            answered.append(page.evaluate("window.headlightAnswered"))
    return statistics.median(painted[1:]), statistics.median(answered[1:])


def heads_to_edit(page: Any) -> list[tuple[int, int]]:
    """Return layer and head of each single head that the overview shows."""
    return page.locator(f"{EXPLORER} .thumbnail").evaluate_all(_HEADS)


def switch_off(page: Any, layer: int, head: int) -> float:
    """Choose a head and ablate it; return the ms from that click to the painted new maps."""
    root = page.locator(EXPLORER)
    root.locator(f".thumbnail[data-l='{layer}'][data-h='{head}']").click()
    button = root.locator("button[data-edit=head]")
    return timed(page, "click", lambda: button.evaluate("it => it.click()"), "sentence")


def switches(page: Any, rounds: int) -> dict[str, list[Any]]:
    """Return the elements to click in turn, by the part of the view that each click changes."""
    root = page.locator(EXPLORER)
    return {
        "layer or head": [
            root.locator(f".thumbnail[data-l='{(i + 3) % 6}'][data-h='{(5 * i + 2) % 8}']")
            for i in range(rounds)
        ],
        "kind": [
            root.locator(f"[data-kind-option={('encoder', 'decoder', 'cross')[i % 3]}]")
            for i in range(rounds)
        ],
        "view": [
            root.locator(f"[data-view-option={('lines', 'map')[i % 2]}]")
            for i in range(rounds + rounds % 2)
        ],
    }


_LONGER = tuple((4, 4, tokens) for tokens in (32, 64, 128, 256, 512))
_MORE_HEADS = tuple((layers, heads, 60) for layers, heads in ((4, 4), (4, 8), (6, 8), (12, 16)))


def growth_rows(rounds: int) -> Iterator[dict[str, Any] | Missing]:
    """Yield a row for each measurement, then the exponent of its growth with the number of tokens.

    Yields Missing for a size that timed out. An exponent of 2 means that doubling the
    tokens quadruples the value.
    """
    with headless() as browser, serve(HARNESS) as url:
        by_length: dict[str, list[tuple[int, float]]] = {}
        for layers, heads, tokens in (*_LONGER, *_MORE_HEADS):
            shape = f"{layers} layers × {heads} heads, {tokens}×{tokens}"
            found = _measure(browser, f"{url}/?case={tokens}&layers={layers}&heads={heads}", rounds)
            if not found:
                yield Missing(
                    shape, "timed out: the page shows no maps that exceed the message limit"
                )
            for what, (value, unit) in found.items():
                yield row(what, shape, tokens, value, unit)
                if (layers, heads, tokens) in _LONGER:
                    by_length.setdefault(what, []).append((tokens, value))
        for what, points in by_length.items():
            if (slope := exponent(*zip(*points, strict=True))) is not None:
                yield row(f"growth exponent, {what}", "", points[-1][0], slope, "exponent")


def _measure(browser: Any, address: str, rounds: int) -> dict[str, tuple[float, str]]:
    """Measure one size: values by name, with units; empty if the page shows no map."""
    from playwright.sync_api import TimeoutError

    page = browser.new_page(viewport=SIZE)
    received = count_bytes(page)
    try:
        page.goto(address)
        wait_for_explorer(page)
        another = page.locator(".st-key-another label")
        sentences = [timed(page, "click", another.click, "sentence") for _ in range(3)]
        root = page.locator(EXPLORER)
        thumbnails = root.locator(".thumbnail[data-l][data-h]")
        heads = [timed(page, "click", thumbnails.nth(i % 3).click) for i in range(rounds)]
        return {
            "sent for a sentence": (max(received) / 1e6, "MB"),
            "new sentence to painted": (statistics.median(sentences), "ms"),
            "layer or head to painted": (statistics.median(heads), "ms"),
            "hover to highlighted": (hover(page, rounds), "ms"),
        }
    except TimeoutError:
        return {}
    finally:
        page.close()
