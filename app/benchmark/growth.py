"""Measure sending, painting and switching a sentence's maps, by their number and size."""

import statistics
from collections.abc import Iterator
from typing import Any

from app.benchmark.browser import (
    EXPLORER,
    FLAGS,
    HARNESS,
    SIZE,
    chromium,
    count_bytes,
    hover,
    row,
    serve,
    timed,
    wait_for_explorer,
)
from core.benchmarks.options import Missing
from core.benchmarks.scale import exponent

_LONGER = tuple((4, 4, tokens) for tokens in (32, 64, 128, 256, 512))
_MORE_HEADS = tuple((layers, heads, 60) for layers, heads in ((4, 4), (4, 8), (6, 8), (12, 16)))


def growth_rows(rounds: int) -> Iterator[dict[str, Any] | Missing]:
    """Yield a row for each measurement, then the exponent of its growth with the number of tokens.

    Yields Missing for a size that timed out. An exponent of 2 means that doubling the
    tokens quadruples the value.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, serve(HARNESS) as url:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
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
        browser.close()


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
