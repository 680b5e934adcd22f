"""The atlas component in a browser without a server: what it shows, says, links to and saves."""

from __future__ import annotations

import base64
import csv
import dataclasses
import io
import json
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
from app.look.numbers import percent as in_percent
from core.atlas.atlas import DISTANCES, QUANTITIES, READINGS, AlignmentHeads, Atlas
from core.atlas.claims.literature import DROP
from tests.app.atlases import COMMAND, ROLES, atlas, bare, origin, reported, told, without
from tests.app.drawn import as_json
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
        return json.loads(self.page.evaluate(as_json("state()")))

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
    return plain(in_percent(float(share)))


def three(values: np.ndarray) -> str:
    value, low, high = map(percent, values)
    return f"{value} ({low} to {high})"


def query_of(text: str) -> dict[str, str]:
    """Return the parameters of an address or of its query."""
    return {name: values[0] for name, values in parse_qs(text.rpartition("?")[2]).items()}


def test_a_head_and_measures_of_the_link_are_shown(mounted: Mounted) -> None:
    asked = {"head": "cross.1.2", "measure": "entropy", "x": "role-punctuation", "y": "largest"}
    said = mounted.show(SMALL, opened=asked).does()
    assert said["data"] | asked == said["data"]
    assert said["parts"]["name"] == "Cross-attention, layer 2, head 3"
    readout = plain(said["parts"]["readout"])
    assert readout.startswith("cross 2.3")
    assert readout.endswith(f"· Entropy: {three(SMALL.arrays['entropy'][17])}")
    assert query_of(said["query"]) == asked


def test_defaults_are_left_out_of_the_url_but_the_head(mounted: Mounted) -> None:
    said = mounted.show(SMALL, "?source=Ein+Hund&measure=entropy").does()
    always = {"source": "Ein Hund", "head": said["data"]["head"]}
    assert query_of(said["query"]) == always
    said = mounted.does(("set", "measure", "largest"), ("set", "y", "bleu"))
    assert query_of(said["query"]) == always | {"measure": "largest", "y": "bleu"}
    said = mounted.does(("set", "curve", "bleu"), ("set", "measure", "zero"), ("set", "y", "zero"))
    assert query_of(said["query"]) == always | {"curve": "bleu"}
    said = mounted.show(SMALL, opened={"curve": "bleu"}, turn=9).does()
    assert said["data"]["curve"] == "bleu" and "BLEU of the whole" in said["labels"]["pruning"]
    outside = mounted.show(SMALL, "?source=x", in_url=False).does(("key", "heads", "ArrowRight"))
    assert query_of(outside["query"]) == {"source": "x"}


def test_the_choice_outlives_new_data_until_the_page_is_opened_anew(mounted: Mounted) -> None:
    mounted.show(SMALL, opened={"head": "encoder.0.0"}, turn=1)
    mounted.does(("press", "[data-part=next]"), ("set", "measure", "mean"))
    other = atlas(seed=4, layers=2, heads=3)
    for whole, opened, turn, head, measure in (
        (other, {"head": "cross.0.0"}, 1, "encoder.0.1", "mean"),
        (SMALL, {"head": "cross.0.0"}, 2, "cross.0.0", "mean"),
        (SMALL, {"measure": "entropy"}, 3, "cross.0.0", "entropy"),
    ):
        data = mounted.update(whole, opened=opened, turn=turn).does()["data"]
        assert (data["head"], data["measure"]) == (head, measure)


def test_arrow_keys_walk_over_all_blocks(mounted: Mounted) -> None:
    mounted.show(SMALL, opened={"head": "encoder.0.1"})
    walk = [
        mounted.does(("key", "heads", f"Arrow{key}"))["data"]["head"]
        for key in ("Right", "Right", "Down", "Down", "Left", "Up", "Up")
    ]
    assert walk == [
        "encoder.0.2", "decoder.0.0", "decoder.1.0", "decoder.1.0", "encoder.1.2", "encoder.0.2",
        "encoder.0.2",
    ]  # fmt: skip


