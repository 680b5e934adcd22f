"""Measure how fast the page answers, in a real headless browser.

    python -m core.benchmark page|growth [--rounds N] [--json FILE]

Needs Chromium (on the path, or CHROME_BIN). Times are medians of N rounds, in milliseconds, from
the click or the move of the pointer until the frame that shows its effect; the starts are taken
once. Sizes are those of the largest message that a page is sent for one sentence.

`growth` shows made-up maps of many sizes, up to 512 tokens and 12 layers of 16 heads.

Beside `page` stands BertViz's model view of as many maps, where it is installed (the extra
`benchmark`). It loads its scripts from cdnjs.cloudflare.com, or from a folder in BERTVIZ_SCRIPTS
that holds require.min.js, jquery.min.js and d3.min.js.
"""

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.benchmarks.contest import Cell
from core.benchmarks.options import Missing
from core.benchmarks.scale import exponent

ROOT = Path(__file__).resolve().parents[1]
EXPLORER = "section[aria-label='Attention explorer']"
SENTENCES = (  # 13 tokens each for the shipped model, <eos> included
    "Ein kleines Mädchen in einem rosa Kleid spielt allein im Garten.",
    "Drei Männer in blauen Hemden stehen vor einem Haus und lachen.",
)
HARNESS = ROOT / "tests/app/explorer_harness.py"
SHAPE = "6 layers × 8 heads"
# Resolves with the milliseconds from the next event of a type to the moment after the frame that
# shows what it changed: the frame after `attribute` of the explorer changed.
_STOPWATCH = """(root, {type, attribute}) => {
  let started = null;
  document.addEventListener(
    type, () => { started = performance.now(); }, { capture: true, once: true });
  window.headlightPainted = new Promise((resolve) => {
    const before = root.dataset[attribute];
    const observer = new MutationObserver(() => {
      if (root.dataset[attribute] === before || started === null) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - started)));
    });
    observer.observe(root, { attributes: true });
  });
}"""


def page_rows(rounds: int) -> Iterator[dict[str, Any] | Missing]:
    """One row a measurement; there is no baseline to compare with, so `ratio` is None."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=_FLAGS)
        started = time.perf_counter()
        with serve(ROOT / "app/main.py") as url:
            page = browser.new_page(viewport=_SIZE)
            page.goto(url)
            page.locator(".st-key-source textarea").wait_for()
            shell = 1000 * (time.perf_counter() - started)
            _wait_for_explorer(page)
            first = 1000 * (time.perf_counter() - started)
            yield _row("start to page shell", "app", 1, shell)
            yield _row("start to first sentence painted", "app", 1, first)
            for tokens, pair in ((13, SENTENCES), (60, texts_of(60)), (100, texts_of(100))):
                took = _sentences(page, pair, rounds)
                yield _row("new sentence to painted", f"shipped model, {tokens}", tokens, took)
            painted, again = _edits(page, min(rounds, 20))
            yield _row("edit to painted", "shipped model, 13", 13, painted)
            yield _row("edit to translated again", "shipped model, 13", 13, again)
            page.close()
        with serve(HARNESS) as url:
            for case, tokens in (("long", 60), ("hundred", 100)):
                page = browser.new_page(viewport=_SIZE)
                received = _count_bytes(page)
                page.goto(f"{url}/?case={case}&layers=6&heads=8&decoder_layers=6")
                _wait_for_explorer(page)
                shape = f"{SHAPE}, {tokens}×{tokens}"
                yield _row("sent for a sentence", shape, tokens, max(received) / 1e6, "MB")
                for what, targets in _switches(page, rounds).items():
                    times = [_timed(page, "click", target.click) for target in targets]
                    yield _row(f"{what} to painted", shape, tokens, statistics.median(times))
                yield _row("hover to highlighted", shape, tokens, _hover(page, rounds))
                page.close()
        yield from _bertviz(browser, rounds)
        browser.close()


def growth_rows(rounds: int) -> Iterator[dict[str, Any] | Missing]:
    """What a sentence's maps take to send, to paint and to switch, by their number and size.

    Behind the rows of growing sentences stands the exponent of each: 2 is four times as much for
    twice as many tokens. What the page does not show is named.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, serve(HARNESS) as url:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=_FLAGS)
        by_length: dict[str, list[tuple[int, float]]] = {}
        for layers, heads, tokens in (*_LONGER, *_MORE_HEADS):
            shape = f"{layers} layers × {heads} heads, {tokens}×{tokens}"
            found = _grown(browser, f"{url}/?case={tokens}&layers={layers}&heads={heads}", rounds)
            if not found:
                yield Missing(
                    shape, "the page shows no maps of this size: its message is too large"
                )
            for what, (value, unit) in found.items():
                yield _row(what, shape, tokens, value, unit)
                if (layers, heads, tokens) in _LONGER:
                    by_length.setdefault(what, []).append((tokens, value))
        for what, points in by_length.items():
            if (slope := exponent(*zip(*points, strict=True))) is not None:
                yield _row(f"exponent of length, {what}", "", points[-1][0], slope, "exponent")
        browser.close()


