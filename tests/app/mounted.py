"""Mounts the explorer in an empty page, without a server, and reads all its texts and attributes.

One page mounts many explorers in turn. The scripts are loaded once, and reading a state takes a
single call to the browser.
"""

# ruff: noqa: E501 (lines of script)

from __future__ import annotations

import base64
import json
import re
from typing import Any

from playwright.sync_api import Page

from app.components.explorer.markup import markup
from app.components.explorer.payload import pack
from tests.app.drawn import as_json

ADDRESS = "http://explorer.test/"
_DRIVER = """
window.requests = [];
window.saved = [];
window.mounted = null;
URL.createObjectURL = (blob) => { window.saved.push(blob); return "#saved"; };
window.mount = (text, key, again) => {
  const host = document.querySelector("#host");
  if (!again) {
    window.mounted?.();
    window.requests.length = window.saved.length = 0;
    host.replaceChildren();
    const inner = document.createElement("div");
    inner.innerHTML = document.querySelector("#markup").innerHTML;
    host.append(inner);
  }
  const page = {
    answers: new Set(["quantity", "exact", "effects", "page", "edit", "lens"]),
    ask: (name, value) => window.requests.push([name, value]),
    listen: (receive) => ((window.passAnswer = receive), () => {}),
    link: { read: () => ({}), write: () => {}, listen: (navigate) => ((window.navigate = navigate), () => {}), url: () => location.href },
    get headPage() { return window.headPage ?? null; },
  };
  window.mounted = render({ data: fromBase64(text), parentElement: host.firstChild, key, host: page });
  if (again) return;
  for (const fold of root().querySelectorAll("details")) fold.open = true;
  for (const box of root().querySelectorAll("[data-part=means], [data-part=bars]")) if (!box.checked) box.click();
};
window.fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
window.root = () => document.querySelector("#host section.explorer");
window.act = ([what, ...more]) => {
  const of = (selector) => root().querySelector(selector);
  if (what === "press") of(more[0]).click();
  if (what === "set") {
    const [selector, value, event] = more;
    of(selector).value = value;
    of(selector).dispatchEvent(new Event(event ?? "change", { bubbles: true }));
  }
  if (what === "key") root().dispatchEvent(new KeyboardEvent("keydown", { key: more[0], bubbles: true }));
  if (what === "cell" || what === "over") {
    const map = of("[data-part=map]");
    const { left, top, cell } = map.dataset;
    const box = map.getBoundingClientRect();
    const [query, key] = more;
    const at = {
      clientX: box.left + Number(left) + (key + 0.5) * cell,
      clientY: box.top + Number(top) + (query + 0.5) * cell,
      bubbles: true,
    };
    map.dispatchEvent(what === "cell" ? new MouseEvent("click", at) : new PointerEvent("pointermove", at));
  }
  if (what === "back") navigate();
  if (what === "leave") of("[data-part=map]").dispatchEvent(new PointerEvent("pointerleave"));
};
window.state = () => {
  const of = (selector) => root().querySelector(selector).textContent;
  const all = (selector) => [...root().querySelectorAll(selector)];
  const token = (button) => ({
    label: button.getAttribute("aria-label"), form: button.querySelector(".form").textContent,
    number: button.querySelector("sub")?.textContent ?? "", title: button.title,
    ground: button.style.background, ink: button.style.color, looks: button.className,
    pressed: button.getAttribute("aria-pressed"), bar: button.querySelector("i")?.style.width ?? "",
  });
  return {
    data: { ...root().dataset },
    parts: Object.fromEntries(all("[data-part]").map((part) => [part.dataset.part, part.textContent])),
    titles: Object.fromEntries(all("[data-part]").map((part) => [part.dataset.part, part.title])),
    hidden: all("[data-part]").filter((part) => part.hidden).map((part) => part.dataset.part),
    source: all(".source .token").map(token),
    target: all(".target .token").map(token),
    heads: all(".thumbnail:not(.missing)").map((at) => [Number(at.dataset.l), Number(at.dataset.h), at.ariaLabel]),
    statistics: all(".statistic:not(.missing)").map((row) => [...row.children].map((part) => part.textContent)),
    steps: all(".alternative").map((item) => ({
      form: item.children[0].textContent, chance: item.children[1].textContent, title: item.title,
      bar: item.querySelector("i").style.width, written: item.classList.contains("written"),
    })),
    buttons: all("[data-edit]").filter((at) => at.localName === "button")
      .map((at) => [at.dataset.edit, at.textContent, at.disabled]),
    changes: all("[data-part=edit-tokens] li").map((at) => [at.textContent, at.style.background]),
    edits: all("[data-part=edits] li").map((at) => at.textContent),
    first: of("[data-part=readout-first]"), second: of("[data-part=readout-second]"), note: `${of("[data-part=axis-note]")} ${of("[data-part=number-note]")}`,
    order: all(".order-label:not(.missing) > *").filter((at) => !at.hidden).map((at) => at.textContent),
  };
};
"""
_SPACES = re.compile("[\u00a0\u2002\u202f ]+")


def plain(text: str) -> str:
    """Remove bidi isolates and normalise spaces."""
    return _SPACES.sub(" ", re.sub("[\u2068\u2069]", "", text)).strip()


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


class Mounted:
    """An explorer in a page, driven by its own controls and read as text."""

    def __init__(self, page: Page) -> None:
        files = markup()
        html = (
            "<!doctype html><meta charset=utf-8><style>body { margin: 0; } #host { width: 980px; "
            f"--st-background-color: #ffffff; }} {files.css}</style>"
            f"<template id=markup>{files.html}</template><div id=host></div>"
            f"<script>{files.script}\n{_DRIVER}</script>"
        )
        self.page = page
        self.count = 0
        page.route(f"{ADDRESS}**", lambda route: route.fulfill(body=html, content_type="text/html"))
        page.goto(ADDRESS)

    def show(self, payload: dict[str, Any], again: bool = False) -> None:
        """Mount a payload, with all folds open and all options on.

        With `again`, update the mounted explorer, as Streamlit would.
        """
        self.count += not again  # a new key has no remembered view
        text = base64.b64encode(pack(payload)).decode()
        self.page.evaluate("(all) => mount(...all)", [text, f"explorer{self.count}", again])

    def answer(self, answer: dict[str, Any]) -> None:
        """Pass an answer to the mounted explorer."""
        text = base64.b64encode(pack(answer)).decode()
        self.page.evaluate("(text) => passAnswer(fromBase64(text))", text)

    def does(self, *acts: tuple) -> dict[str, Any]:
        """Perform these actions in order and return the resulting state."""
        self.page.evaluate("(acts) => acts.forEach(act)", [list(act) for act in acts])
        return _plain(json.loads(self.page.evaluate(as_json("state()"))))

    def requests(self) -> list[list[Any]]:
        """Return the requests to the host since the explorer was mounted."""
        return self.page.evaluate("requests")

    def edits(self) -> list[str]:
        """Return the commands of edits requested since the explorer was mounted."""
        return [value["command"] for name, value in self.requests() if name == "edit"]

    def saves(self, name: str) -> str:
        """Return the content of the file that a button saves."""
        return self.page.evaluate(
            """async (name) => {
                saved.length = 0;
                root().querySelector(`[data-export=${name}]`).click();
                await new Promise((done) => setTimeout(done));
                return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await saved[0].arrayBuffer());
            }""",
            name,
        )