def test_numbers_of_one_head_are_those_of_the_atlas(mounted: Mounted) -> None:
    said = mounted.show(SMALL, opened={"head": "decoder.1.1"}).does()  # n = 10
    rows = {row[0]: [plain(cell) for cell in row[1:]] for row in said["numbers"]}
    arrays = SMALL.arrays
    for label, name, sign in (
        ("Entropy", "entropy", 1),
        ("Largest weight", "largest", 1),
        ("Loss change, zero ablation", "zero", 1),
        ("BLEU change, zero ablation", "bleu_zero", -1),
    ):
        values = sign * arrays[name][:, 0]
        remark = f"{1 + sum(values > values[10])} of 18"
        if f"{name}_p" not in arrays:
            assert rows[label][0] == three(arrays[name][10])
        else:
            assert told(rows[label][0]) == pytest.approx(reported(arrays[name][10]), abs=0.0051)
            if arrays[f"{name}_p"][10] >= 0.05:
                remark = "not distinguishable from 0"
        assert rows[label][1] == remark
    assert told(rows["Loss change, zero ablation"][0]) == pytest.approx(
        reported(arrays["zero"][10]), abs=6e-4
    )
    rank = list(arrays["prune_all_order"]).index(10) + 1
    assert rows["Removal rank"] == [str(rank), "of 18"]
    assert not any("zero[" in text for text in said["parts"].values())
    assert said["parts"]["spoken"].endswith(payload(SMALL, Shown())["stories"][10][-1])


def with_distances(**shares: float) -> Atlas:
    """Return an atlas in which cross 1.2 (n = 13) has these shares: `at_5` is the sixth."""
    distance = SMALL.arrays["distance"].copy()
    distance[13] = 0.01
    for at, share in shares.items():
        distance[13, int(at.removeprefix("at_"))] = share
    return dataclasses.replace(SMALL, arrays={**SMALL.arrays, "distance": distance})


def test_the_longest_bar_without_a_role_is_explained(mounted: Mounted) -> None:
    """Role 2 of cross 1.2 is labelled, with 50 %; role 4 has 80 %, but fails one condition."""
    for null, low, rows, why in (
        (0.69, 0.7, 0.9, "chance by itself comes within 10 percentage points of its interval"),
        (0.1, 0.7, 0.09, "only 9 % of the rows have such a key"),
        (0.1, 0.2, 0.9, "its interval reaches below 30 %"),
        (0.1, 0.7, 0.9, None),
    ):
        arrays = {name: array.copy() for name, array in SMALL.arrays.items()}
        arrays["role_cross"][:, 1] = 0.1
        arrays["role_cross"][[2, 4], 1] = [0.5, 0.45, 0.55], [0.8, low, 0.9]
        for part in ("shuffled", "profile"):
            arrays[f"role_cross_{part}"][:, 1] = 0.1
        arrays["role_cross_shuffled"][4, 1] = null
        arrays["role_cross_random"][:] = 0.1
        arrays["role_cross_rows"][:] = 0.9
        arrays["role_cross_rows"][4] = rows
        atlas = dataclasses.replace(SMALL, arrays=arrays)
        said = mounted.show(atlas, opened={"head": "cross.0.1"}).does()["parts"]
        assert said["roles-title"] == f"Its role: {ROLES['cross'][2 if why else 4]}"
        found = re.findall("The longest bar is no role: (.*?)\\.", plain(said["roles-key"]))
        assert found == ([why] if why else [])


def test_roles_and_distances_are_said(mounted: Mounted) -> None:
    said = mounted.show(SMALL, opened={"head": "cross.0.1"}).does()  # the second of its kind
    arrays = {part: SMALL.arrays[f"role_cross{part}"] for part in ("_shuffled", "_profile")}
    shares = SMALL.arrays["role_cross"][:, 1, 0]
    expected = []
    for role in np.argsort(-shares):
        name = ROLES["cross"][role]
        nulls = {
            "shuffled": arrays["_shuffled"][role, 1],
            "random networks": SMALL.arrays["role_cross_random"][role],
            "distances only": arrays["_profile"][role, 1],
        }
        words = [f"{name}{', words shuffled' * (name == 'diagonal')} {percent(shares[role])}"]
        words += [f"{what} {percent(null)}" for what, null in nulls.items() if np.isfinite(null)]
        expected.append(", ".join(words))
    assert plain(said["labels"]["roles"]) == "; ".join(expected)
    profile = SMALL.arrays["distance"][13]
    top = DISTANCES[int(profile.argmax())]
    assert abs(top) > 1
    side = "before" if top < 0 else "after"
    far = with_distances(at_40=0.19)
    for whole, share, where in (
        (SMALL, profile.max(), f"{abs(top)} tokens {side} the diagonal. The"),
        (far, 0.19, "20 or more tokens after the diagonal. Attention is spread widely."),
    ):
        text = plain(mounted.show(whole, opened={"head": "cross.0.1"}).does()["labels"]["distance"])
        assert f" gets {percent(share)} of it: keys {where}" in text