_LONGER = tuple((4, 4, tokens) for tokens in (32, 64, 128, 256, 512))
_MORE_HEADS = tuple((layers, heads, 60) for layers, heads in ((4, 4), (4, 8), (6, 8), (12, 16)))


def _grown(browser: Any, address: str, rounds: int) -> dict[str, tuple[float, str]]:
    """What one size takes, by name, each with its unit; nothing where the page shows no map."""
    from playwright.sync_api import TimeoutError

    page = browser.new_page(viewport=_SIZE)
    received = _count_bytes(page)
    try:
        page.goto(address)
        _wait_for_explorer(page)
        another = page.locator(".st-key-another label")
        sentences = [_timed(page, "click", another.click, "sentence") for _ in range(3)]
        root = page.locator(EXPLORER)
        thumbnails = root.locator(".thumbnail[data-l][data-h]")
        heads = [_timed(page, "click", thumbnails.nth(i % 3).click) for i in range(rounds)]
        return {
            "sent for a sentence": (max(received) / 1e6, "MB"),
            "another sentence to painted": (statistics.median(sentences), "ms"),
            "layer or head to painted": (statistics.median(heads), "ms"),
            "hover to highlighted": (_hover(page, rounds), "ms"),
        }
    except TimeoutError:
        return {}
    finally:
        page.close()


# Notes when the page last changed; a long task ends before the frame behind it.
_WATCH = """() => {
  window.lastChange = 0;
  addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
    requestAnimationFrame(() => setTimeout(() => { window.lastChange = performance.now(); }));
  }).observe(document.body, { childList: true, subtree: true, attributes: true }));
}"""


