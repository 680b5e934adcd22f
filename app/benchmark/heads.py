"""Measure the page Heads: from opening it or choosing a head to the painted frame."""

import statistics
from collections.abc import Iterator
from typing import Any

from app.benchmark.browser import row

_OPEN = """() => new Promise((resolve) => {
  const start = performance.now();
  const painted = () => [...document.querySelectorAll(".st-key-heads_atlas *")]
    .some((at) => at.shadowRoot?.querySelector(".atlas[data-painted]"));
  const look = () => (painted() ? resolve(performance.now() - start) : requestAnimationFrame(look));
  const links = [...document.querySelectorAll("[data-testid=stSidebarNav] a")];
  links.find((link) => link.textContent.trim() === "Heads").click();
  look();
})"""
_NEXT = """async (root) => {
  const start = performance.now();
  root.querySelector("[data-part=next]").click();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - start;
}"""


def heads_rows(page: Any, rounds: int) -> Iterator[dict[str, Any]]:
    """Yield the median times; the first round, which reads the atlas from its file, is left out."""
    root = page.locator(".st-key-heads_atlas .atlas[data-painted]")
    opened, switched = [], []
    for _ in range(1 + rounds):
        page.locator("[data-testid=stSidebarNav] a", has_text="Masks").dispatch_event("click")
        page.get_by_role("heading", name="Masks", exact=True).wait_for()
        page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
        opened.append(page.evaluate(_OPEN))
        root.wait_for()
        page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
        switched.append(root.evaluate(_NEXT))
    yield row("Heads opened to painted", "shipped atlas", 1, statistics.median(opened[1:]))
    yield row("another head to painted", "shipped atlas", 1, statistics.median(switched[1:]))