@pytest.mark.parametrize(
    ("most", "ticks"), [(0.035, (2, 4)), (0.048, (3, 6)), (0.09, (5, 10)), (0.19, (10, 20))]
)
def test_ticks_of_the_distances_are_where_they_say(
    mounted: Mounted, most: float, ticks: tuple[int, int]
) -> None:
    """Ticks are at whole percentages: rounding would give any other tick a wrong label."""
    mounted.show(with_distances(at_5=most), opened={"head": "cross.0.1"})
    svg = mounted.saves("distance svg")[1].decode()
    assert all(f">{tick}\u00a0%<" in svg for tick in ticks)


def test_alignment_of_one_head_is_tabulated(mounted: Mounted) -> None:
    said = mounted.show(SMALL, opened={"head": "cross.1.0"}).does()
    rows = [[plain(cell) for cell in row] for row in said["alignment"]]
    ways = [
        (reading, quantity)
        for reading in ("produces the word", "is fed the word")
        for quantity in ("weights", "norms")
    ]
    assert [tuple(row[:2]) for row in rows] == ways
    for row, (r, q) in zip(rows, np.ndindex(2, 2), strict=True):
        # The payload rounds to four decimals.
        aer, *others = (
            np.round(SMALL.arrays[name][r, q, 1, 0].astype(float), 4)
            for name in ("aer", "precision", "recall")
        )
        assert row[2:] == [three(aer), *map(percent, others)]
    note = plain(said["parts"]["alignment-note"])
    average = np.mean([SMALL.arrays["aer"][:, :, i, j, 0].min() for i in (0, 1) for j in range(3)])
    expected = [500, 61, 100 * average, 1.1, 3.2, 31, 29, 33]
    assert told(note.partition(" In the file")[0]) == pytest.approx(expected, abs=0.51)
    assert "the mean of cross 1.1, cross 3.2, in the row that is fed" in note
    alone = AlignmentHeads(((0, 1),), "output", "weights", 0.37, 0.33, 0.4)
    mounted.show(dataclasses.replace(SMALL, alignment_heads=alone), opened={"head": "cross.1.0"})
    note = plain(mounted.does()["parts"]["alignment-note"])
    assert "is cross 1.2 alone, in the row that produces" in note and "rate is 37 %" in note


def test_tokens_and_counterpart_are_those_of_the_atlas(mounted: Mounted) -> None:
    arrays = SMALL.arrays
    n = next(n for n in range(18) if arrays["partner"][n] != n and SMALL.heads[n][1:] == (1, 1))
    own = ".".join(map(str, SMALL.heads[n]))
    other = {**LINK, "model": "baseline"}
    said = mounted.show(SMALL, opened={"head": own}, counterpart=other).does()
    assert [[plain(cell) for cell in row] for row in said["tokens"]] == [
        [token.text, f"{token.change:+.2f} nats", f"seen {token.count} times"]
        for token in SMALL.tokens[n]
    ]
    assert "seen at least 5 times" in said["parts"]["tokens-note"]
    kind, layer, head = SMALL.heads[arrays["partner"][n]]
    assert plain(said["parts"]["partner"]) == (
        f"In baseline-de-en: {kind} {layer + 1}.{head + 1}, with which it "
        f"shares {three(arrays['similarity'][n])} of its attention."
    )
    assert f"shares {three(arrays['similarity_unmatched'][n])}" in plain(
        said["parts"]["partner-note"]
    )
    (href,) = said["partner"]
    assert query_of(href) == other | {"head": f"{kind}.{layer}.{head}"}
    old = mounted.show(without(SMALL, "similarity_unmatched"), opened={"head": own}).does()
    assert "cannot be compared with chance" in plain(old["parts"]["partner-note"])


