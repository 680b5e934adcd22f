"""A headless browser and a server to measure in: interactions and the time to paint."""

import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.benchmarks.contest import Cell

ROOT = Path(__file__).resolve().parents[2]
EXPLORER = "section[aria-label='Attention explorer']"
SENTENCES = (  # 13 tokens each, <eos> included
    "Ein kleines Mädchen in einem rosa Kleid spielt allein im Garten.",
    "Drei Männer in blauen Hemden stehen vor einem Haus und lachen.",
)
_WORDS = "Ein Mann und eine Frau gehen in einem Park Zwei".split()  # one token each
HARNESS = ROOT / "tests/app/explorer_harness.py"
SILENCE_MS = 60_000
"""How long an event may take until its measurement is given up."""
SHAPE = "6 layers × 8 heads"
SIZE: Any = {"width": 1440, "height": 900}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]


def until(condition: str, of: str = "root", changes: str = "attributes: true") -> str:
    """Return a script: the ms from `started` to the frame after `condition` has come true.

    The script is a promise. The condition is tried after each of the `changes` of the element `of`.
    """
    return f"""new Promise((resolve, reject) => {{
      setTimeout(() => reject(new Error("the page reported nothing")), {SILENCE_MS});
      const observer = new MutationObserver(() => {{
        if (!({condition})) return;
        observer.disconnect();
        requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - started)));
      }});
      observer.observe({of}, {{ {changes} }});
    }})"""


START = """let started = null;
  const start = () => { started = performance.now(); };"""
# Resolves with the milliseconds from the next event of a type to the end of the frame that shows
# its effect: the first frame after `attribute` of the explorer has changed.
_STOPWATCH = f"""(root, {{type, attribute}}) => {{
  {START}
  document.addEventListener(type, start, {{ capture: true, once: true }});
  const before = root.dataset[attribute];
  window.headlightPainted = {until("root.dataset[attribute] !== before && started !== null")};
}}"""


def wait_for_explorer(page: Any) -> None:
    page.locator(EXPLORER).and_(page.locator("[data-painted]")).wait_for(timeout=60_000)


def count_bytes(page: Any) -> list[int]:
    """Return a list that collects the sizes of all messages the page receives."""
    sizes: list[int] = []
    page.on(
        "websocket",
        lambda socket: socket.on("framereceived", lambda data: sizes.append(len(data))),
    )
    return sizes


def text_of(tokens: int, number: int) -> str:
    """Return a text of `tokens` tokens, <eos> included, unique for each number below 1,000.

    Unique texts bypass all caches, the server's and the browser's.
    """
    prefix = [_WORDS[int(digit)] for digit in f"{number:03}"]
    return " ".join([*prefix, *(_WORDS[i % 9] for i in range(3, tokens - 1))])


def timed(page: Any, event: str, act: Callable[[], None], attribute: str = "painted") -> float:
    """Return the ms from the event that `act` causes to the frame that shows its effect."""
    page.locator(EXPLORER).evaluate(_STOPWATCH, {"type": event, "attribute": attribute})
    act()
    return page.evaluate("window.headlightPainted")


def hover(page: Any, rounds: int) -> float:
    """Return the median ms from moving the pointer to another cell of the map to its highlight."""
    canvas = page.locator(f"{EXPLORER} canvas[data-role=map]")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    left, top, cell = canvas.evaluate("({dataset: d}) => [+d.left, +d.top, +d.cell]")
    y = max(box["y"] + top, 200)  # below the sticky header
    y += (box["y"] + top - y) % cell

    def position(number: int) -> tuple[float, float]:
        return box["x"] + left + (number + 0.5) * cell, y + (2 * number + 0.5) * cell

    page.mouse.move(*position(0))
    times = [
        timed(page, "pointermove", lambda at=position(i): page.mouse.move(*at))
        for i in range(1, min(rounds, 25) + 1)
    ]
    return statistics.median(times)


def row(
    what: str,
    shape: str,
    length: int,
    value: float,
    unit: str = "ms",
    contestant: str = "headlight",
) -> dict[str, Any]:
    return Cell(what, shape, 1, 5, length).row(contestant, value, unit)


def free_port() -> int:
    """Return a local port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_healthy(port: int, server: subprocess.Popen) -> None:
    """Wait until a server answers its health check; raise RuntimeError if it ends or takes 90 s."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the server did not become healthy")


@contextmanager
def running(
    command: list[str], port: int, folder: Path = ROOT, **options: Any
) -> Generator[subprocess.Popen]:
    """Run a server for the duration of the block, once it is healthy; `options` go to Popen."""
    server = subprocess.Popen(command, cwd=folder, **options)
    try:
        wait_until_healthy(port, server)
        yield server
    finally:
        server.terminate()
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()


@contextmanager
def headless() -> Generator[Any]:
    """Run a browser for the duration of the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def serve(script: Path) -> Generator[str]:
    """Run a Streamlit server for one script of any version; yield its URL once it is healthy."""
    if not script.is_file():  # the harness is not part of an installed package
        raise ValueError(f"{script} is missing: run the benchmark from the project's source folder")
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port)]
    command += ["--server.headless", "true"]
    folder = script.parents[1] if script.name == "main.py" else ROOT
    quiet = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    with running(command, port, folder, **quiet):
        yield f"http://127.0.0.1:{port}"


BROWSERS = ("chromium", "google-chrome", "chromium-headless-shell")


def chromium(browsers: Sequence[str] = BROWSERS) -> str:
    """Return the path of CHROME_BIN or of the first installed browser.

    Raises ValueError if there is none.
    """
    found = filter(None, map(shutil.which, browsers))
    path = os.environ.get("CHROME_BIN") or next(found, None)
    if not path:
        raise ValueError("no Chromium found: install it, or set CHROME_BIN to its path")
    return path
