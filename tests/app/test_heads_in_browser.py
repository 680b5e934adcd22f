"""The page Heads in a browser: links, Back and reload, and a quoted sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from core.atlas.atlas import FILE, Atlas
from tests.app.test_heads_atlas import query_of
from tests.app.test_navigation import expect_query, settled

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "app/main.py"
SHIPPED = ROOT / "checkpoints/scratch-de-en" / FILE


def shown(page: Page) -> Locator:
    root = page.locator(".st-key-heads_atlas .atlas")
    expect(root).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=60_000)
    return root


def test_a_head_has_a_url_that_survives_reload_and_back(local_page: Page, serve) -> None:
    url = serve(MAIN)
    local_page.goto(f"{url}/heads?head=cross.0.0&measure=entropy&y=largest")
    root = shown(local_page)
    root.locator("[data-part=next]").click()
    expect_query(local_page, head="cross.0.1", measure="entropy", y="largest", x=None)
    local_page.reload()
    root = shown(local_page)
    for name, value in (("head", "cross.0.1"), ("measure", "entropy"), ("y", "largest")):
        expect(root).to_have_attribute(f"data-{name}", value)
    # A quoted sentence opens in the explorer at its cell.
    root.locator("[data-card=examples] > summary").click()
    link = root.locator(".examples a").first
    query = query_of(link.get_attribute("href") or "")
    link.click()
    local_page.mouse.move(0, 0)  # a word under the pointer would be previewed
    explorer = local_page.locator("section[aria-label='Attention explorer']")
    expect(explorer).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=60_000)
    for name, parameter in (("kind", "kind"), ("layer", "layer"), ("head", "head"),
                            ("query", "q"), ("key", "k")):  # fmt: skip
        expect(explorer).to_have_attribute(f"data-{name}", query[parameter])
    expect(local_page.locator(".st-key-source textarea")).to_have_value(query["source"])
    settled(local_page)
    local_page.go_back()
    expect(shown(local_page)).to_have_attribute("data-head", "cross.0.1")


def test_the_page_fits_a_phone_and_the_theme_changes_the_pictures(local_page: Page, serve) -> None:
    local_page.set_viewport_size({"width": 390, "height": 800})
    local_page.goto(f"{serve(MAIN)}/heads")
    root = shown(local_page)
    assert root.evaluate("root => root.scrollWidth <= root.clientWidth")
    assert local_page.evaluate("document.documentElement.scrollWidth") <= 390
    pixels = "root => root.querySelector('[data-part=heads]').toDataURL()"
    light = root.evaluate(pixels)
    local_page.emulate_media(color_scheme="dark")
    expect(root).to_have_attribute("data-theme", "dark")
    assert root.evaluate(pixels) != light


def test_the_shipped_file_belongs_to_its_weights() -> None:
    config = json.loads((SHIPPED.parent / "config.json").read_text("utf-8"))
    weights = config["files"]["model.safetensors"]["sha256"]
    assert Atlas.load(SHIPPED).origin.weights_sha256 == weights
