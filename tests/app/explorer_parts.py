"""Opens what the explorer's first screen keeps closed: its folds and the panel of options."""

from playwright.sync_api import Locator


def open_folds(root: Locator) -> None:
    """Open the explorer's folds: What if, the decoding steps, the head's numbers."""
    root.locator("details").evaluate_all("folds => folds.forEach(fold => { fold.open = true; })")


def choose(root: Locator, part: str, value: str) -> None:
    """Choose from a list of the options: `quantity` or `sort`."""
    options = root.locator("[data-part=options-button]")
    options.click()
    root.locator(f"[data-part={part}]").select_option(value)
    options.click()
