"""Mounts questions in an empty page, without a server, and answers them as a student does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from app.components.assets import as_module, joined, palette, read
from app.components.question import Asked, payload

FOLDER = Path(__file__).resolve().parents[2] / "app/components/question"
_DRIVER = """
window.answers = [];
Object.assign(window, { hintsGiven, nextHint });
window.ask = (data, again) => {
  const host = document.querySelector("#host");
  if (!again) {
    host.replaceChildren(document.createElement("div"));
    host.firstChild.append(document.querySelector("#markup").content.cloneNode(true));
  }
  render({ data, parentElement: host.firstChild, setStateValue: (name, value) => answers.push([name, value]) });
};
window.reveal = () => ({
  data: { ...document.querySelector("section.question").dataset },
  lines: [...document.querySelectorAll(".reveal p")].map((line) => [line.className, line.textContent]),
  options: [...document.querySelectorAll(".option")].map((option) => ({
    label: option.querySelector(".label")?.textContent ?? "",
    name: option.getAttribute("aria-label"),
    state: option.dataset.state ?? "",
    value: option.querySelector(".value").textContent,
    mark: option.querySelector(".mark").textContent,
    masked: option.classList.contains("masked"),
    shade: option.style.getPropertyValue("--shade"),
  })),
});
"""  # noqa: E501 (lines of script)


def open_page(page: Page) -> None:
    """Load the component's markup, style and script once."""
    script = as_module(joined(FOLDER / "main.js")).replace("export default", "window.render =")
    page.set_content(
        f"<style>{palette('.question')}\n{read(FOLDER / 'question.css')}</style>"
        f"<template id='markup'>{read(FOLDER / 'question.html')}</template>"
        "<div id='host' style='width: 900px'></div>"
    )
    page.add_script_tag(content=f"{{ {script} {_DRIVER} }}")


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    open_page(page)
    yield page
    page.close()


def show(page: Page, asked: Asked | dict[str, Any], again: bool = False) -> dict[str, Any]:
    """Mount a question, or with `again` update the mounted one; return its payload."""
    data = payload(asked) if isinstance(asked, Asked) else asked
    page.evaluate("([data, again]) => ask(data, again)", [data, again])
    return data


def answer(page: Page, options: list[int], every: bool) -> dict[str, Any]:
    """Click options, then Check if `every`, and return the answer that the component reports."""
    page.evaluate(
        """([options, every]) => {
          const at = (index) => document.querySelector(`.option[data-option="${index}"]`);
          for (const index of options) at(index).click();
          if (every) document.querySelector("[data-part=check]").click();
        }""",
        [options, every],
    )
    return told(page)


def told(page: Page) -> dict[str, Any]:
    """Return the only answer that the component has reported since the last call."""
    ((name, value),) = page.evaluate("answers.splice(0)")
    assert name == "answered"
    return value


def revealed(page: Page) -> dict[str, Any]:
    """Return what the mounted question shows: its attributes, options and revealed lines."""
    return page.evaluate("reveal()")
