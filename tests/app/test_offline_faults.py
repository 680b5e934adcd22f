"""Faults of the offline page: workers that end, and files that are cut off or changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from app.export import offline
from app.export.page import page as saved_page
from core.translator import Translator
from tests.app.conftest import opened_offline
from tests.app.test_offline_page import explorer, part, shown, translate

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [ROOT / f"checkpoints/captions-{direction}" for direction in ("de-en", "en-de")]
END = "() => setTimeout(() => self.close())"
LOADING = "the file is incomplete or damaged"
TEXTS = ("Ein Hund läuft durch den Schnee.", "Zwei Kinder spielen im Garten.", "Ein Mann schläft.")


@pytest.fixture(scope="module")
def content() -> str:
    return offline.page([offline.network(folder) for folder in FOLDERS])


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    translator = Translator.load(FOLDERS[0], "cpu")
    return {text: translator.translate(text, beam=5).text for text in TEXTS}


@pytest.fixture
def page(offline_context: BrowserContext, content: str, tmp_path: Path) -> Iterator[Page]:
    file = tmp_path / "page.html"
    file.write_text(content, encoding="utf-8")
    with opened_offline(offline_context, file.as_uri(), file.as_uri()) as page:
        shown(page)
        yield page


def end_worker(page: Page) -> None:
    """End the newest worker, and wait until it is gone."""
    worker = page.workers[-1]
    with worker.expect_event("close") if hasattr(worker, "expect_event") else _nothing():
        worker.evaluate(END)


def translated(page: Page, text: str, expected: dict[str, str]) -> None:
    translate(page, text)
    expect(part(page, "translation")).to_have_text(expected[text], timeout=30_000)
    expect(part(page, "problem")).to_be_empty()
    expect(explorer(page)).to_be_visible()
