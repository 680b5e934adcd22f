"""Measure the offline page: sizes, and the time from an action to the painted frame."""

from __future__ import annotations

import re
import statistics
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from app.benchmark.browser import (
    EXPLORER,
    ROOT,
    SENTENCES,
    SIZE,
    START,
    headless,
    row,
    serve,
    text_of,
    timed,
    until,
    wait_for_explorer,
)
from app.benchmark.page import edits as edits_of_the_app
from app.benchmark.page import sentences as sentences_of_the_app
from app.export import offline
from core.benchmarks.contest import Missing

_FOLDERS = {d: ROOT / f"checkpoints/scratch-{d}" for d in ("de-en", "en-de")}
_LENGTHS = (13, 60)
_MOST = 15  # rounds in the served app, which answers more slowly
# Resolves with the milliseconds since the page was requested, once the explorer is painted.
_OPENED = """() => new Promise((resolve) => {
  const painted = () => document.querySelector(".explorer[data-painted]");
  const done = () => requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
  if (painted()) return done();
  const observer = new MutationObserver(() => {
    if (!painted()) return;
    observer.disconnect();
    done();
  });
  observer.observe(document, { subtree: true, childList: true, attributes: true });
})"""
# Installed before the page's own script runs: records when the explorer is first painted.
_FIRST_PAINT = f"window.headlightOpened = ({_OPENED})();"
# Sets window.headlightAgain, which resolves with the milliseconds from the next click until a part
# of the explorer is gone and there again.
_AGAIN = f"""(part) => {{
  {START}
  addEventListener("click", start, {{ capture: true, once: true }});
  const root = document.querySelector(".explorer");
  const isThere = () => root.querySelector(part) !== null;
  let waited = false;
  window.headlightAgain = {
    until(
        "(waited ||= started !== null && !isThere()) && isThere()",
        changes="subtree: true, childList: true",
    )
};
}}"""

# Orders the heads by effect; resolves with the milliseconds until the effects are painted.
_ORDER = """const list = root.querySelector("[data-part=sort]");
  list.value = "{order}";
  list.dispatchEvent(new Event("change"));"""
_LABELLED = 'root.querySelector(".order-label")?.textContent.includes("without the head")'
_EFFECTS = f"""(root) => {{
  const started = performance.now();
  const shown = {until(_LABELLED, changes="subtree: true, childList: true, characterData: true")};
  {_ORDER.format(order="effect")}
  return shown;
}}"""
_IN_ORDER = f"(root) => {{ {_ORDER.format(order='layer')} }}"


def offline_rows(rounds: int) -> Iterator[dict[str, Any] | Missing]:
    """Yield one row per measurement, with the served app and plain JavaScript as contestants.

    Times are medians, in milliseconds from the action to the frame that shows its effect.
    """
    with tempfile.TemporaryDirectory() as folder, headless() as browser:
        files = dict(_written(Path(folder)))
        for name, file in files.items():
            yield row("size of the file", name, 1, file.stat().st_size / 1e6, "MB")
        for name, file in files.items():
            times = [_opened(browser, file) for _ in range(min(rounds, 9))]
            yield row("open to first translation painted", name, 13, statistics.median(times))
        file = files["two directions, fp16"]
        for contestant, link in (("headlight", {}), ("plain JavaScript", {"plain": 1})):
            page = _page(browser, file, **link)
            for tokens in _LENGTHS:
                took = sentences(page, tokens, rounds)
                what = "new sentence to painted"
                yield row(what, "offline", tokens, took, contestant=contestant)
            if contestant == "headlight":
                yield from actions(page, rounds)
            page.context.close()
        yield from _served(browser, rounds)


def _written(folder: Path) -> Iterator[tuple[str, Path]]:
    for int8, precision in ((False, "fp16"), (True, "int8")):
        networks = [offline.network(folder, int8) for folder in _FOLDERS.values()]
        for count, words in ((1, "one direction"), (2, "two directions")):
            file = folder / f"{precision}-{count}.html"
            file.write_text(offline.page(networks[:count], int8), encoding="utf-8")
            yield f"{words}, {precision}", file


def _page(browser: Any, file: Path, **link: object) -> Any:
    """Open the file at a link, in a new context without a network."""
    context = browser.new_context(viewport=SIZE, offline=True)
    page = context.new_page()
    page.add_init_script(_FIRST_PAINT)
    link = {"source": SENTENCES[0]} | link
    page.goto(f"{file.as_uri()}#{urlencode(link)}", wait_until="commit")
    wait_for_explorer(page)
    return page


