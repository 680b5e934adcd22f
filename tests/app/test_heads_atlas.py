"""The atlas component in a browser without a server: what it shows, says, links to and saves."""

from __future__ import annotations

import base64
import csv
import dataclasses
import io
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from app.components.assets import joined, palette, read
from app.components.atlas.payload import Shown, payload
from app.components.explorer.payload import pack
from core.atlas.atlas import DISTANCES, AlignmentHeads, Atlas
from tests.app.atlases import COMMAND, ROLES, atlas, bare, origin, without
from tests.app.mounted import plain

FOLDER = Path(__file__).parents[2] / "app/components/atlas"
SCRIPT = joined(FOLDER / "main.js")
ADDRESS = "http://127.0.0.1/heads"
SMALL = atlas(seed=3, layers=2, heads=3)
LINK = {"direction": "de-en", "model": "scratch", "search": "beam"}

DRIVER = """
window.saved = [];
window.opened = [];
URL.createObjectURL = (blob) => { window.saved.push(blob); return "#saved"; };
window.root = () => document.querySelector(".atlas");
window.mount = (text) => {
  render({
    data: Uint8Array.from(atob(text), (character) => character.charCodeAt(0)),
    parentElement: document.body, key: "atlas",
    setTriggerValue: (name, value) => window.opened.push([name, value]),
  });
};
window.act = ([what, ...more]) => {
  const of = (part) => root().querySelector(`[data-part=${part}]`);
  if (what === "set") {
    of(more[0]).value = more[1];
    of(more[0]).dispatchEvent(new Event("change", { bubbles: true }));
  }
  if (what === "key") of(more[0]).dispatchEvent(new KeyboardEvent("keydown", { key: more[1], bubbles: true }));
  if (what === "press") [...root().querySelectorAll(more[0])][more[1] ?? 0].click();
  if (what === "at" || what === "over") {
    const canvas = of(more[0]);
    const box = canvas.getBoundingClientRect();
    const at = { clientX: box.left + more[1], clientY: box.top + more[2], bubbles: true };
    canvas.dispatchEvent(what === "at" ? new MouseEvent("click", at) : new PointerEvent("pointermove", at));
  }
};
window.state = () => {
  const of = (selector) => [...root().querySelectorAll(selector)];
  const cells = (part) => of(`[data-part=${part}] tr`).map((row) => [...row.children].map((cell) => cell.textContent));
  return {
    data: { ...root().dataset }, query: location.search,
    parts: Object.fromEntries(of("[data-part]").map((part) => [part.dataset.part, part.textContent])),
    hidden: of("[data-card], [data-picture]").filter((part) => part.hidden).map((part) => part.dataset.card ?? part.dataset.picture),
    numbers: cells("numbers"), alignment: cells("alignment"), tokens: cells("tokens"),
    jumps: of(".jumps li").map((item) => item.textContent),
    options: Object.fromEntries(["measure", "x", "y", "curve"].map((name) => [name, of(`[data-part=${name}] option`).map((option) => option.value)])),
    examples: of(".examples li").map((item) => ({
      which: item.querySelector(".decile").textContent, text: item.querySelector("a").textContent,
      href: item.querySelector("a").getAttribute("href"), again: item.querySelector("button")?.textContent ?? "",
    })),
    partner: of("[data-part=partner] a").map((link) => link.getAttribute("href")),
    labels: Object.fromEntries(["roles", "distance", "pruning"].map((name) => [name, of(`[data-part=${name}]`)[0].getAttribute("aria-label")])),
  };
};
window.fileOf = async (what) => {
  saved.length = 0;
  root().querySelector(`[data-save="${what}"]`).click();
  for (let tries = 0; !saved.length && tries < 100; tries++) await new Promise((done) => setTimeout(done, 10));
  const bytes = new Uint8Array(await saved[0].arrayBuffer());
  return [saved[0].type, btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))];
};
"""  # noqa: E501


