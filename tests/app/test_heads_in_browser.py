"""The page Heads in a browser: links, Back and reload, and a quoted sentence."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page, expect

from core.atlas.atlas import FILE, Atlas
from tests.app.test_navigation import expect_query, settled

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "app/main.py"
SHIPPED = ROOT / "checkpoints/scratch-de-en" / FILE


def shown(page: Page, key: str = "heads_atlas") -> Locator:
    root = page.locator(f".st-key-{key} .atlas")
    expect(root).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=60_000)
    return root


def test_a_head_has_a_url_that_survives_reload_and_back(local_page: Page, serve) -> None:
    url = serve(MAIN)
    local_page.goto(f"{url}/heads?head=cross.1.2&measure=entropy&y=largest")
    root = shown(local_page)
    expect(root).to_have_attribute("data-head", "cross.1.2")
    root.locator("[data-part=next]").click()
    expect_query(local_page, head="cross.1.3", measure="entropy", y="largest", x=None)
    local_page.reload()
    root = shown(local_page)
    for name, value in (("head", "cross.1.3"), ("measure", "entropy"), ("y", "largest")):
        expect(root).to_have_attribute(f"data-{name}", value)
    settled(local_page)
    local_page.locator("[data-testid=stSidebarNav]").get_by_role("link", name="Masks").click()
    expect(local_page.get_by_role("heading", name="Masks", exact=True)).to_be_visible()
    settled(local_page)
    local_page.go_back()
    expect(shown(local_page)).to_have_attribute("data-head", "cross.1.3")


def test_a_quoted_sentence_opens_in_the_explorer_at_its_cell(local_page: Page, serve) -> None:
    local_page.goto(f"{serve(MAIN)}/heads?head=cross.0.1")
    link = shown(local_page).locator(".examples a").first
    query = {
        name: values[0]
        for name, values in parse_qs(urlsplit(link.get_attribute("href") or "").query).items()
    }
    link.click()
    local_page.mouse.move(0, 0)  # a word under the pointer would be previewed
    root = local_page.locator("section[aria-label='Attention explorer']")
    expect(root).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=60_000)
    for name, parameter in (("kind", "kind"), ("layer", "layer"), ("head", "head"),
                            ("query", "q"), ("key", "k")):  # fmt: skip
        expect(root).to_have_attribute(f"data-{name}", query[parameter])
    expect(local_page.locator(".st-key-source textarea")).to_have_value(query["source"])
    settled(local_page)
    local_page.go_back()
    expect(shown(local_page)).to_have_attribute("data-head", "cross.0.1")


def test_the_theme_changes_the_pictures(local_page: Page, serve) -> None:
    local_page.goto(f"{serve(MAIN)}/heads")
    root = shown(local_page)
    pixels = "root => root.querySelector('[data-part=heads]').toDataURL()"
    light = root.evaluate(pixels)
    local_page.emulate_media(color_scheme="dark")
    expect(root).to_have_attribute("data-theme", "dark")
    assert root.evaluate(pixels) != light


def test_the_page_fits_a_phone(local_page: Page, serve) -> None:
    local_page.set_viewport_size({"width": 390, "height": 800})
    local_page.goto(f"{serve(MAIN)}/heads")
    root = shown(local_page)
    assert root.evaluate("root => root.scrollWidth <= root.clientWidth")
    assert local_page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_shipped_file_belongs_to_its_weights() -> None:
    import json

    config = json.loads((SHIPPED.parent / "config.json").read_text("utf-8"))
    weights = config["files"]["model.safetensors"]["sha256"]
    assert Atlas.load(SHIPPED).origin.weights_sha256 == weights