def _bertviz(browser: Any, rounds: int) -> Iterator[dict[str, Any] | Missing]:
    """BertViz's page of 3 × 48 maps: its size, how long it is drawn, and another kind."""
    from playwright.sync_api import TimeoutError

    try:
        from core.benchmarks import bertviz

        html = bertviz.page(6, 8, 60)
    except ImportError as error:
        reason = f"{error.name} is not installed: pip install -e .[benchmark]"
        yield Missing("bertviz", reason)
        return
    shape = f"{SHAPE}, 60×60"
    drawn, again = [], []
    scripts = os.environ.get("BERTVIZ_SCRIPTS")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bertviz.html"
        file.write_text(html, encoding="utf-8")
        for _ in range(max(3, rounds // 7)):
            page = browser.new_page(viewport=_SIZE)
            if scripts:
                page.route(
                    "https://cdnjs.cloudflare.com/**",
                    lambda route: route.fulfill(path=Path(scripts) / Path(route.request.url).name),
                )
            page.add_init_script(f"({_WATCH})()")
            page.goto(file.as_uri(), wait_until="commit")
            try:
                page.locator("#vis svg").first.wait_for(timeout=30_000)
            except TimeoutError:
                yield Missing("bertviz", "its scripts did not come from cdnjs.cloudflare.com")
                return
            drawn.append(_settled(page))
            for kind in ("1", "2"):
                started = page.evaluate("performance.now()")
                page.locator("#filter").select_option(kind)
                again.append(_settled(page) - started)
            page.close()
    for what, value, unit in (
        ("sent for a sentence", len(html.encode()) / 1e6, "MB"),
        ("start to maps painted", statistics.median(drawn), "ms"),
        ("kind to painted", statistics.median(again), "ms"),
    ):
        yield _row(what, shape, 60, value, unit, "bertviz")


def _settled(page: Any) -> float:
    """Milliseconds after the page's start at which it last changed, once it is still for 2 s."""
    page.wait_for_function("window.lastChange && performance.now() - window.lastChange > 2000")
    return page.evaluate("window.lastChange")


def _wait_for_explorer(page: Any) -> None:
    page.locator(EXPLORER).and_(page.locator("[data-painted]")).wait_for(timeout=60_000)


def _count_bytes(page: Any) -> list[int]:
    """The sizes of the messages that the page is sent from now on; the largest is a sentence's."""
    sizes: list[int] = []
    page.on(
        "websocket",
        lambda socket: socket.on("framereceived", lambda data: sizes.append(len(data))),
    )
    return sizes


def texts_of(tokens: int) -> tuple[str, str]:
    """Two texts of so many tokens, <eos> included: each of these words is one token."""
    words = "Ein Mann und eine Frau gehen in einem Park und".split()
    text = [words[i % len(words)] for i in range(tokens - 1)]
    return " ".join(text), " ".join(["Zwei", *text[1:]])


def _timed(page: Any, event: str, act: Callable[[], None], attribute: str = "painted") -> float:
    page.locator(EXPLORER).evaluate(_STOPWATCH, {"type": event, "attribute": attribute})
    act()
    return page.evaluate("window.headlightPainted")


def _sentences(page: Any, pair: tuple[str, str], rounds: int) -> float:
    """Two sentences in turns, each round typed with more spaces, so that no cache answers."""
    times = []
    button = page.locator(".st-key-translate button")
    for number in range(rounds + 1):
        text = pair[number % 2].replace(" ", " " * (1 + number), 1)
        page.locator(".st-key-source textarea").fill(text)
        times.append(_timed(page, "click", button.click, "sentence"))
    return statistics.median(times[1:])


# Resolves with the milliseconds from now until the page has been run again, to its end.
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


def _edits(page: Any, rounds: int) -> tuple[float, float]:
    """Heads switched off one after the other, each beside those before: no cache answers."""
    root = page.locator(EXPLORER)
    page.locator(".st-key-source textarea").fill(SENTENCES[0])
    _timed(page, "click", page.locator(".st-key-translate button").click, "sentence")
    painted, answered = [], []
    for number in range(rounds + 1):
        layer, head = divmod(number, 8)
        root.locator(f".thumbnail[data-l='{layer}'][data-h='{head}']").click()
        page.evaluate(_ANSWER)
        button = root.locator("button[data-edit=head]")
        painted.append(_timed(page, "click", button.click, "sentence"))
        answered.append(page.evaluate("window.headlightAnswered"))
    return statistics.median(painted[1:]), statistics.median(answered[1:])


def _switches(page: Any, rounds: int) -> dict[str, list[Any]]:
    """What is clicked in turns, each time to something else than is shown."""
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


def _hover(page: Any, rounds: int) -> float:
    """The pointer goes from cell to cell of the map."""
    canvas = page.locator(f"{EXPLORER} canvas[data-role=map]")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    left, top, cell = canvas.evaluate("({dataset: d}) => [+d.left, +d.top, +d.cell]")
    y = max(box["y"] + top, 200)  # what is in sight below the line that stays at the top
    y += (box["y"] + top - y) % cell

    def place(number: int) -> tuple[float, float]:
        return box["x"] + left + (number + 0.5) * cell, y + (2 * number + 0.5) * cell

    page.mouse.move(*place(0))
    times = [
        _timed(page, "pointermove", lambda at=place(i): page.mouse.move(*at))
        for i in range(1, min(rounds, 25) + 1)
    ]
    return statistics.median(times)


def _row(
    what: str,
    shape: str,
    length: int,
    value: float,
    unit: str = "ms",
    contestant: str = "headlight",
) -> dict[str, Any]:
    return Cell(what, shape, 1, 5, length).row(contestant, value, unit)


@contextmanager
def serve(script: Path) -> Generator[str]:
    """A Streamlit server of its own for one script; yields its address once it is healthy."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port)]
    command += ["--server.headless", "true"]
    server = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{url}/_stcore/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield url
    finally:
        server.terminate()
        server.wait(timeout=10)


def _chromium() -> str:
    path = os.environ.get("CHROME_BIN") or shutil.which("chromium") or shutil.which("google-chrome")
    if not path:
        raise ValueError("no Chromium found: install it, or set CHROME_BIN to its path")
    return path


_SIZE: Any = {"width": 1440, "height": 900}
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]

BENCHMARKS = {
    "page": (page_rows, ("streamlit", "playwright")),
    "growth": (growth_rows, ("streamlit", "playwright")),
}
