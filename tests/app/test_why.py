"""Ask why in a browser: a link opens a word choice, and the ribbons' labels do not overlap."""

from urllib.parse import quote

from playwright.sync_api import Page, expect

from tests.app.page_checks import ROOT

LINK = f"source={quote('Zwei Männer spielen Fußball.')}&search=greedy&lesson=0&why_step=2"


def test_labels_of_ribbons_do_not_overlap(local_page: Page, serve) -> None:
    local_page.goto(f"{serve(ROOT / 'app/main.py')}/why?{LINK}")
    local_page.get_by_text("How the terms are computed, and").click(timeout=120_000)
    labels = local_page.locator(".st-key-why_ribbons .node-label")
    expect(labels.nth(10)).to_be_attached(timeout=120_000)
    expect(local_page.locator("[data-testid=stException]")).to_have_count(0)
    boxes = labels.evaluate_all("all => all.map((one) => one.getBoundingClientRect().toJSON())")
    for n, one in enumerate(boxes):
        for other in boxes[n + 1 :]:
            apart = one["right"] <= other["left"] or other["right"] <= one["left"]
            assert apart or abs(one["top"] - other["top"]) >= 13, (one, other)
