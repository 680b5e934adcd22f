"""Mounts the app's test, the quiz, in an empty page, without a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from app.components.assets import joined, palette

FOLDER = Path(__file__).resolve().parents[2] / "app/components/quiz"
ADDRESS = "http://127.0.0.1/the-test"


def open_quiz(page: Page, data: dict[str, Any]) -> None:
    """Open the test; a second call opens it again with the state that the browser kept."""
    script = (
        f"{joined(FOLDER / 'main.js')}\n"
        "window.saved = [];\n"
        'URL.createObjectURL = (blob) => { window.saved.push(blob); return "#saved"; };\n'
        f"render({{ data: {json.dumps(data)}, parentElement: document.body }});"
    )
    body = (
        f"<!doctype html><meta charset=utf-8><style>{palette('.quiz')}"
        f"{(FOLDER / 'quiz.css').read_text(encoding='utf-8')}</style>"
        f"{(FOLDER / 'quiz.html').read_text(encoding='utf-8')}"
        f'<script type="module">{script}</script>'
    )
    page.route(ADDRESS, lambda route: route.fulfill(body=body, content_type="text/html"))
    if not page.url.startswith(ADDRESS):  # clear the answers that earlier pages left
        page.route(f"{ADDRESS}-empty", lambda route: route.fulfill(body=""))
        page.goto(f"{ADDRESS}-empty")
        page.evaluate("localStorage.clear()")
    page.goto(ADDRESS)
    page.wait_for_selector(".quiz[data-form]")


def saved(page: Page) -> str:
    """Return the file that was saved last."""
    return page.evaluate("window.saved.at(-1).text()").removeprefix("\ufeff")
