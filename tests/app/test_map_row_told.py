"""What a row of maps says: heading, notes, readout and files, compared with its arrays."""

from __future__ import annotations

import base64
import csv
import io
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from app.components.assets import joined, palette, read
from app.components.explorer.payload import pack
from app.components.map_row.payload import MapRow, payload
from tests.app.map_row_harness import scores_row, weights_row
from tests.app.mounted import plain

FOLDER = Path(__file__).parents[2] / "app/components/map_row"
SCRIPT = f"""([text, acts]) => {{
{joined(FOLDER / "main.js")}
  const saved = [];
  URL.createObjectURL = (blob) => {{ saved.push(blob); return "#saved"; }};
  render({{
    data: Uint8Array.from(atob(text), (character) => character.charCodeAt(0)),
    parentElement: document.body, key: "row",
  }});
  const root = document.querySelector(".map-row");
  for (const [name, ...more] of acts) {{
    if (name === "choose") root.querySelector(`[name=${{more[0]}}][value="${{more[1]}}"]`).click();
    if (name === "over") {{
      const canvas = root.querySelector("canvas");
      const {{ left, top, cell }} = canvas.dataset;
      const box = canvas.getBoundingClientRect();
      canvas.dispatchEvent(new PointerEvent("pointermove", {{
        clientX: box.left + Number(left) + (more[1] + 0.5) * cell,
        clientY: box.top + Number(top) + (more[0] + 0.5) * cell, bubbles: true,
      }}));
    }}
  }}
  for (const ending of ["csv", "svg"]) root.querySelector(`[data-part=${{ending}}]`).click();
  const texts = (selector) => [...root.querySelectorAll(selector)].map((part) => part.textContent);
  const decoder = new TextDecoder("utf-8", {{ ignoreBOM: true }});
  return Promise.all(saved.map((blob) => blob.arrayBuffer())).then((files) => ({{
    title: texts("[data-part=title]")[0], readout: texts("[data-part=readout]")[0],
    names: texts(".name"), notes: texts(".note"), data: {{ ...root.dataset }},
    csv: decoder.decode(files[0]), svg: decoder.decode(files[1]),
  }}));
}}"""


@pytest.fixture
def says(page: Page) -> Callable[..., dict[str, Any]]:
    """`says(row, *acts)`: what a row says after some acts, and the two files that it saves."""
    page.set_content(
        f"<style>{palette('.map-row')}{read(FOLDER / 'map_row.css')}</style>"
        f"{read(FOLDER / 'map_row.html')}"
    )

    def told(row: MapRow, *acts: tuple) -> dict[str, Any]:
        text = base64.b64encode(pack(payload(row))).decode()
        return page.evaluate(SCRIPT, [text, [list(act) for act in acts]])

    return told


def fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def test_weights_and_their_difference(says: Callable[..., dict[str, Any]]) -> None:
    row = weights_row()
    first, second = (drawn.values[1, 2].astype(float) for drawn in row.maps[:2])
    told = says(row, ("choose", "layer", 1), ("choose", "head", 2), ("over", 6, 3))
    assert told["title"] == "Encoder, layer 2, head 3"
    assert told["names"] == ["As trained", "Edited", "Edited − as trained"]
    difference = second - first
    assert told["notes"][:2] == ["untouched", "the same words"]
    largest = np.abs(difference).max()
    assert told["notes"][2] == f"largest in this map: {float(f'{largest:.3g}')}"
    assert plain(told["readout"]) == (
        f"query: a‹U+200B›b · key: <b>in</b> · as trained {fixed(first[6, 3], 4)} · edited "
        f"{fixed(second[6, 3], 4)} · difference {fixed(difference[6, 3], 4)}"
    )
    where = (
        told["data"]["layer"],
        told["data"]["head"],
        told["data"]["query"],
        told["data"]["key"],
    )
    assert where == ("1", "2", "6", "3")
    said = [float(value) for value in told["data"]["values"].split(" ")]
    assert said == pytest.approx([first[6, 3], second[6, 3], difference[6, 3]])
    assert plain(says(row, ("over", 4, 0))["readout"]).startswith("query: in₅ · key: in₁ · ")


def test_scores_behind_a_mask(says: Callable[..., dict[str, Any]]) -> None:
    row = scores_row()
    told = says(row, ("choose", "head", 1), ("over", 2, 5))
    assert "masked: its numbers are not used" in told["readout"]
    part, whole = (drawn.values[0, 1] for drawn in row.maps)
    for note, values, before in zip(told["notes"], (part, whole), ("", "a sum, "), strict=True):
        opened = values[row.mask]
        low, high = fixed(opened.min(), 2), fixed(opened.max(), 2)
        assert note == f"{before}from {low} to {high}"


def test_the_files(says: Callable[..., dict[str, Any]]) -> None:
    """Queries and keys that differ, as in cross-attention, and names that no XML can hold."""
    row = scores_row()
    tokens = [
        replace(token, text=f"q{place}\x01") for place, token in enumerate(row.queries.tokens)
    ]
    row = replace(row, queries=replace(row.queries, tokens=tokens))
    told = says(row, ("choose", "head", 2))
    assert told["csv"].startswith("\ufeff")
    head, *lines = csv.reader(io.StringIO(told["csv"].removeprefix("\ufeff")))
    assert head == ["query", "key", "Part", "The score"]
    keys = [token.text for token in row.keys.tokens]
    keys[6] = "a‹U+200B›b"
    for place, (query, key, *numbers) in enumerate(lines):
        at = divmod(place, len(keys))
        assert (query, key) == (f"{at[0]} q{at[0]}‹U+0001›", f"{at[1]} {keys[at[1]]}")
        values = [np.float32(drawn.values[0, 2][at]) for drawn in row.maps]
        assert numbers == ["", ""] or [np.float32(number) for number in numbers] == values
        assert (numbers == ["", ""]) == (at[1] > at[0])
    words = [part.text for part in ElementTree.fromstring(told["svg"]).iter() if part.text]
    assert "Decoder, layer 1, head 3" in words