def _opened(browser: Any, file: Path) -> float:
    page = _page(browser, file)
    took = page.evaluate("window.headlightOpened")
    page.context.close()
    return took


def sentences(page: Any, tokens: int, rounds: int) -> float:
    """Return the median ms from a click to the painted new sentence; no sentence is repeated."""
    times = []
    button = page.get_by_role("button", name="Translate", exact=True)
    for number in range(rounds + 1):
        page.locator("[data-page=source]").fill(text_of(tokens, number))
        times.append(timed(page, "click", button.click, "sentence"))
    return statistics.median(times[1:])


def actions(page: Any, rounds: int) -> Iterator[dict[str, Any]]:
    """Yield the median ms of each action on a 13-token sentence, then the tab's memory."""
    page.locator("[data-page=source]").fill(SENTENCES[0])
    timed(page, "click", page.get_by_role("button", name="Translate", exact=True).click, "sentence")
    root = page.locator(EXPLORER)
    heads = [(layer, head) for layer in range(4) for head in range(4)][: rounds + 1]
    painted, again, switched = [], [], []
    for layer, head in heads:
        thumbnail = root.locator(f".thumbnail[data-l='{layer}'][data-h='{head}']")
        switched.append(timed(page, "click", thumbnail.click))
        page.evaluate(_AGAIN, ".edited-word .form")
        button = root.locator("button[data-edit=head]")
        painted.append(
            timed(page, "click", partial(button.evaluate, "it => it.click()"), "sentence")
        )
        again.append(page.evaluate("window.headlightAgain"))
    for what, times in (("edit to painted", painted), ("edit to translated again", again)):
        yield row(what, "offline", 13, statistics.median(times[1:]))
    yield row("layer or head to painted", "offline", 13, statistics.median(switched[1:]))
    yield row("effects of all heads", "offline", 13, _effects(page, min(rounds, 5)))
    yield row("new sentence to its states' words", "offline", 13, _readings(page, min(rounds, 5)))
    yield row("memory of the tab", "offline", 13, memory(page), "MiB")


def memory(page: Any) -> float:
    """Return the MiB of the largest renderer process: the page, its worker and WebAssembly.

    Counts the memory that the process does not share with others. Reads /proc, so it needs Linux.
    """
    session = page.context.browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    largest = 0
    for process in processes:
        if process["type"] == "renderer":
            sizes = Path(f"/proc/{process['id']}/smaps_rollup").read_text(encoding="utf-8")
            largest = max(
                largest, sum(map(int, re.findall(r"^Private_\w+: +(\d+) kB", sizes, re.M)))
            )
    return largest / 1024


def _effects(page: Any, rounds: int) -> float:
    root = page.locator(EXPLORER)
    times = []
    for number in range(rounds + 1):
        root.evaluate(_IN_ORDER)
        page.locator("[data-page=source]").fill(text_of(13, 500 + number))
        translate = page.get_by_role("button", name="Translate", exact=True)
        timed(page, "click", translate.click, "sentence")
        times.append(root.evaluate(_EFFECTS))
    return statistics.median(times[1:])


def _readings(page: Any, rounds: int) -> float:
    times = []
    for number in range(rounds + 1):
        page.locator("[data-page=source]").fill(text_of(13, 900 + number))
        page.evaluate(_AGAIN, ".source .cell")
        page.get_by_role("button", name="Translate", exact=True).click()
        times.append(page.evaluate("window.headlightAgain"))
    return statistics.median(times[1:])


def _served(browser: Any, rounds: int) -> Iterator[dict[str, Any]]:
    """Yield the served app's times for actions that the offline page shares, for one visitor."""
    rounds = min(rounds, _MOST)
    with serve(ROOT / "app/main.py") as url:
        page = browser.new_page(viewport=SIZE)
        page.goto(url)
        wait_for_explorer(page)
        app: dict[str, Any] = {"contestant": "served app"}
        for tokens in _LENGTHS:
            took = sentences_of_the_app(page, tokens, rounds)
            yield row("new sentence to painted", "served", tokens, took, **app)
        painted, again = edits_of_the_app(page, rounds)
        yield row("edit to painted", "served", 13, painted, **app)
        yield row("edit to translated again", "served", 13, again, **app)
        page.close()