class Mounted:
    """A mounted atlas, driven by its controls and read as text."""

    def __init__(self, page: Page) -> None:
        html = (
            "<!doctype html><meta charset=utf-8><style>body { margin: 0; width: 1000px; "
            f"--st-background-color: #ffffff; }} {palette('.atlas')} {read(FOLDER / 'atlas.css')}"
            f"</style>{read(FOLDER / 'atlas.html')}<script>{SCRIPT}\n{DRIVER}</script>"
        )
        page.route("http://127.0.0.1/**", lambda route: route.fulfill(body=html))
        self.page = page

    def show(self, whole: Atlas, query: str = "", **shown: Any) -> Mounted:
        self.page.goto(ADDRESS + query)
        return self.update(whole, **shown)

    def update(self, whole: Atlas, **shown: Any) -> Mounted:
        data = payload(whole, Shown(link=LINK, **shown))
        self.page.evaluate("(text) => mount(text)", base64.b64encode(pack(data)).decode())
        return self

    def does(self, *acts: tuple) -> dict[str, Any]:
        self.page.evaluate("(acts) => acts.forEach(act)", [list(act) for act in acts])
        return self.page.evaluate("state()")

    def saves(self, what: str) -> tuple[str, bytes]:
        kind, text = self.page.evaluate("(what) => fileOf(what)", what)
        return kind, base64.b64decode(text)

    def csv(self, name: str) -> list[list[str]]:
        text = self.saves(f"{name} csv")[1].decode("utf-8-sig")
        return list(csv.reader(io.StringIO(text)))


@pytest.fixture(scope="module")
def mounted(shared_page: Page) -> Mounted:
    return Mounted(shared_page)


def percent(share: float) -> str:
    near = 0 < share <= 0.005 or 0.995 <= share < 1
    text = f"{100 * share:.{int(near)}f}"
    return {"0.0": "<0.1", "100.0": ">99.9"}.get(text, text) + " %"


def three(values: np.ndarray) -> str:
    value, low, high = (percent(float(v)) for v in values)
    return f"{value} ({low} to {high})"


def query_of(state: dict[str, Any]) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(state["query"][1:]).items()}


def test_a_head_and_measures_of_the_link_are_shown(mounted: Mounted) -> None:
    asked = {"head": "cross.1.2", "measure": "entropy", "x": "role-punctuation", "y": "largest"}
    said = mounted.show(SMALL, opened=asked).does()
    shown = [said["data"][name] for name in ("head", "measure", "x", "y")]
    assert shown == ["cross.1.2", "entropy", "role-punctuation", "largest"]
    assert said["parts"]["name"] == "Cross-attention, layer 2, head 3"
    entropy, role, largest = (
        SMALL.arrays[name][at]
        for name, at in (("entropy", 17), ("role_cross", (3, 5)), ("largest", 17))
    )
    readout = plain(said["parts"]["readout"])
    assert readout.startswith("cross 2.3")
    assert readout.endswith(
        f"· Entropy: {three(entropy)} · Role: punctuation: {three(role)} · "
        f"Largest weight: {three(largest)}"
    )
    assert query_of(said) == asked


def test_defaults_are_left_out_of_the_url_but_the_head(mounted: Mounted) -> None:
    said = mounted.show(SMALL, "?source=Ein+Hund&measure=entropy").does()
    assert query_of(said) == {"source": "Ein Hund", "head": said["data"]["head"]}
    said = mounted.does(("set", "measure", "largest"), ("set", "y", "bleu"))
    assert query_of(said) == {
        "source": "Ein Hund", "head": said["data"]["head"], "measure": "largest", "y": "bleu",
    }  # fmt: skip
    said = mounted.does(("set", "curve", "bleu"), ("set", "measure", "zero"), ("set", "y", "zero"))
    assert query_of(said) == {
        "source": "Ein Hund",
        "head": said["data"]["head"],
        "curve": "bleu",
    }
    said = mounted.show(SMALL, opened={"curve": "bleu"}, turn=9).does()
    assert said["data"]["curve"] == "bleu" and "BLEU of the whole" in said["labels"]["pruning"]
    outside = mounted.show(SMALL, "?source=x", in_url=False).does(("key", "heads", "ArrowRight"))
    assert query_of(outside) == {"source": "x"}