def test_heads_that_cover_lead_to_each_other(mounted: Mounted) -> None:
    pairs = SMALL.arrays["pair_decoder"]
    said = mounted.show(SMALL, opened={"head": "decoder.0.2"}).does()
    first = max(
        (m for m in range(6) if m != 2 and pairs[2, m, 1] > 0), key=lambda m: pairs[2, m, 0]
    )
    name = f"decoder {first // 3 + 1}.{first % 3 + 1}"
    assert said["jumps"][0].startswith(name)
    numbers = told(said["jumps"][0].removeprefix(name))
    assert numbers == pytest.approx(pairs[2, first], abs=0.00051)
    note = said["parts"]["pairs-note"].partition(" In the file")[0]
    assert told(note) == [250, 95, 5, 0.3]
    said = mounted.does(("press", "button.jump"))
    assert said["data"]["head"] == f"decoder.{first // 3}.{first % 3}"


def test_quoted_sentences_lead_into_the_explorer(mounted: Mounted) -> None:
    n = 13
    said = mounted.show(SMALL, opened={"head": "cross.0.1"}).does()
    strength, bounds = SMALL.arrays["strength"][n], SMALL.arrays["deciles"][n]
    tenth = (strength[:, None] >= bounds).sum(-1)
    present = sorted(set(tenth), reverse=True)
    for place, (at, example) in enumerate(zip(present, said["examples"], strict=True)):
        of_it = sorted(np.flatnonzero(tenth == at), key=lambda s: -strength[s])
        sentence = of_it[len(of_it) // 2]
        quoted = SMALL.quoted[sentence]
        assert example["text"] == quoted.source
        numbers = [10 - at, 10, strength[sentence]]
        assert told(example["which"]) == pytest.approx(numbers, abs=0.00051)
        q, k = map(str, SMALL.arrays["cell"][n, sentence])
        assert example["href"].startswith("/?") and query_of(example["href"]) == {
            "source": quoted.source, "target": quoted.target, **LINK,
            "kind": "cross", "layer": "0", "head": "1", "q": q, "k": k,
        }  # fmt: skip
        assert told(example["again"]) == [len(of_it)] * (len(of_it) > 1)
        others = [at for at, one in enumerate(said["examples"]) if one["again"]]
        if len(of_it) > 1 and place == others[-1]:
            again = [("press", ".another", len(others) - 1)] * len(of_it)
            seen = [mounted.does(press)["examples"][place]["text"] for press in again]
            assert len(set(seen)) == len(of_it) and seen[-1] == example["text"]
    mounted.does(("press", ".examples a"))
    query = said["examples"][0]["href"].partition("?")[2]
    # Streamlit adds no history entry for a query that is in the URL already.
    assert mounted.page.evaluate("location.search.slice(1)") == query
    assert mounted.page.evaluate("opened.at(-1)") == ["link", {"page": "", "query": query}]


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
        query_of(mounted.does(act)["query"])["head"]
        for act in (
            ("press", "[data-part=next]"),
            ("key", "heads", "ArrowRight"),
            ("press", "button.jump"),
            ("set", "measure", "entropy"),
            ("press", "[data-part=previous]"),
        )
    ]
    entries = [query_of(url)["head"] for url in mounted.page.evaluate("entries")]
    assert entries == [heads[0], heads[2], heads[4]]
    mounted.page.go_back()
    assert query_of(mounted.page.evaluate("location.search"))["head"] == heads[2]


def test_a_head_leads_to_its_training(mounted: Mounted) -> None:
    mounted.show(SMALL, opened={"head": "decoder.1.2"}, training=True)
    href = mounted.page.evaluate("root().querySelector('[data-part=training]').href")
    assert href.startswith("http://127.0.0.1/training?")
    assert query_of(href) == {**LINK, "kind": "decoder", "layer": "1", "head": "2"}
    mounted.does(("press", "[data-part=training]"))
    query = href.partition("?")[2]
    assert mounted.page.evaluate("opened.at(-1)") == ["link", {"page": "training", "query": query}]
    mounted.show(SMALL)
    assert mounted.page.evaluate("root().querySelector('[data-part=training]').hidden")


