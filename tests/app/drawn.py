"""Reads the commands that a page's canvases have drawn: texts, rectangles, lines and pixels.

A test compares them with values that it computes itself, as it would compare a saved SVG.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import JSHandle, Locator, Page

from app.components.assets import joined, palette, read
from app.look.palette import PALETTES

RECORDER = Path(__file__).with_name("canvas_commands.js").read_text(encoding="utf-8")
"""A script that has to run before those of the page: see `record`."""

Colour = tuple[int, int, int]


def as_json(expression: str) -> str:
    """Return a script of an expression as JSON: Playwright's own encoding of values is slow."""
    return f"JSON.stringify({expression}, (_, value) => value ?? null)"


def record(page: Page) -> None:
    """Record the canvases of all documents that the page opens from now on."""
    page.add_init_script(RECORDER)


def colour(text: str) -> Colour:
    """Return the red, green and blue of a CSS colour: `#rrggbb`, `rgb(…)` or `rgba(…)`."""
    if text.startswith("#"):
        red, green, blue = (int(text[at : at + 2], 16) for at in (1, 3, 5))
        return red, green, blue
    red, green, blue = (int(float(part)) for part in re.findall(r"[\d.]+", text)[:3])
    return red, green, blue


@dataclass(frozen=True)
class Mark:
    """One command; positions and sizes in CSS px of the canvas, y downwards.

    `what` is "fill" or "frame" (a rectangle), "line" or "area" (a path), "text", or "pixels".
    """

    what: str
    x: float
    y: float
    width: float
    height: float
    fill: Colour
    stroke: Colour
    thickness: float
    alpha: float
    dash: tuple[float, ...]
    clip: tuple[float, float, float, float] | None
    """Left, top, width and height of the innermost clip."""
    lines: tuple[tuple[tuple[float, float], ...], ...] = ()
    """The subpaths of a line or an area, as points; a curve gives its control points."""
    words: str = ""
    turn: float = 0.0
    align: str = "left"
    font: str = ""
    """Weight as a number, size and family: "650 12px system-ui"."""
    pixels: NDArray[np.uint8] | None = None
    """Red, green, blue and opacity, [row, column, 4]."""

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2


def marks_of(canvas: Locator | JSHandle, what: str = "") -> list[Mark]:
    """Return what a canvas shows, or its marks of one sort, first drawn first.

    Bidi isolates are removed from texts.
    """
    script = f"""(canvas, what) =>
        {as_json("drawnOn(canvas).filter((one) => !what || one.what === what)")}"""
    return [_mark(raw) for raw in json.loads(canvas.evaluate(script, what))]


def texts(marks: list[Mark]) -> list[str]:
    """Return the texts, in the order drawn."""
    return [mark.words for mark in marks if mark.what == "text"]


COMPONENTS = Path(__file__).resolve().parents[2] / "app/components"


def drawn_component(
    page: Page, name: str, root: str, data: Any, theme: str = "light", entry: str = "main.js"
) -> Callable[[str, str], list[Any]]:
    """Mount a component in an empty page, without a server; `root` is its root's selector.

    `data` is JSON or packed bytes; `again` takes an update. `window.sent` gets what the component
    reports, and `window.saved` its files. Return `drawn(selector, script)`: what the script says of
    each element `at`, in order.
    """
    folder = COMPONENTS / name
    colours = PALETTES[theme]
    page.set_content(
        "<!doctype html><meta charset=utf-8>"
        f"<style>:root {{ --st-background-color: {colours.page}; --st-text-color: {colours.ink}; }}"
        f"{palette(root)}{read(folder / f'{name}.css')}</style>"
        f"<main>{read(folder / f'{name}.html')}</main>"
    )
    is_bytes = isinstance(data, bytes)
    page.evaluate(
        f"""([data, isBytes]) => {{
          {joined(folder / entry)}
          Object.assign(window, {{ sent: [], saved: [] }});
          URL.createObjectURL = (blob) => {{ saved.push(blob); return "#saved"; }};
          if (isBytes) data = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
          const send = (...told) => sent.push(told);
          const told = {{ key: "it", setStateValue: send, setTriggerValue: send }};
          const parentElement = document.querySelector("main");
          window.again = (data) => render({{ data, parentElement, ...told }});
          again(data);
        }}""",
        [b64encode(data).decode() if is_bytes else data, is_bytes],
    )
    return lambda selector, script: json.loads(
        page.locator(f"{root} {selector}").evaluate_all(
            f"(all) => {as_json(f'all.map((at) => {script})')}"
        )
    )


def _mark(raw: dict[str, Any]) -> Mark:
    box, pixels = raw["clip"], None
    if raw["what"] == "pixels":
        pixels = np.array(raw["pixels"], np.uint8).reshape(raw["rows"], raw["columns"], 4)
    return Mark(
        **{name: raw[name] for name in ("what", "x", "y", "width", "height")},
        thickness=round(raw["thickness"], 4),  # browsers keep 32 bits
        alpha=round(raw["alpha"], 4),
        fill=colour(raw["fill"]),
        stroke=colour(raw["stroke"]),
        dash=tuple(round(part, 6) for part in raw["dash"]),  # rotation rounds
        clip=box and (box["x"], box["y"], box["width"], box["height"]),
        lines=tuple(tuple((x, y) for x, y in line) for line in raw["lines"]),
        words=re.sub("[\u2066-\u2069]", "", raw.get("words", "")),
        turn=raw.get("turn", 0.0),
        align=raw.get("align", "left"),
        font=_with_weight(raw.get("font", "")),
        pixels=pixels,
    )


def _with_weight(font: str) -> str:
    """Return a font as it was set: browsers leave out the weight 400 and call 700 bold."""
    font = re.sub("^bold ", "700 ", font)
    return font if not font or re.match(r"\d+ ", font) else f"400 {font}"
