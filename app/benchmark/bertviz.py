"""BertViz's page of as many maps: its size, how long it is drawn, and another kind."""

import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.benchmark.browser import SHAPE, SIZE, row
from core.benchmarks.options import Missing

# Notes when the page last changed; a long task ends before the frame behind it.
_WATCH = """() => {
  window.lastChange = 0;
  addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
    requestAnimationFrame(() => setTimeout(() => { window.lastChange = performance.now(); }));
  }).observe(document.body, { childList: true, subtree: true, attributes: true }));
}"""


def rows(browser: Any, rounds: int) -> Iterator[dict[str, Any] | Missing]:
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
            page = browser.new_page(viewport=SIZE)
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
        yield row(what, shape, 60, value, unit, "bertviz")


def _settled(page: Any) -> float:
    """Milliseconds after the page's start at which it last changed, once it is still for 2 s."""
    page.wait_for_function("window.lastChange && performance.now() - window.lastChange > 2000")
    return page.evaluate("window.lastChange")