def test_pruning_says_how_many_heads_can_go(mounted: Mounted) -> None:
    """The limits are of the values: all these intervals contain the curve's first value."""
    arrays = {name: array.copy() for name, array in SMALL.arrays.items()}
    arrays["prune_encoder_loss"][:5] = [(v, 1.5, 1.8) for v in (1.6, 1.61, 1.64, 1.66, 1.6)]
    arrays["prune_encoder_bleu"][:] = 38.0
    arrays["prune_encoder_bleu"][3:] = 37.6
    arrays["prune_cross_bleu"][:] = 38.0
    arrays["prune_cross_bleu"][1:] = 37.4
    whole = dataclasses.replace(SMALL, arrays=arrays)
    whole = without(whole, "prune_all", "prune_decoder", "prune_cross_loss")
    rank = list(arrays["prune_encoder_order"]).index(3) + 1
    for curve, whole_network, limits in (
        ("loss", 1.62, "2 of 6 encoder heads."),
        ("bleu", 38.4, "6 of 6 encoder heads; 0 of 6 cross-attention heads."),
    ):
        said = mounted.show(whole, opened={"head": "encoder.1.0", "curve": curve}).does()
        text = plain(said["labels"]["pruning"])
        assert limits in text and f" of the whole network: {whole_network} " in text
        assert " on 50 of the 1,000 sentences" in text
        assert f"on Literature, BLEU may fall by {DROP} at most." in text
        assert told(text)[-2:] == [rank, 6]


def test_a_removal_rank_is_an_ordinal(mounted: Mounted) -> None:
    whole = atlas(seed=3, layers=4, heads=4)
    order = list(whole.arrays["prune_all_order"])
    for rank in "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 33rd 48th".split():
        head = ".".join(map(str, whole.heads[order[int(rank[:-2]) - 1]]))
        said = mounted.show(whole, opened={"head": head}).does()
        assert f"removed {rank} of all 48 heads and " in plain(said["labels"]["pruning"])


def test_one_sentence_has_no_intervals_tests_or_deciles(mounted: Mounted) -> None:
    arrays = {name: array.copy() for name, array in bare(SMALL).arrays.items()}
    for name in ("zero", "mean", "entropy", "largest", "loss", *(f"role_{k}" for k in ROLES)):
        arrays[name][..., 1:] = np.nan
    for name in ("zero_p", "mean_p"):
        arrays[name][:] = np.nan
    about = origin(sentences=1, skipped=1)
    whole = dataclasses.replace(bare(SMALL), arrays=arrays, origin=about)
    said = mounted.show(whole, opened={"head": "cross.0.1"}).does()
    assert mounted.page.locator(".single").is_visible()
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
    offered = set(said["options"]["measure"])
    assert not {"bleu", "removed", "similarity"} & offered and "aer" not in " ".join(offered)
    said = mounted.show(without(SMALL, "strength", "role", tokens=())).does()
    assert {"roles", "tokens", "examples"} <= set(said["hidden"])
    assert "alignment" in mounted.show(SMALL, opened={"head": "decoder.1.0"}).does()["hidden"]


@pytest.mark.parametrize(
    ("copies", "said"), [(True, "Copied"), (False, "Copy failed: select, Ctrl+C")]
)
def test_the_command_is_copied_without_the_clipboard_api(mounted: Mounted, copies, said) -> None:
    """Pages without TLS have no clipboard API."""
    assert mounted.show(SMALL).does()["parts"]["command"] == COMMAND
    mounted.page.evaluate(
        """(copies) => {
          Object.defineProperty(navigator, "clipboard", { value: undefined });
          document.execCommand = () => ((window.copied = document.activeElement.value), copies);
        }""",
        copies,
    )
    mounted.does(("press", "[data-part=copy]"))
    expect(mounted.page.locator("[data-part=copy]")).to_have_text(said)
    assert mounted.page.evaluate("window.copied") == COMMAND


