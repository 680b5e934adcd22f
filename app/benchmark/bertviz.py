"""Measure BertViz's model view: its size, first paint, and switching the attention type."""

import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.benchmark.browser import SHAPE, SIZE, row
from core.benchmarks.contest import Missing

# Records the time of the page's last change, taken after the frame that shows it.
_WATCH = """() => {
  window.lastChange = 0;
  addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
    requestAnimationFrame(() => setTimeout(() => { window.lastChange = performance.now(); }));
  }).observe(document.body, { childList: true, subtree: true, attributes: true }));
}"""


def rows(browser: Any, rounds: int) -> Iterator[dict[str, Any] | Missing]:
    """Measure BertViz's page with 3 × 48 maps; yield Missing if it cannot be shown."""
    from playwright.sync_api import TimeoutError

    try:
        from core.benchmarks import bertviz

        html = bertviz.page(6, 8, 60)
    except ImportError as error:
        reason = f"{error.name} is not installed: pip install -e .[benchmark]"
        yield Missing("bertviz", reason)
        return
    shape = f"{SHAPE}, 60×60"
    paints, switches = [], []
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
                yield Missing(
                    "bertviz", "its scripts could not be loaded from cdnjs.cloudflare.com"
                )
                return
            paints.append(_settled(page))
            for kind in ("1", "2"):
                start = page.evaluate("performance.now()")
                page.locator("#filter").select_option(kind)
                switches.append(_settled(page) - start)
            page.close()
    for what, value, unit in (
        ("sent for a sentence", len(html.encode()) / 1e6, "MB"),
        ("start to maps painted", statistics.median(paints), "ms"),
        ("kind to painted", statistics.median(switches), "ms"),
    ):
        yield row(what, shape, 60, value, unit, "bertviz")


def _settled(page: Any) -> float:
    """Wait until the page has been unchanged for 2 s; return when it last changed, in ms."""
    page.wait_for_function("window.lastChange && performance.now() - window.lastChange > 2000")
    return page.evaluate("window.lastChange")
