"""A synthetic training run, and a page that mounts the training component without a server.

Every weight differs from its neighbours, so that a wrong point, layer, head or axis cannot pass.
"""

# ruff: noqa: E501 (lines of script)

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page

from app.components.assets import palette, read
from app.components.explorer.markup import markup
from app.components.explorer.payload import pack
from app.components.training.payload import SmallCurves, payload
from core.kinds import KINDS
from core.record.attention_snapshots import AttentionSnapshots, Sentence
from tests.app.drawn import as_json

FOLDER = Path(__file__).parents[2] / "app/components/training"
STEPS = (0, 50, 400, 1655, 2900)
LAYERS = {"encoder": 2, "decoder": 3, "cross": 3}
HEADS = 2
SENTENCES = (
    Sentence(
        ("▁Ein", "▁Hund", "▁be", "llt", ".", "<eos>"),
        ("<bos>", "▁A", "▁dog", "▁bar", "ks"),
        ("▁A", "▁dog", "▁bar", "ks", "<eos>"),
    ),
    Sentence(
        ("▁<b>ja</b>", "▁in", "▁in", "<eos>"),
        ("<bos>", "▁=1+1", "▁yes", "▁in", "▁in", "▁in"),
        ("▁=1+1", "▁yes", "▁in", "▁in", "▁in", "<eos>"),
    ),
)
OPENED = {"sentence": 0, "step": None, "kind": "cross", "layer": 1, "head": 1}


def snapshots(
    sentences: tuple[Sentence, ...] = SENTENCES,
    layers: dict[str, int] = LAYERS,
    heads: int = HEADS,
    seed: int = 3,
) -> AttentionSnapshots:
    """Return random snapshots of a training run.

    From the third point on, encoder head 2.1 has the role "previous token".
    """
    draw = np.random.default_rng(seed)
    P = len(STEPS)
    maps: dict[str, tuple] = {}
    for kind in KINDS:
        found = []
        for sentence in sentences:
            Q, K = sentence.map_sizes[kind]
            weights = draw.dirichlet(np.ones(K), (P, layers[kind], heads, Q))
            weights *= np.tril(np.ones((Q, K))) if kind == "decoder" else 1
            found.append((weights / weights.sum(-1, keepdims=True)).astype(np.float16))
        maps[kind] = tuple(found)
    counts = {"encoder": 3, "decoder": 3, "cross": 1}
    roles: dict[str, np.ndarray] = {
        kind: draw.uniform(0.05, 0.25, (P, counts[kind], layers[kind], heads)).astype(np.float32)
        for kind in KINDS
    }
    roles["encoder"][2:, 0, 1, 0] = (0.55, 0.65, 0.82)
    return AttentionSnapshots(
        sentences,
        np.array(STEPS, np.int32),
        np.array([9.4, 7.1, 4.1, 2.23, 1.12], np.float32),
        np.array([0, 0.1, 6.2, 24.4, 45.1], np.float32),
        maps,
        {kind: draw.uniform(0.1, 1, (P, layers[kind], heads)).astype(np.float32) for kind in KINDS},
        roles,
    )


def packed(run: AttentionSnapshots, small: SmallCurves | None = None, **opened: Any) -> str:
    """Return a run's payload as base64."""
    names = ("German", "English")
    data = payload(run, name="small", languages=names, opened=OPENED | opened, small=small)
    return base64.b64encode(pack(data)).decode()


ADDRESS = "http://training.test/training"
_DRIVER = """
window.saved = [];
URL.createObjectURL = (blob) => { window.saved.push(blob); return "#saved"; };
window.gone = null;
window.mount = (text, key, again) => {
  const host = document.querySelector("#host");
  if (!again) {
    window.gone?.();
    const inner = document.createElement("div");
    inner.innerHTML = document.querySelector("#markup").innerHTML;
    host.replaceChildren(inner);
  }
  const data = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  window.gone = renderTraining({ data, parentElement: host.firstChild, key });
};
window.training = () => document.querySelector("#host .training");
window.part = (name) => training().querySelector(`[data-part="${name}"]`);
window.point = (query, key) => {
  const map = training().querySelector("canvas[data-role=map]");
  const { left, top, cell } = map.dataset;
  const box = map.getBoundingClientRect();
  const at = { clientX: box.left + Number(left) + (key + 0.5) * cell, clientY: box.top + Number(top) + (query + 0.5) * cell, bubbles: true };
  map.dispatchEvent(new PointerEvent("pointermove", at));
};
window.state = () => {
  const explorer = training().querySelector(".explorer");
  const texts = (selector) => [...training().querySelectorAll(selector)].map((part) => part.textContent);
  return {
    data: { ...training().dataset }, explorer: { ...explorer.dataset },
    at: part("at").textContent, value: part("point").value,
    valuetext: part("point").getAttribute("aria-valuetext"), curves: part("lanes").getAttribute("aria-label"),
    spoken: part("training-spoken").textContent, meanings: part("meanings").textContent,
    marks: texts("[data-part=marks] > *"), pressed: texts("[data-part=marks] button[aria-pressed=true]"),
    sentences: texts("[data-part=training-sentence] option"),
    earlier: part("earlier").disabled, later: part("later").disabled, run: part("run").getAttribute("aria-label"),
    first: texts("[data-part=readout-first]")[0], second: texts("[data-part=readout-second]")[0],
    notes: texts("[data-part=target-note]")[0], checked: texts("[data-part=not-checked]")[0],
    bars: training().querySelectorAll(".probability").length, search: location.search,
  };
};
window.file = async (ending) => {
  window.saved.length = 0;
  training().querySelector(`[data-save=${ending}]`).click();
  while (!window.saved.length) await new Promise((go) => setTimeout(go, 5));
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await window.saved[0].arrayBuffer());
};
"""


class Mounted:
    """The training component, mounted on a page with its own address."""

    def __init__(self, page: Page, width: int = 980) -> None:
        files = markup(FOLDER / "main.js")
        frame = read(FOLDER / "training.html").replace("{{explorer}}", files.html)
        css = f"{files.css}{palette('.training')}{read(FOLDER / 'training.css')}"
        html = (
            f"<!doctype html><meta charset=utf-8><style>body {{ margin: 0; }} #host {{ width: {width}px; "
            f"--st-background-color: #ffffff; }} {css}</style>"
            f"<template id=markup>{frame}</template><div id=host></div>"
            f"<script>{files.script}\n{_DRIVER}</script>"
        )
        self.page = page
        self.count = 0
        page.route(f"{ADDRESS}**", lambda route: route.fulfill(body=html, content_type="text/html"))
        page.goto(ADDRESS)

    def show(self, run: AttentionSnapshots, again: bool = False, **opened: Any) -> dict[str, Any]:
        """Mount a run; with `again`, update the mounted component, as Streamlit would."""
        self.count += not again
        text = packed(run, **opened)
        self.page.evaluate("(all) => mount(...all)", [text, f"training{self.count}", again])
        return self.state()

    def do(self, script: str, *arguments: Any) -> dict[str, Any]:
        self.page.evaluate(script, list(arguments))
        return self.state()

    def state(self) -> dict[str, Any]:
        return json.loads(self.page.evaluate(as_json("state()")))

    def file(self, ending: str) -> str:
        return self.page.evaluate(f"file('{ending}')")
