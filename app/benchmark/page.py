"""Measure the page: from a click to the painted frame, and from server start to first sentence."""

import statistics
import time
from collections.abc import Iterator
from typing import Any

from app.benchmark import bertviz, parts
from app.benchmark.browser import (
    EXPLORER,
    FLAGS,
    HARNESS,
    OPEN_FOLDS,
    ROOT,
    SENTENCES,
    SHAPE,
    SIZE,
    chromium,
    count_bytes,
    hover,
    row,
    serve,
    text_of,
    timed,
    wait_for_explorer,
)
from app.benchmark.heads import heads_rows
from core.benchmarks.options import Missing


def page_rows(rounds: int) -> Iterator[dict[str, Any] | Missing]:
    """Yield one row per measurement; `ratio` is None, as there is no baseline."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
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
        browser.close()


def sentences(page: Any, tokens: int, rounds: int) -> float:
    """Return the median ms from a click to the painted new sentence; no sentence is repeated."""
    times = []
    button = page.locator(".st-key-translate button")
    for number in range(rounds + 1):
        page.locator(".st-key-source textarea").fill(text_of(tokens, number))
        times.append(timed(page, "click", button.click, "sentence"))
    return statistics.median(times[1:])


# Sets window.headlightAnswered, which resolves with the milliseconds until the next script run
# ends.
_ANSWER = """() => {
  const started = performance.now();
  const app = document.querySelector("[data-testid=stApp]");
  let ran = false;
  window.headlightAnswered = new Promise((resolve) => {
    const observer = new MutationObserver(() => {
      const running = app.dataset.testScriptState === "running";
      ran ||= running;
      if (!ran || running) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - started)));
    });
    observer.observe(app, { attributes: true });
  });
}"""


# Layer and head of each thumbnail of a single head. Means have the highest layer or head number.
_HEADS = """(thumbnails) => {
  const places = thumbnails.map(({ dataset }) => [Number(dataset.l), Number(dataset.h)]);
  const last = [0, 1].map((axis) => Math.max(...places.map((place) => place[axis])));
  return places.filter((place) => place[0] < last[0] && place[1] < last[1]);
}"""


def edits(page: Any, rounds: int) -> tuple[float, float]:
    """Return the median ms from an edit to its painting, and to the end of the new translation.

    Each round ablates one more head, so that no result is cached.
    """
    root = page.locator(EXPLORER)
    page.locator(".st-key-source textarea").fill(SENTENCES[0])
    timed(page, "click", page.locator(".st-key-translate button").click, "sentence")
    root.evaluate(OPEN_FOLDS)
    painted, answered = [], []
    for layer, head in root.locator(".thumbnail").evaluate_all(_HEADS)[: rounds + 1]:
        root.locator(f".thumbnail[data-l='{layer}'][data-h='{head}']").click()
        page.evaluate(_ANSWER)
        button = root.locator("button[data-edit=head]")
        painted.append(timed(page, "click", button.click, "sentence"))
        answered.append(page.evaluate("window.headlightAnswered"))
    return statistics.median(painted[1:]), statistics.median(answered[1:])


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