def test_the_choice_outlives_new_data_until_the_page_is_opened_anew(mounted: Mounted) -> None:
    mounted.show(SMALL, opened={"head": "encoder.0.0"}, turn=1)
    mounted.does(("press", "[data-part=next]"), ("set", "measure", "mean"))
    said = mounted.update(atlas(seed=4, layers=2, heads=3), opened={"head": "cross.0.0"}, turn=1)
    data = said.does()["data"]
    assert (data["head"], data["measure"]) == ("encoder.0.1", "mean")
    said = mounted.update(SMALL, opened={"head": "cross.0.0"}, turn=2).does()
    assert (said["data"]["head"], said["data"]["measure"]) == ("cross.0.0", "mean")
    said = mounted.update(SMALL, opened={"measure": "entropy"}, turn=3).does()
    assert (said["data"]["head"], said["data"]["measure"]) == ("cross.0.0", "entropy")


def cell_of(
    mounted: Mounted, whole: Atlas, kind: str, layer: int, head: int
) -> tuple[float, float]:
    """Return the centre of a head's cell; the blocks are side by side below 40 px of titles."""
    width = mounted.page.evaluate(
        "root().querySelector('[data-part=heads]').parentElement.clientWidth"
    )
    side = min(96, (width - 3 * 24 - 2 * 20) // (3 * whole.num_heads))
    tall = min(62, max(46, round(1.05 * side)))
    block = list(ROLES).index(kind)
    left = 24 + block * (24 + side * whole.num_heads + 20)
    return left + (head + 0.5) * side, 40 + (layer + 0.5) * tall


@pytest.mark.parametrize("place", [("encoder", 0, 2), ("decoder", 1, 0), ("cross", 1, 1)])
def test_a_click_on_a_cell_chooses_its_head(mounted: Mounted, place: tuple) -> None:
    mounted.show(SMALL)
    point = cell_of(mounted, SMALL, *place)
    said = mounted.does(("over", "heads", *point))
    assert said["data"]["hovered"] == ".".join(map(str, place))
    said = mounted.does(("at", "heads", *point))
    assert said["data"]["head"] == ".".join(map(str, place))
    n = ("encoder", "decoder", "cross").index(place[0]) * 6 + place[1] * 3 + place[2]
    assert said["parts"]["spoken"].endswith(payload(SMALL, Shown())["stories"][n][-1])


def test_arrow_keys_walk_over_all_blocks(mounted: Mounted) -> None:
    mounted.show(SMALL, opened={"head": "encoder.0.1"})
    walk = []
    for key in ("Right", "Right", "Down", "Down", "Left", "Up", "Up"):
        walk.append(mounted.does(("key", "heads", f"Arrow{key}"))["data"]["head"])
    assert walk == [
        "encoder.0.2", "decoder.0.0", "decoder.1.0", "decoder.1.0", "encoder.1.2", "encoder.0.2",
        "encoder.0.2",
    ]  # fmt: skip


def test_numbers_of_one_head_are_those_of_the_atlas(mounted: Mounted) -> None:
    whole = SMALL
    said = mounted.show(whole, opened={"head": "decoder.1.1"}).does()  # n = 10
    rows = {row[0]: [plain(cell) for cell in row[1:]] for row in said["numbers"]}
    for label, name in (("Entropy", "entropy"), ("Largest weight", "largest")):
        values = whole.arrays[name][:, 0]
        rank = 1 + sum(value > values[10] for value in values)
        assert rows[label] == [three(whole.arrays[name][10]), f"{rank} of 18"]
    order = list(whole.arrays["prune_all_order"])
    assert rows["Removal rank"] == [str(order.index(10) + 1), "of 18"]
    value, low, high = whole.arrays["zero"][10]
    text, remark = rows["Loss change, zero ablation"]
    numbers = [float(t.replace("−", "-")) for t in re.findall(r"[+−]?\d+\.\d+", text)]
    assert numbers == pytest.approx([value, low, high], abs=0.00051)
    assert " nats per token (" in text
    rank = 1 + sum(v > value for v in whole.arrays["zero"][:, 0])
    told = whole.arrays["zero_p"][10] < 0.05
    assert remark == (f"{rank} of 18" if told else "not distinguishable from 0")
    bleu = whole.arrays["bleu_zero"][:, 0]
    tested = whole.arrays["bleu_zero_p"][10] < 0.05
    rank = 1 + sum(v < bleu[10] for v in bleu)
    assert rows["BLEU change, zero ablation"][1] == (
        f"{rank} of 18" if tested else "not distinguishable from 0"
    )
    assert "zero[10], heads[10].loss_change" in said["parts"]["numbers-note"]


def test_roles_and_distances_are_said(mounted: Mounted) -> None:
    said = mounted.show(
        SMALL, opened={"head": "cross.0.1"}
    ).does()  # n = 13, the second of its kind
    shares = SMALL.arrays["role_cross"][:, 1, 0]
    order = np.argsort(-shares)
    expected = [
        f"{ROLES['cross'][role]}{', words shuffled' if ROLES['cross'][role] == 'diagonal' else ''}"
        f" {percent(float(shares[role]))}, shuffled "
        f"{percent(float(SMALL.arrays['role_cross_shuffled'][role, 1]))}, random networks "
        f"{percent(float(SMALL.arrays['role_cross_random'][role]))}"
        + (f", distances only {percent(float(profile))}" if np.isfinite(profile) else "")
        for role, profile in ((o, SMALL.arrays["role_cross_profile"][o, 1]) for o in order)
    ]
    assert plain(said["labels"]["roles"]) == "; ".join(expected)
    profile = SMALL.arrays["distance"][13]
    top = DISTANCES[int(profile.argmax())]
    tokens = "token" if abs(top) == 1 else "tokens"
    where = f"{abs(top)} {tokens} {'before' if top < 0 else 'after'} the diagonal"
    share = percent(float(profile.max()))
    assert plain(said["labels"]["distance"]).startswith(
        f"The distance with the most attention gets {share} of it: keys "
        f"{where if top else 'at the diagonal'}. The bars"
    )


def test_attention_without_a_main_distance_is_called_spread(mounted: Mounted) -> None:
    distance = SMALL.arrays["distance"].copy()
    distance[13] = 0.02
    distance[13, -1] = 0.19  # 20 tokens and more
    whole = dataclasses.replace(SMALL, arrays={**SMALL.arrays, "distance": distance})
    said = mounted.show(whole, opened={"head": "cross.0.1"}).does()
    assert plain(said["labels"]["distance"]).startswith(
        "The distance with the most attention gets 19 % of it: keys 20 or more tokens after the "
        "diagonal. Attention is spread widely."
    )
    svg = mounted.show(whole, opened={"head": "cross.0.1"}).saves("distance svg")[1].decode()
    assert ">10\u00a0%<" in svg and ">20\u00a0%<" in svg


@pytest.mark.parametrize(("most", "ticks"), [(0.035, (2, 4)), (0.048, (3, 6)), (0.09, (5, 10))])
def test_ticks_of_the_distances_are_where_they_say(
    mounted: Mounted, most: float, ticks: tuple[int, int]
) -> None:
    """Ticks are at whole percentages: rounding would give any other tick a wrong label."""
    distance = SMALL.arrays["distance"].copy()
    distance[13] = 0.01
    distance[13, 5] = most
    whole = dataclasses.replace(SMALL, arrays={**SMALL.arrays, "distance": distance})
    svg = mounted.show(whole, opened={"head": "cross.0.1"}).saves("distance svg")[1].decode()
    assert all(f">{tick}\u00a0%<" in svg for tick in ticks)


def test_alignment_of_one_head_is_tabulated(mounted: Mounted) -> None:
    said = mounted.show(SMALL, opened={"head": "cross.1.0"}).does()
    rows = [[plain(cell) for cell in row] for row in said["alignment"]]
    for row, (r, q) in zip(rows, ((0, 0), (0, 1), (1, 0), (1, 1)), strict=True):
        aer, precision, recall = (
            SMALL.arrays[name][r, q, 1, 0] for name in ("aer", "precision", "recall")
        )
        # The payload rounds to four decimals.
        assert row[2] == three(np.round(aer.astype(float), 4))
        assert row[3:] == [percent(round(float(precision), 4)), percent(round(float(recall), 4))]
    note = plain(said["parts"]["alignment-note"])
    assert "on 500 sentences with manual alignments (gold)" in note
    average = np.mean([SMALL.arrays["aer"][:, :, i, j, 0].min() for i in (0, 1) for j in range(3)])
    assert (
        "the plain diagonal 61 %, the average head of this network, read in the best of the "
        f"four ways {percent(float(average))}" in note
    )
    assert [row[:2] for row in rows] == [
        ["produces the word", "weights"],
        ["produces the word", "norms"],
        ["is fed the word", "weights"],
        ["is fed the word", "norms"],
    ]
    assert (
        "On one half of the sentences, the best aligner by attention weights is the mean of cross "
        "1.1, cross 3.2, in the row that is fed the target word; on the other half its error rate "
        "is 31 % (29 % to 33 %)." in note
    )
    alone = dataclasses.replace(
        SMALL, alignment_heads=AlignmentHeads(((0, 1),), "output", "weights", 0.37, 0.33, 0.4)
    )
    said = mounted.show(alone, opened={"head": "cross.1.0"}).does()
    assert (
        "the best aligner by attention weights is cross 1.2 alone, in the row that produces the "
        "target word; on the other half its error rate is 37 %"
    ) in plain(said["parts"]["alignment-note"])
    assert "alignment" in mounted.show(SMALL, opened={"head": "decoder.1.0"}).does()["hidden"]


def test_tokens_and_counterpart_are_those_of_the_atlas(mounted: Mounted) -> None:
    other = {**LINK, "model": "baseline"}
    n = next(
        n for n in range(18) if SMALL.arrays["partner"][n] != n and SMALL.heads[n][1:] == (1, 1)
    )
    own = ".".join(map(str, SMALL.heads[n]))
    said = mounted.show(SMALL, opened={"head": own}, counterpart=other).does()
    assert [plain(cell) for cell in said["tokens"][0]] == [
        f"word{n}·0",
        "+0.90 nats",
        f"seen {5 + n} times",
    ]
    assert [row[1] for row in said["tokens"][:3]] == ["+0.90 nats", "+0.45 nats", "+0.30 nats"]
    note = plain(said["parts"]["tokens-note"])
    assert "only tokens seen at least 5 times. No intervals were computed." in note
    assert "probability" not in note
    kind, layer, head = SMALL.heads[SMALL.arrays["partner"][n]]
    assert plain(said["parts"]["partner"]) == (
        f"In baseline-de-en: {kind} {layer + 1}.{head + 1}, with which it "
        f"shares {three(SMALL.arrays['similarity'][n])} of its attention."
    )
    value, low, high = map(percent, SMALL.arrays["similarity_unmatched"][n])
    note = plain(said["parts"]["partner-note"])
    assert f"With the other heads of that kind it shares {value} ({low} to {high})" in note
    old = mounted.show(without(SMALL, "similarity_unmatched"), opened={"head": own}).does()
    assert "cannot be compared with chance" in plain(old["parts"]["partner-note"])
    (href,) = said["partner"]
    assert parse_qs(href[1:]) == {
        "direction": ["de-en"], "model": ["baseline"], "search": ["beam"],
        "head": [f"{kind}.{layer}.{head}"],
    }  # fmt: skip


def test_heads_that_cover_lead_to_each_other(mounted: Mounted) -> None:
    pairs = SMALL.arrays["pair_decoder"]
    mounted.show(SMALL, opened={"head": "decoder.0.2"})
    said = mounted.does()
    beyond = [m for m in range(6) if m != 2 and pairs[2, m, 1] > 0]
    first = max(beyond, key=lambda m: pairs[2, m, 0])
    value, low, high = (f"{v:+.3f}".replace("-", "−") for v in pairs[2, first])
    assert said["jumps"][0] == (
        f"decoder {first // 3 + 1}.{first % 3 + 1}{value} nats per token ({low} to {high})"
    )
    said = mounted.does(("press", "button.jump"))
    assert said["data"]["head"] == f"decoder.{first // 3}.{first % 3}"
    note = said["parts"]["pairs-note"]
    assert "on 250 sentences of the corpus" in note
    assert "Of 5 pairs, about 0.3 would be listed by chance alone" in note


def test_quoted_sentences_lead_into_the_explorer(mounted: Mounted) -> None:
    n = 13
    mounted.show(SMALL, opened={"head": "cross.0.1"})
    said = mounted.does()
    strength, bounds = SMALL.arrays["strength"][n], SMALL.arrays["deciles"][n]
    tenth = (strength[:, None] >= bounds).sum(-1)
    present = sorted(set(tenth), reverse=True)
    assert len(said["examples"]) == len(present)
    for at, example in zip(present, said["examples"], strict=True):
        of_it = sorted(np.flatnonzero(tenth == at), key=lambda s: -strength[s])
        sentence = of_it[len(of_it) // 2]
        quoted = SMALL.quoted[sentence]
        assert example["text"] == quoted.source
        which, number = example["which"].rsplit(": ", 1)
        assert which == f"decile {10 - at} of 10"
        assert float(number.replace("−", "-")) == pytest.approx(strength[sentence], abs=0.00051)
        path, _, query = example["href"].partition("?")
        assert path == "/"
        q, k = SMALL.arrays["cell"][n, sentence]
        assert {name: values[0] for name, values in parse_qs(query).items()} == {
            "source": quoted.source, "target": quoted.target, **LINK,
            "kind": "cross", "layer": "0", "head": "1", "q": str(q), "k": str(k),
        }  # fmt: skip
        assert example["again"] == (
            f"Another sentence ({len(of_it)} in this decile)" if len(of_it) > 1 else ""
        )
    mounted.does(("press", ".examples a"))
    # Streamlit adds no history entry for a query that is in the URL already.
    assert mounted.page.evaluate("location.search.slice(1)") == mounted.page.evaluate(
        "opened.at(-1)[1].query"
    )
    name, opened = mounted.page.evaluate("opened.at(-1)")
    query = said["examples"][0]["href"].partition("?")[2]
    assert (name, opened) == ("link", {"page": "", "query": query})


def test_back_returns_to_the_head_before_a_click(mounted: Mounted) -> None:
    """Only clicks add history entries; arrow keys, which pass many heads, and measures add none."""
    mounted.show(SMALL, opened={"head": "encoder.0.0"})
    mounted.page.evaluate(
        """() => {
            window.entries = [];
            const push = history.pushState.bind(history);
            history.pushState = (...more) => { entries.push(String(more[2])); push(...more); };
        }"""
    )
    heads = [
        parse_qs(mounted.does(act)["query"][1:])["head"]
        for act in (
            ("press", "[data-part=next]"),
            ("key", "heads", "ArrowRight"),
            ("press", "button.jump"),
            ("set", "measure", "entropy"),
            ("press", "[data-part=previous]"),
        )
    ]
    entries = [parse_qs(url.partition("?")[2])["head"] for url in mounted.page.evaluate("entries")]
    assert entries == [heads[0], heads[2], heads[4]]
    mounted.page.go_back()
    assert parse_qs(mounted.page.evaluate("location.search.slice(1)"))["head"] == heads[2]


def test_a_head_leads_to_its_training(mounted: Mounted) -> None:
    mounted.show(SMALL, opened={"head": "decoder.1.2"}, training=True)
    (href,) = mounted.page.evaluate("[root().querySelector('[data-part=training]').href]")
    path, _, query = href.partition("?")
    assert path == "http://127.0.0.1/training"
    wanted = {**LINK, "kind": "decoder", "layer": "1", "head": "2"}
    assert {name: values[0] for name, values in parse_qs(query).items()} == wanted
    mounted.does(("press", "[data-part=training]"))
    assert mounted.page.evaluate("opened.at(-1)") == ["link", {"page": "training", "query": query}]
    mounted.show(SMALL)
    assert mounted.page.evaluate("root().querySelector('[data-part=training]').hidden")


def test_another_sentence_of_the_same_decile(mounted: Mounted) -> None:
    mounted.show(SMALL, opened={"head": "encoder.0.0"})
    said = mounted.does()
    at, count = next(
        (i, int(re.search(r"\d+", example["again"])[0]))
        for i, example in enumerate(said["examples"])
        if example["again"]
    )
    buttons = [i for i, example in enumerate(said["examples"]) if example["again"]]
    seen = {said["examples"][at]["text"]}
    for _ in range(count - 1):
        press = ("press", ".another", buttons.index(at))
        seen.add(mounted.does(press)["examples"][at]["text"])
    assert len(seen) == count


def test_pruning_says_how_many_heads_can_go(mounted: Mounted) -> None:
    # All these intervals contain the curve's first loss, 1.6, so only the values decide.
    loss = np.array(
        [(1.6, 1.5, 1.7), (1.61, 1.5, 1.7), (1.64, 1.59, 1.7), (1.66, 1.5, 1.8), (1.6, 1.5, 1.7)]
    )
    curve = SMALL.arrays["prune_encoder_loss"].copy()
    curve[:5] = loss
    whole = without(SMALL, "prune_all", "prune_decoder", "prune_cross")
    arrays = {**whole.arrays, "prune_encoder_loss": curve}
    whole = dataclasses.replace(whole, arrays=arrays)
    order = list(whole.arrays["prune_encoder_order"])
    said = mounted.show(whole, opened={"head": "encoder.1.0"}).does()
    text = plain(said["labels"]["pruning"])
    assert "Loss of the whole network: 1.62 nats per token. Number of heads that" in text
    assert "before the loss has risen by 0.05 nats per token: 2 of 6 encoder heads." in text
    assert "the lowest loss on 50 of the 1,000 sentences on which the curve is measured" in text
    rank = ("1st", "2nd", "3rd", "4th", "5th", "6th")[order.index(3)]
    assert text.endswith(f"removed {rank} of the 6 encoder heads.")


def test_a_removal_rank_is_an_ordinal(mounted: Mounted) -> None:
    whole = atlas(seed=3, layers=4, heads=4)
    order = list(whole.arrays["prune_all_order"])
    for rank in "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 33rd 48th".split():
        kind, layer, head = whole.heads[order[int(rank[:-2]) - 1]]
        said = mounted.show(whole, opened={"head": f"{kind}.{layer}.{head}"}).does()
        assert f"removed {rank} of all 48 heads and " in plain(said["labels"]["pruning"])


def test_pruning_limits_of_bleu_and_of_curves_that_lose_nothing(mounted: Mounted) -> None:
    bleu = np.full((7, 3), 38.0, np.float32)
    bleu[3:] = 37.6
    lost = bleu.copy()
    lost[1:] = 37.4
    arrays = {**SMALL.arrays, "prune_encoder_bleu": bleu, "prune_cross_bleu": lost}
    whole = without(dataclasses.replace(SMALL, arrays=arrays), "prune_all", "prune_decoder")
    said = mounted.show(whole, opened={"head": "decoder.1.0", "curve": "bleu"}).does()
    assert (
        "Number of heads that can be removed before BLEU (greedy) has fallen by 0.5 points: 6 of 6 "
        "encoder heads; 0 of 6 cross-attention heads."
    ) in plain(said["labels"]["pruning"])


def test_one_sentence_has_no_intervals_tests_or_deciles(mounted: Mounted) -> None:
    arrays = {name: array.copy() for name, array in bare(SMALL).arrays.items()}
    for name in ("zero", "mean", "entropy", "largest", "loss", *(f"role_{k}" for k in ROLES)):
        arrays[name][..., 1:] = np.nan
    for name in ("zero_p", "mean_p"):
        arrays[name][:] = np.nan
    whole = dataclasses.replace(bare(SMALL), arrays=arrays, quoted=SMALL.quoted)
    whole = dataclasses.replace(whole, origin=origin(sentences=1, skipped=1))
    said = mounted.show(whole, opened={"head": "cross.0.1"}).does()
    assert mounted.page.locator(".single").inner_text() == (
        "One sentence: no intervals, no tests, no deciles. Those need at least two sentences."
    )
    parts = said["parts"]
    for name in ("heads-note", "scatter-note", "numbers-note", "examples-note", "story"):
        for word in ("interval", "distinguish", "tenth", "decile ", "role"):
            assert word not in parts[name].lower(), (name, word)
    assert not any("decile" in example["which"] for example in said["examples"])
    assert ": 1 sentence, " in parts["origin"] and "1 line was skipped" in parts["origin"]
    mounted.show(SMALL)
    assert mounted.page.locator(".single").is_hidden()


def test_parts_that_were_not_measured_are_not_shown(mounted: Mounted) -> None:
    said = mounted.show(bare(SMALL), opened={"head": "cross.0.0"}).does()
    assert set(said["hidden"]) == {"pairs", "alignment", "partner", "pruning"}
    assert not {"bleu", "removed", "similarity"} & set(said["options"]["measure"])
    nothing = without(SMALL, "strength", "role", tokens=())
    said = mounted.show(nothing).does()
    assert {"roles", "tokens", "examples"} <= set(said["hidden"])


def test_the_origin_of_the_numbers_is_stated(mounted: Mounted) -> None:
    said = mounted.show(SMALL).does()
    assert said["parts"]["command"] == COMMAND
    assert plain(said["parts"]["origin"]) == (
        "scratch-de-en (weights 33333333) on val.de.gz, val.en.gz: 1,000 sentences, 14,211 source "
        "and 13,870 target tokens; 3 lines were skipped. SHA-256 of the lines: 11111111 and "
        "22222222."
    )


CREDIT = "imported, by A. Author, licence CC-BY 4.0"


@pytest.mark.parametrize(
    ("copies", "said"), [(True, "Copied"), (False, "Copy failed: select, Ctrl+C")]
)
def test_the_command_is_copied_without_the_clipboard_api(mounted: Mounted, copies, said) -> None:
    """Pages without TLS have no clipboard API."""
    mounted.show(SMALL)
    mounted.page.evaluate(
        """(copies) => {
            Object.defineProperty(navigator, "clipboard", { value: undefined });
            document.execCommand = (name) => {
                window.copied = [name, document.activeElement.value];
                return copies;
            };
        }""",
        copies,
    )
    mounted.does(("press", "[data-part=copy]"))
    expect(mounted.page.locator("[data-part=copy]")).to_have_text(said)
    assert mounted.page.evaluate("window.copied") == ["copy", COMMAND]


@pytest.mark.parametrize("credit", ["", CREDIT])
def test_author_and_licence_of_imported_weights_are_named(mounted: Mounted, credit) -> None:
    mounted.show(SMALL, credit=credit)
    name = f"scratch-de-en ({CREDIT})" if credit else "scratch-de-en"
    assert plain(mounted.does()["parts"]["origin"]).startswith(f"{name} (weights 33333333) on val")
    for picture in ("heads", "scatter", "roles", "distance", "pruning"):
        assert f"; {name}, weights 33333333; " in mounted.csv(picture)[0][0]
        assert f"{name}, 1,000 sentences of val" in mounted.saves(f"{picture} svg")[1].decode()


def test_saved_tables_hold_the_atlas(mounted: Mounted) -> None:
    mounted.show(SMALL, opened={"head": "decoder.0.1", "x": "largest", "y": "mean"})
    head, *lines = mounted.csv("heads")
    assert COMMAND in head[0] and head[1:4] == ["kind", "layer", "head"]
    column = head.index("bleu low")
    for n, ((kind, layer, number), line) in enumerate(zip(SMALL.heads, lines, strict=True)):
        assert line[1:4] == [kind, str(layer), str(number)]
        assert np.float32(line[column]) == SMALL.arrays["bleu_zero"][n, 1]
    assert lines[0][head.index("aer-input-norms")] == "", "an encoder head has no alignment error"
    head, *lines = mounted.csv("scatter")
    assert head[4:] == ["largest", "largest low", "largest high", "mean", "mean low", "mean high"]
    assert np.array_equal(
        np.array([line[4:7] for line in lines], np.float32), SMALL.arrays["largest"]
    )
    _, *lines = mounted.csv("roles")
    for line in lines:
        role = ROLES["decoder"].index(line[1])
        numbers = [
            *SMALL.arrays["role_decoder"][role, 1],
            SMALL.arrays["role_decoder_shuffled"][role, 1],
            SMALL.arrays["role_decoder_random"][role],
            SMALL.arrays["role_decoder_profile"][role, 1],
            SMALL.arrays["role_decoder_rows"][role],
        ]
        sent = [np.float32(text or "nan") for text in line[2:9]]
        assert np.array_equal(sent, np.array(numbers, np.float32), equal_nan=True)
    _, *lines = mounted.csv("distance")
    assert [int(line[1]) for line in lines] == list(DISTANCES)
    assert [np.float32(line[2]) for line in lines] == list(SMALL.arrays["distance"][7])
    _, *lines = mounted.csv("pruning")
    curve = [line for line in lines if line[1] == "cross"]
    kind, layer, number = SMALL.heads[12 + SMALL.arrays["prune_cross_order"][0]]
    assert curve[1][2:4] == ["1", f"{kind} {layer + 1}.{number + 1}"]
    assert float(curve[3][4]) == pytest.approx(SMALL.arrays["prune_cross_loss"][3, 0], abs=1e-4)