@pytest.mark.parametrize("credit", ["", "imported, by A. Author, licence CC-BY 4.0"])
def test_the_origin_of_the_numbers_is_on_the_page_and_in_each_file(
    mounted: Mounted, credit
) -> None:
    mounted.show(SMALL, credit=credit)
    name = f"scratch-de-en ({credit})" if credit else "scratch-de-en"
    text = plain(mounted.does()["parts"]["origin"])
    assert text.startswith(f"{name} (weights 33333333) on {SMALL.origin.corpus}: ")
    numbers = [33333333, 1000, 14211, 13870, 3, 256, 11111111, 22222222]
    assert told(text.removeprefix(name)) == numbers or told(text)[-8:] == numbers
    for picture in ("heads", "scatter", "roles", "distance", "pruning"):
        assert f"; {name}, weights 33333333; " in mounted.csv(picture)[0][0]
        of = f"{name}, weights 33333333; 1,000 sentences of val"
        svg = mounted.saves(f"{picture} svg")[1].decode()
        assert of in svg
        mounted.page.evaluate(f"root().querySelector('[data-picture={picture}] input').click()")
        captioned = mounted.saves(f"{picture} svg")[1].decode()
        assert captioned.count("33333333;") == svg.count("33333333;") + 1
        assert mounted.saves(f"{picture} pdf")[1].startswith(b"%PDF")


def values_of_measures(whole: Atlas) -> dict[str, np.ndarray]:
    """Return each measure of all heads from the atlas's arrays: [N, 3], value, low, high."""
    arrays, none = whole.arrays, np.full((whole.count, 3), np.nan)
    values = {key: arrays[key] for key in ("zero", "mean", "entropy", "largest", "similarity")}
    values |= {"bleu": arrays["bleu_zero"], "removed": none.copy()}
    for rank, n in enumerate(arrays["prune_all_order"]):
        values["removed"][n, 0] = rank + 1
    for kind, role in [(kind, role) for kind, roles in ROLES.items() for role in roles]:
        own = values.setdefault(f"role-{role.strip('<>').replace(' ', '-')}", none.copy())
        own[whole.span(kind)] = arrays[f"role_{kind}"][ROLES[kind].index(role)]
    for r, q in np.ndindex(2, 2):
        own = values[f"aer-{READINGS[r]}-{QUANTITIES[q]}"] = none.copy()
        own[whole.span("cross")] = arrays["aer"][r, q, :-1, :-1].reshape(-1, 3)
    return values


def test_saved_tables_hold_the_atlas(mounted: Mounted) -> None:
    arrays = SMALL.arrays

    def columns(lines: list[list[str]], start: int, count: int = 3) -> np.ndarray:
        rows = [[text or "nan" for text in line[start : start + count]] for line in lines]
        return np.array(rows, np.float32)

    mounted.show(SMALL, opened={"head": "decoder.0.1", "x": "largest", "y": "mean"})
    head, *lines = mounted.csv("heads")
    assert COMMAND in head[0] and head[1:4] == ["kind", "layer", "head"]
    assert [tuple(line[1:4]) for line in lines] == [
        (kind, str(layer), str(number)) for kind, layer, number in SMALL.heads
    ]
    expected = values_of_measures(SMALL)
    assert set(head[4::3]) == set(expected)
    for name, values in expected.items():
        found = columns(lines, head.index(name))
        assert np.array_equal(found, values.astype(np.float32), equal_nan=True), name
    head, *lines = mounted.csv("scatter")
    assert head[4:] == ["largest", "largest low", "largest high", "mean", "mean low", "mean high"]
    assert np.array_equal(columns(lines, 4, 6), np.hstack([arrays["largest"], arrays["mean"]]))
    _, *lines = mounted.csv("roles")
    roles = [ROLES["decoder"].index(line[1]) for line in lines]
    parts = [arrays[f"role_decoder{part}"] for part in ("", "_shuffled", "_random", "_profile")]
    expected = [
        [
            *parts[0][o, 1],
            parts[1][o, 1],
            parts[2][o],
            parts[3][o, 1],
            arrays["role_decoder_rows"][o],
        ]
        for o in roles
    ]
    assert np.array_equal(columns(lines, 2, 7), np.float32(expected), equal_nan=True)
    _, *lines = mounted.csv("distance")
    assert [int(line[1]) for line in lines] == list(DISTANCES)
    assert np.array_equal(columns(lines, 2, 1)[:, 0], arrays["distance"][7])
    _, *lines = mounted.csv("pruning")
    curve = [line for line in lines if line[1] == "cross"]
    kind, layer, number = SMALL.heads[12 + arrays["prune_cross_order"][0]]
    assert curve[1][2:4] == ["1", f"{kind} {layer + 1}.{number + 1}"]
    np.testing.assert_allclose(columns(curve, 4), arrays["prune_cross_loss"], atol=1e-4)
