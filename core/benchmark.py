"""Measure how fast the page answers, in a real headless browser.

    python -m core.benchmark page [--rounds N] [--json FILE]

Needs Chromium (on the path, or CHROME_BIN). Times are medians of N rounds, in milliseconds, from
the click to the frame after the explorer has painted.
"""

import argparse
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.command import main, write_result

ROOT = Path(__file__).resolve().parents[1]
EXPLORER = "section[aria-label='Attention explorer']"
SENTENCES = (  # 13 pieces each for the shipped model, <eos> included
    "Ein kleines Mädchen in einem rosa Kleid spielt allein im Garten.",
    "Drei Männer in blauen Hemden stehen vor einem Haus und lachen.",
)
# Resolves with the milliseconds between the next click and the frame after `attribute` changed.
_STOPWATCH = """(root, attribute) => {
  window.headlightClick = null;
  document.addEventListener(
    'click', () => { window.headlightClick = performance.now(); }, { capture: true, once: true });
  window.headlightPainted = new Promise((resolve) => {
    const before = root.dataset[attribute];
    const observer = new MutationObserver(() => {
      if (root.dataset[attribute] === before) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(
        () => resolve(performance.now() - window.headlightClick)));
    });
    observer.observe(root, { attributes: true });
  });
}"""


def run(arguments: argparse.Namespace) -> None:
    """Serve, measure, print, and write the JSON."""
    rows = list(page_rows(arguments.rounds))
    for row in rows:
        print(f"{row['what']:<46} {row['shape']:<26} {row['value']:>8.1f} {row['unit']}")  # noqa: T201
    write_result(arguments.json, {"machine": machine(), "versions": versions(), "rows": rows})


def page_rows(rounds: int) -> Iterator[dict[str, Any]]:
    """One row a measurement; there is no baseline to compare with, so `ratio` is None."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=_FLAGS)
        started = time.perf_counter()
        with serve(ROOT / "app/main.py") as url:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(url)
            page.locator(".st-key-source textarea").wait_for()
            shell = 1000 * (time.perf_counter() - started)
            root = page.locator(EXPLORER)
            root.and_(page.locator("[data-painted]")).wait_for(timeout=60_000)
            first = 1000 * (time.perf_counter() - started)
            yield _row("start to page shell", "app", 1, shell)
            yield _row("start to first sentence painted", "app", 1, first)
            yield _row(
                "new sentence to painted", "shipped model, 13 pieces", 13, _sentences(page, rounds)
            )
            page.close()
        with serve(ROOT / "tests/app/explorer_harness.py") as url:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(f"{url}/?case=long&layers=6&heads=8&decoder_layers=6")
            page.locator(EXPLORER).and_(page.locator("[data-painted]")).wait_for(timeout=60_000)
            shape = "6 layers × 8 heads, 60×60"
            yield _row("layer or head to painted", shape, 60, _heads(page, rounds))
            yield _row("kind to painted", shape, 60, _kinds(page, rounds))
        browser.close()


def _timed_click(page: Any, target: Any, attribute: str) -> float:
    page.locator(EXPLORER).evaluate(_STOPWATCH, attribute)
    target.click()
    return page.evaluate("window.headlightPainted")


def _sentences(page: Any, rounds: int) -> float:
    """Two sentences in turns, each round typed with more spaces, so that no cache answers."""
    times = []
    for number in range(rounds + 1):
        text = SENTENCES[number % 2].replace(" ", " " * (1 + number), 1)
        page.locator(".st-key-source textarea").fill(text)
        times.append(_timed_click(page, page.locator(".st-key-translate button"), "sentence"))
    return statistics.median(times[1:])


def _heads(page: Any, rounds: int) -> float:
    root, times = page.locator(EXPLORER), []
    for number in range(rounds):
        layer, head = (number + 3) % 6, (5 * number + 2) % 8
        thumbnail = root.locator(f".thumbnail[data-l='{layer}'][data-h='{head}']")
        times.append(_timed_click(page, thumbnail, "painted"))
    return statistics.median(times)


def _kinds(page: Any, rounds: int) -> float:
    root, times = page.locator(EXPLORER), []
    for number in range(rounds):
        kind = ("encoder", "decoder", "cross")[number % 3]
        button = root.locator(f"[data-kind-option={kind}]")
        times.append(_timed_click(page, button, "painted"))
    return statistics.median(times)


def _row(what: str, shape: str, length: int, value: float) -> dict[str, Any]:
    return {
        "what": what,
        "contestant": "headlight",
        "shape": shape,
        "batch": 1,
        "beam": 5,
        "length": length,
        "value": round(value, 1),
        "unit": "ms",
        "ratio": None,
    }


@contextmanager
def serve(script: Path) -> Iterator[str]:
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


def machine() -> str:
    """The processor's name and the number of cores."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores"


def versions() -> dict[str, str]:
    """The versions that matter for these figures."""
    from importlib.metadata import version

    return {name: version(name) for name in ("torch", "streamlit", "playwright")}


def _chromium() -> str:
    found = (
        os.environ.get("CHROME_BIN") or shutil.which("chromium") or shutil.which("google-chrome")
    )
    if not found:
        raise ValueError("no Chromium found: install it, or set CHROME_BIN to its path")
    return found


_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m core.benchmark", description=__doc__)
    p.add_argument("what", choices=("page",))
    p.add_argument("--rounds", type=int, default=21)
    p.add_argument("--json", type=Path, help="write the rows here")
    return p


if __name__ == "__main__":
    main(parser(), run)
