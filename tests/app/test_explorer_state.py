"""The explorer's view as an immutable value: how changes affect it and links restore it."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from app.components.assets import joined
from app.components.explorer.payload import KINDS, pack, payload
from tests.app.explorer_harness import synthetic_quantity, synthetic_record
from tests.app.test_explorer_arithmetic import groups, sides

SCRIPT = joined(Path(__file__).parents[2] / "app/components/explorer/view.js")
VIEW = {"kind": "cross", "layer": 0, "head": 0}
LAYERS, HEADS, DECODER_LAYERS = 3, 4, 2
# Return the view after each change, as plain values with its link.
WORK = f"""([text, changes]) => {{
{SCRIPT}
  const data = decodePayload(unpack(Uint8Array.from(atob(text), (c) => c.charCodeAt(0))));
  const plain = (view) => ({{
    ...view, hide: [...view.hide], link: linkOf(data, view), frozen: Object.isFrozen(view),
  }});
  let view = FIRST_VIEW;
  return changes.map((change) => {{
    if (change.link) {{
      const asked = viewOfLink(data, FIRST_VIEW, change.link);
      view = nextView(data, asked.view, {{ quantity: asked.quantity ?? "weights" }});
      view = nextView(data, view, {{ pinned: pinnedOfLink(data, view, change.link) }});
    }} else {{
      const {{ hide, ...rest }} = change;
      view = nextView(data, view, hide ? {{ ...rest, hide: new Set(hide) }} : rest);
    }}
    return plain(view);
  }});
}}"""


@pytest.fixture(scope="module")
def record():
    return synthetic_record("long", LAYERS, HEADS, DECODER_LAYERS)


@pytest.fixture(scope="module")
def packed(record) -> str:
    numbers = {name: synthetic_quantity(record, name) for name in ("scores", "norms", "rollout")}
    # Playwright takes seconds to pass a list of numbers.
    return base64.b64encode(pack(payload(record, VIEW, quantities=numbers))).decode()


def views(blank: Page, packed: str, *changes: dict[str, Any]) -> list[dict[str, Any]]:
    return blank.evaluate(WORK, [packed, list(changes)])


def test_a_pinned_row_stays_where_rows_are_shared(blank: Page, packed) -> None:
    pinned = {"pinned": {"query": 5, "key": 2}}
    found = views(blank, packed, pinned, {"kind": "decoder"}, pinned, {"kind": "encoder"})
    assert found[1]["pinned"] == {"query": 5, "key": None}  # the same token is produced
    assert found[3]["pinned"] == {"query": None, "key": None}


def test_a_pinned_token_becomes_the_word_that_holds_it(blank: Page, packed, record) -> None:
    queries, keys = map(groups, sides(record, "cross"))
    key = int(np.flatnonzero(np.bincount(keys)[keys] > 2)[2])  # inside a word of several tokens
    pinned = {"pinned": {"query": 7, "key": key}}
    words, again = views(blank, packed, pinned, {"unit": "words"}, {"unit": "pieces"})[1:]
    assert words["pinned"] == {"query": int(queries[7]), "key": int(keys[key])}
    first = {"query": queries == queries[7], "key": keys == keys[key]}
    assert again["pinned"] == {axis: int(np.argmax(of)) for axis, of in first.items()}


def test_layers_are_limited_to_those_of_the_kind(blank: Page, packed) -> None:
    steps = ({"kind": "encoder", "layer": 2}, {"kind": "cross"}, {"layer": 2}, {"kind": "encoder"})
    found = views(blank, packed, *steps)
    assert [view["layer"] for view in found] == [
        2,
        1,
        2,
        3,
    ]  # the last of 3 layers; the last of 2; all 2 layers; all 3 layers


@pytest.mark.parametrize(("layer", "head"), [(1, 2), (0, HEADS), (DECODER_LAYERS, 1)])
def test_the_head_before_rollout_comes_back(blank: Page, packed, layer: int, head: int) -> None:
    choice = {"layer": layer, "head": head}
    one, rollout, again, back = views(
        blank, packed, choice, *({"quantity": name} for name in ("rollout", "rollout", "weights"))
    )
    assert rollout == again
    assert (rollout["head"], rollout["layer"]) == (HEADS, min(layer, DECODER_LAYERS - 1))
    assert rollout["link"]["head"] == one["link"]["head"]
    assert back == one


def random_change(random: np.random.Generator, kind: str, rows: dict) -> dict[str, Any]:
    queries, keys = rows[kind]
    counts = {"encoder": LAYERS}
    choices = {
        "kind": str(random.choice(KINDS)),
        "layer": int(random.integers(counts.get(kind, DECODER_LAYERS) + 1)),
        "head": int(random.integers(HEADS + 1)),
        "picture": str(random.choice(["map", "lines"])),
        "hide": [name for name in ("eos", "punctuation") if random.random() < 0.5],
        "sort": str(random.choice(["layer", "confidence", "spread", "distance"])),
        "combine": str(random.choice(["mean", "max"])),
        "quantity": str(random.choice(["weights", "scores", "norms"])),
        "mass": int(random.integers(0, 120)),
        "unit": str(random.choice(["pieces", "words"])),
        "states": str(random.choice(["folded", "encoder", "both"])),
        "pinned": {"query": int(random.integers(queries)), "key": int(random.integers(keys))},
    }
    name = str(random.choice(list(choices)))
    return {name: choices[name]}


@pytest.mark.parametrize("seed", range(4))
def test_a_link_brings_every_view_back(blank: Page, packed, record, seed: int) -> None:
    """After any changes the view is valid, frozen, and restored by its link."""
    random = np.random.default_rng(seed)
    ends = {kind: [groups(side)[-1] + 1 for side in sides(record, kind)] for kind in KINDS}
    changes: list[dict[str, Any]] = []
    kind = "cross"
    for _ in range(60):
        changes.append(random_change(random, kind, ends))
        kind = changes[-1].get("kind", kind)
    found = views(blank, packed, *changes)
    again = views(blank, packed, *({"link": view["link"]} for view in found))
    layers = {"encoder": LAYERS, "decoder": DECODER_LAYERS, "cross": DECODER_LAYERS}
    for view, other in zip(found, again, strict=True):
        assert view["frozen"]
        assert view["layer"] <= layers[view["kind"]] and view["head"] <= HEADS
        assert 30 <= view["mass"] <= 95
        assert other == view
    assert len({str(view) for view in found}) > 20


def test_invalid_parameters_of_a_link_are_ignored(blank: Page, packed) -> None:
    wrong = {
        "kind": "cross", "layer": "99", "head": "-3", "view": "pie", "words": "2", "hide": "all",
        "sort": "size", "combine": "sum", "quantity": "gold", "mass": "x", "q": "999", "k": "1.5",
        "states": "decoder",
    }  # fmt: skip
    usual, found = views(blank, packed, {"layer": DECODER_LAYERS - 1}, {"link": wrong})
    assert found == usual
