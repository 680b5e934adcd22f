"""Ask why in a browser: every section opens, and the ribbons' labels do not overlap."""

from urllib.parse import quote

from playwright.sync_api import Page, expect

from tests.app.page_checks import ROOT

SENTENCE = "Zwei Männer spielen Fußball."
SECTIONS = {
    "open_pairs": "why_pairs_map",
    "open_choice": "why_tried",
    "open_lens": "why_lens",
    "open_decoder_lens": "why_decoder_lens",
    "open_sources": "why_agreement",
}


def wait_for_the_run(page: Page) -> None:
    page.wait_for_timeout(200)
    expect(page.locator("[data-testid=stApp]")).not_to_have_attribute(
        "data-test-script-state", "running", timeout=120_000
    )


def test_every_section_opens(local_page: Page, serve) -> None:
    address = f"source={quote(SENTENCE)}&direction=de-en&model=scratch&search=greedy&lesson=0"
    local_page.goto(f"{serve(ROOT / 'app/main.py')}/why?{address}")
    expect(local_page.locator(".st-key-why_matters")).to_be_visible(timeout=60_000)
    for key, content in SECTIONS.items():
        fold = local_page.locator(f".st-key-{key} details").first
        expect(fold).to_be_visible(timeout=60_000)
        wait_for_the_run(local_page)
        if fold.get_attribute("open") is None:  # a quick section opens automatically
            fold.locator("summary").first.click()
        expect(local_page.locator(f".st-key-{content}").first).to_be_visible(timeout=120_000)
        wait_for_the_run(local_page)
    expect(local_page.locator("[data-testid=stException]")).to_have_count(0)
    labels = local_page.locator(".st-key-why_ribbons .node-label")
    expect(labels.nth(10)).to_be_attached()
    boxes = labels.evaluate_all("all => all.map((one) => one.getBoundingClientRect().toJSON())")
    for n, one in enumerate(boxes):
        for other in boxes[n + 1 :]:
            apart = one["right"] <= other["left"] or other["right"] <= one["left"]
            assert apart or abs(one["top"] - other["top"]) >= 13, (one, other)
