"""The page "Inside a head": every number, name and colour on it, recomputed from the weights."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from app.look.labels import labels
from core.config import DecodeConfig
from core.experiments.score_split import score_split
from core.experiments.site import Site, site
from core.record.record import TranslationRecord
from core.translator import Translator
from tests.app.rendered import Item, Rendered, array, render

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("project", "product", "scale", "mask", "softmax", "values", "output")
SIDEBAR = re.compile(r"source|translate|direction|model|search|example.*|model_note")


@dataclass(frozen=True)
class Case:
    """A cell of a head, as its link names it."""

    direction: str
    model: str
    source: str
    kind: str
    layer: int
    head: int
    q: int
    k: int


CASES = (
    Case("de-en", "scratch", "Zwei Hunde sehen zwei Hunde.", "decoder", 1, 2, 3, 1),
    Case("en-de", "baseline", "A man in a red shirt reads.", "cross", 2, 0, 4, 5),
    Case("de-en", "baseline", "Ein Hund läuft durch den Schnee.", "encoder", 0, 3, 2, 4),
    Case("en-de", "scratch", "If it rains tomorrow, we will stay at home.", "decoder", 3, 1, 6, 0),
)


class Cell:
    """One cell's arithmetic, each step by its formula in the paper."""

    def __init__(self, record: TranslationRecord, taken: Site, case: Case) -> None:
        self.record, self.taken, self.case = record, taken, case
        size = taken.to_query.shape[0] // taken.num_heads
        own = slice(case.head * size, (case.head + 1) * size)
        x, memory = taken.inputs_QD[case.q], taken.memory_KD
        values = memory @ taken.to_value.T + taken.value_bias
        self.x = x
        self.q = taken.to_query[own] @ x + taken.query_bias[own]
        self.k = memory @ taken.to_key[own].T + taken.key_bias[own]
        self.products = self.q * self.k[case.k]
        self.scores = self.k @ self.q
        self.scaled = self.scores / math.sqrt(size)
        may = np.arange(len(memory)) <= (case.q if case.kind == "decoder" else len(memory))
        self.may = may
        self.masked = np.where(may, self.scaled, -np.inf)
        self.exps = np.exp(self.masked - self.masked.max())
        self.weights = self.exps / self.exps.sum()
        self.added = self.weights[:, None] * values[:, own]
        self.z = self.added.sum(0)
        parts = []
        for head in range(taken.num_heads):
            other = slice(head * size, (head + 1) * size)
            query = taken.to_query[other] @ x + taken.query_bias[other]
            scores = (memory @ taken.to_key[other].T + taken.key_bias[other]) @ query
            exps = np.where(may, np.exp(scores / math.sqrt(size)), 0.0)
            z = (exps / exps.sum()) @ values[:, other]
            parts.append(taken.to_output[:, other] @ z)
        self.parts = np.array(parts)
        self.lengths = np.sqrt((self.parts**2).sum(1))
        self.output = self.parts.sum(0) + taken.output_bias
        first = 0 if case.kind == "decoder" else 1
        keys = self.record.target_in if case.kind == "decoder" else self.record.source
        queries = self.record.source if case.kind == "encoder" else self.record.target_out
        self.keys = labels(keys, first)
        self.queries = labels(queries, 1)
        self.numbered = [f"{first + i} {key}" for i, key in enumerate(self.keys)]


def said(value: float, places: int = 4) -> str:
    """A number as the page is to write it."""
    if value == -math.inf:
        return "−∞"
    text = f"{abs(value):,.{places}f}"
    return f"−{text}" if value < 0 and float(text.replace(",", "")) else text


def tex(value: float) -> str:
    return said(value).replace("−", "-").replace("∞", r"\infty").replace(",", "{,}")


def shown(label: str) -> str:
    return label.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def written(label: str) -> str:
    """A label in Markdown, read back from it."""
    return re.sub(r"\\(?=[<>.,|*_#+-])", "", label)


def is_blue(colour: str) -> bool:
    red, _, blue = map(int, re.findall(r"\d+", colour))
    return blue > red


def open_page(case: Case) -> tuple[Rendered, Cell]:
    place = {name: str(getattr(case, name)) for name in ("kind", "layer", "head", "q", "k")}
    page = render(
        "head",
        *(f"numbers_{name}" for name in NAMES),
        source=case.source,
        direction=case.direction,
        model=case.model,
        search="greedy",
        act=None,
        state=None,
        **place,
    )
    translator = Translator.load(ROOT / f"checkpoints/{case.model}-{case.direction}", device="cpu")
    record = translator.inspect(case.source, decode=DecodeConfig(beam=1))
    ids = [tuple(token.id for token in side) for side in (record.source, record.target_out)]
    with translator.exclusive_model() as model:
        taken = site(model, *ids, case.kind, case.layer)
    return page, Cell(record, taken, case)


def traces(page: Rendered, where: str, kind: str) -> list[dict]:
    return [trace for trace in page.figure(where)["data"] if trace["type"] == kind]


def claim_figure(page: Rendered, where: str, *known: str) -> None:
    """Count a figure's texts as compared, which must all be among `known`."""
    templates = (
        "%{text}<br><b>%{z:.4f}</b><extra></extra>",
        ("%{customdata[0]}<br><b>%{customdata[1]}</b><extra></extra>"),
    )
    for item in page.found(where, "figure"):
        assert item.text in {*known, *templates}, f"{item} is none of {known}"
        item.claimed = True


def claim_words(page: Rendered, where: str, expected: str) -> None:
    """One Markdown text, without the signs that keep tokens literal."""
    (item,) = page.found(where, "markdown")
    assert written(item.text).replace("\u2060", "") == expected
    item.claimed = True


def claim_strip(trace: dict, values: np.ndarray, names: list[str]) -> list[str]:
    """Rows of colours are these numbers, named in the hover; return the texts of its scale."""
    np.testing.assert_allclose(array(trace["z"]), values, rtol=0, atol=2e-6)
    assert trace["zmin"] == -trace["zmax"]
    assert trace["text"] == [
        [f"{name}<br>dimension {i + 1}" for i in range(values.shape[1])] for name in names
    ]
    colours = [colour for _, colour in trace["colorscale"]]
    assert is_blue(colours[-1]) and not is_blue(colours[0])
    if not trace["showscale"]:
        return []
    ends = list(trace["colorbar"]["ticktext"])
    assert ends in ([said(v, 2) for v in (-trace["zmax"], 0, trace["zmax"])], ends[:1] + ends[-1:])
    assert (ends[0], ends[-1]) == (said(-trace["zmax"], 2), said(trace["zmax"], 2))
    at = array(trace["colorbar"]["tickvals"])
    np.testing.assert_allclose(at[[0, -1]], [-trace["zmax"], trace["zmax"]], rtol=1e-3)
    return ends


def claim_bars(trace: dict, values: np.ndarray, names: list[str], places: int = 4) -> None:
    """Bars are these numbers, each printed, and named in the hover."""
    finite = np.where(np.isfinite(values), values, 0.0)
    np.testing.assert_allclose(array(trace["x"]), finite, rtol=0, atol=1e-9)
    assert array(trace["y"]).tolist() == list(range(len(values)))
    texts = [said(v, places) for v in values]
    assert list(trace["text"]) == texts
    assert [list(pair) for pair in trace["customdata"]] == [
        [shown(name), text] for name, text in zip(names, texts, strict=True)
    ]


def claim_axis(axis: dict, names: list[str], chosen: int) -> None:
    """Names beside the bars in their order, the first on top and the chosen one bold."""
    assert list(axis["ticktext"]) == [
        f"<b>{shown(name)}</b>" if i == chosen else shown(name) for i, name in enumerate(names)
    ]
    assert array(axis["tickvals"]).tolist() == list(range(len(names)))
    assert axis["range"][0] > axis["range"][1]


def check_the_sentence_names_the_cell_and_its_weight(page: Rendered, cell: Cell) -> None:
    case = cell.case
    fed = labels(cell.record.target_in, 0)
    position = (
        f"At the position of “{cell.queries[case.q]}”"
        if case.kind == "encoder"
        else f"At the position that reads “{fed[case.q]}” and produces “{cell.queries[case.q]}”"
    )
    page.claim(
        f"{position}, head {case.head + 1} of layer {case.layer + 1} gives "
        f"“{cell.keys[case.k]}” the weight {said(cell.weights[case.k])}.",
        "head_sentence",
    )
    map_QK = cell.record.maps(case.kind)[case.layer, case.head]
    assert cell.weights[case.k] == pytest.approx(float(map_QK[case.q, case.k]), abs=2e-6)
    page.claim_all("head_q", [f"{i + 1} · {word}" for i, word in enumerate(cell.queries)], "option")
    page.claim_all("head_k", [word.replace(" ", " · ", 1) for word in cell.numbered], "option")
    page.claim(f"{case.q + 1} · {cell.queries[case.q]}", "head_q", "raw_value")
    page.claim(cell.numbered[case.k].replace(" ", " · ", 1), "head_k", "raw_value")
    layers, heads = cell.record.maps(case.kind).shape[:2]
    for where, count, at in (("head_layer", layers, case.layer), ("head_head", heads, case.head)):
        page.claim_all(where, [str(n + 1) for n in range(count)], "option")
        page.claim(str(at + 1), where, "raw_value")


def check_the_overview_is_seven_results_with_their_pictures(page: Rendered, cell: Cell) -> None:
    k, size, masked = cell.case.k, len(cell.q), int((~cell.may).sum())
    results = {
        "project": ("Query, key", f"2 × {size} numbers"),
        "product": ("Dot product", f"q·k = {said(cell.scores[k])}"),
        "scale": ("Scaled", f"÷ √{size} = {said(cell.scaled[k])}"),
        "mask": ("Masked", f"{masked} of {len(cell.may)} masked" if masked else "no key masked"),
        "softmax": ("Softmax", f"weight {said(cell.weights[k])}"),
        "values": ("Values", f"z, {size} numbers"),
        "output": ("Output", f"length {said(cell.lengths[cell.case.head], 2)}"),
    }
    for n, (name, (title, result)) in enumerate(results.items(), start=1):
        page.claim(f"[{n} · {title}](#stage-{name})", f"overview_{name}", "markdown")
        page.claim(result, f"overview_{name}", "caption")
    strips = {
        "project": [cell.q, cell.k[k]],
        "product": [cell.products],
        "values": [cell.z],
    }
    for name, rows in strips.items():
        drawn = [array(trace["z"])[0] for trace in traces(page, f"small_{name}", "heatmap")]
        np.testing.assert_allclose(drawn, rows, rtol=0, atol=2e-6)
    finite = np.where(cell.may, cell.scaled, 0.0)
    bars = {"scale": (cell.scaled, k), "mask": (finite, k), "softmax": (cell.weights, k)}
    for name, (values, chosen) in {**bars, "output": (cell.lengths, cell.case.head)}.items():
        (trace,) = traces(page, f"small_{name}", "bar")
        np.testing.assert_allclose(array(trace["y"]), values, rtol=0, atol=1e-9)
        colours = trace["marker"]["color"]
        assert len(set(colours)) <= 2 and colours.count(colours[chosen]) == 1
    veiled = page.figure("small_mask")["layout"].get("shapes", [])
    assert [round(v["x0"] + 0.5) for v in veiled] == np.flatnonzero(~cell.may).tolist()


def check_query_and_key_are_projections(page: Rendered, cell: Cell) -> None:
    k, size, wide = cell.case.k, len(cell.q), len(cell.x)
    h = cell.case.head + 1
    page.claim("1 · Query and key", "stage_project")
    page.claim(
        "$$\n"
        rf"\begin{{aligned}} q &= x_q W_{{{h}}}^Q + b_{{{h}}}^Q \\ k &= x_k W_{{{h}}}^K + "
        rf"b_{{{h}}}^K \end{{aligned}}"
        "\n$$",
        "stage_project",
    )
    claim_words(
        page,
        "stage_project",
        f"Each position enters this attention as a vector x of {wide} numbers. The head's own "
        "matrices turn the query's vector into q and the key's vector into k, "
        f"{size} numbers each. Orange is below zero, blue above; point at a cell for its number.",
    )
    inputs, made = traces(page, "inside_project", "heatmap")
    names = ["x<sub>q</sub>", "x<sub>k</sub>"]
    ends = claim_strip(inputs, np.stack([cell.x, cell.taken.memory_KD[k]]), names)
    ends += claim_strip(made, np.stack([cell.q, cell.k[k]]), ["q", "k"])
    layout = page.figure("inside_project")["layout"]
    assert layout["yaxis"]["ticktext"] == names and layout["yaxis2"]["ticktext"] == ["q", "k"]
    assert layout["yaxis"]["domain"][0] > layout["yaxis2"]["domain"][1]
    hovers = [text for trace in (inputs, made) for row in trace["text"] for text in row]
    claim_figure(page, "inside_project", *names, "q", "k", *ends, *hovers)
    page.claim(f"All {wide} numbers of both x", "numbers_project")
    table = page.table("numbers_project")
    assert list(table) == ["dimension", "x of the query", "x of the key"]
    assert table["dimension"].tolist() == list(range(1, wide + 1))
    np.testing.assert_allclose(table["x of the query"], cell.x, atol=1e-9)
    np.testing.assert_allclose(table["x of the key"], cell.taken.memory_KD[k], atol=1e-9)


def check_the_product_names_its_largest_terms(page: Rendered, cell: Cell) -> None:
    score, size = cell.scores[cell.case.k], len(cell.q)
    named = sorted(range(size), key=lambda e: -abs(cell.products[e]))[:5]
    part = sum(cell.products[e] for e in named)
    page.claim("2 · Dot product", "stage_product")
    page.claim(
        "$$\n" + rf"q \cdot k = \sum_{{e=1}}^{{{size}}} q_e k_e = {tex(score)}" + "\n$$",
        "stage_product",
    )
    claim_words(
        page,
        "stage_product",
        "Multiply q and k dimension by dimension; the sum of the products is the score. "
        f"The 5 largest of {size} products make {said(part, 2)} of {said(score, 2)}, the other "
        f"{size - 5} make {said(score - part, 2)}. Blue raises the score, orange lowers it.",
    )
    (strip,) = traces(page, "inside_product", "heatmap")
    name = "q<sub>e</sub>k<sub>e</sub>"
    ends = claim_strip(strip, cell.products[None], [name])
    (bars,) = traces(page, "inside_product", "bar")
    k = cell.k[cell.case.k]
    names = [f"{e + 1}:  {said(cell.q[e])} × {said(k[e])}" for e in named]
    values = np.array([*(cell.products[e] for e in named), score - part])
    hovers = [*(f"dimension {name}" for name in names), f"the other {size - 5} dimensions"]
    claim_bars(bars, values, hovers)
    colours = bars["marker"]["color"]
    assert [is_blue(colour) for colour in colours[:5]] == [value > 0 for value in values[:5]]
    axis = page.figure("inside_product")["layout"]["yaxis2"]
    claim_axis(axis, [*names, f"the other {size - 5}"], -1)
    claim_figure(
        page,
        "inside_product",
        *(name, *ends, *names, f"the other {size - 5}", *hovers, *map(said, values)),
        *(text for row in strip["text"] for text in row),
    )
    page.claim(f"All {size} numbers of q and k, and their products", "numbers_product")
    table = page.table("numbers_product")
    expected = [np.arange(1, size + 1), cell.q, k, cell.products]
    assert list(table) == ["dimension", "q", "k", "q × k"]
    np.testing.assert_allclose(table.to_numpy().T, expected, atol=1e-9)


def check_scores_are_scaled_and_masked(page: Rendered, cell: Cell) -> None:
    k, size, count = cell.case.k, len(cell.q), len(cell.keys)
    score, scaled, masked = (a[k] for a in (cell.scores, cell.scaled, cell.masked))
    page.claim("3 · Scaled", "stage_scale")
    page.claim(
        "$$\n"
        rf"s_k = \frac{{q \cdot k}}{{\sqrt{{d_k}}}} = \frac{{{tex(score)}}}{{\sqrt{{{size}}}}} = "
        f"{tex(scaled)}\n$$",
        "stage_scale",
    )
    claim_words(
        page,
        "stage_scale",
        f"The same for each of the {count} keys; the chosen one is bold. The code scales q before "
        f"the product, which gives the same number: √{size} = {said(size**0.5)}.",
    )
    hidden = int((~cell.may).sum())
    mask, plus = ("0", "+ 0") if cell.may[k] else (r"-\infty", r"- \infty")
    page.claim("4 · Masked", "stage_mask")
    page.claim(
        "$$\n"
        rf"\begin{{aligned}} M_{{qk}} &= {mask} \\ s_k + M_{{qk}} &= {tex(scaled)} {plus} \\ &= "
        rf"{tex(masked)} \end{{aligned}}"
        "\n$$",
        "stage_mask",
    )
    claim_words(
        page,
        "stage_mask",
        f"{hidden} of {count} keys {'is' if hidden == 1 else 'are'} masked, because the decoder "
        "may not read tokens that come later: −∞ replaces the score."
        if hidden
        else f"No key of these {count} is masked, so no score changes.",
    )
    for name, values in (("scale", cell.scaled), ("mask", cell.masked)):
        if name == "mask" and not hidden:
            assert "inside_mask" not in page.figures
            continue
        *hatched, bars = traces(page, f"inside_{name}", "bar")
        claim_bars(bars, values, cell.keys)
        for value, colour in zip(values, bars["marker"]["color"], strict=True):
            assert not np.isfinite(value) or is_blue(colour) == (value >= 0)
        claim_axis(page.figure(f"inside_{name}")["layout"]["yaxis"], cell.keys, k)
        assert len(hatched) == (name == "mask")
        if hatched:
            assert array(hatched[0]["y"]).tolist() == np.flatnonzero(~cell.may).tolist()
            assert hatched[0]["marker"]["pattern"]["shape"] == "/"
        known = [*map(shown, cell.keys), *map(said, values), f"<b>{shown(cell.keys[k])}</b>"]
        claim_figure(page, f"inside_{name}", "masked", *known)


def check_the_softmax_gives_the_weight(page: Rendered, cell: Cell) -> None:
    k, count = cell.case.k, len(cell.keys)
    total, weight = cell.exps.sum(), cell.weights[k]
    page.claim("5 · Softmax", "stage_softmax")
    page.claim(
        "$$\n"
        r"\begin{aligned} A_{qk} &= \frac{e^{s_k - s_\text{max}}}{\sum_j e^{s_j - s_\text{max}}} "
        rf"\\ &= \frac{{e^{{{tex(cell.masked[k])} - ({tex(cell.masked.max())})}}}}{{{tex(total)}}} "
        rf"= \frac{{{tex(cell.exps[k])}}}{{{tex(total)}}} \\ &= {tex(weight)} \end{{aligned}}"
        "\n$$",
        "stage_softmax",
    )
    case = cell.case
    in_map = float(cell.record.maps(case.kind)[case.layer, case.head, case.q, k])
    claim_words(
        page,
        "stage_softmax",
        "Subtracting the largest score first changes no weight and keeps the powers small. The "
        f"pass itself wrote {said(in_map, 7)} into its map (float32); recomputed here in float64 "
        f"it is {said(weight, 7)}.",
    )
    exps, weights = traces(page, "inside_softmax", "bar")
    claim_bars(exps, cell.exps, cell.keys)
    claim_bars(weights, cell.weights, cell.keys)
    light = [sum(map(int, re.findall(r"\d+", c))) for c in weights["marker"]["color"]]
    order = np.argsort(cell.weights)
    assert (np.diff(np.array(light)[order]) <= 0).all()  # more weight is darker
    layout = page.figure("inside_softmax")["layout"]
    claim_axis(layout["yaxis"], cell.keys, k)
    assert not layout["yaxis2"]["showticklabels"]
    titles = sorted((note["x"], note["text"]) for note in layout["annotations"])
    starts = [layout["xaxis"]["domain"][0], layout["xaxis2"]["domain"][0]]
    assert titles == [(starts[0], "e<sup>s − max</sup>"), (starts[1], "weight")]
    known = [*map(shown, cell.keys), f"<b>{shown(cell.keys[k])}</b>"]
    numbers = [*map(said, cell.exps), *map(said, cell.weights)]
    claim_figure(page, "inside_softmax", *(text for _, text in titles), *known, *numbers)
    page.claim(f"All {count} keys: product, score, power and weight", "numbers_softmax")
    table = page.table("numbers_softmax")
    assert list(table) == ["key", "q·k", "scaled", "masked", "e^(s − max)", "weight"]
    assert table["key"].tolist() == cell.numbered
    expected = [cell.scores, cell.scaled, cell.masked, cell.exps, cell.weights]
    np.testing.assert_allclose(table.iloc[:, 1:].to_numpy(float).T, expected, atol=1e-9)


def check_values_add_up_to_z(page: Rendered, cell: Cell) -> None:
    h, size = cell.case.head + 1, len(cell.q)
    page.claim("6 · Weighted values", "stage_values")
    page.claim(
        "$$\n"
        rf"\begin{{aligned}} z_{{{h}}} &= \sum_k A_{{qk}}\, v_k \\ v_k &= x_k W_{{{h}}}^V + "
        rf"b_{{{h}}}^V \end{{aligned}}"
        "\n$$",
        "stage_values",
    )
    top = sorted(range(len(cell.keys)), key=lambda k: -cell.weights[k])[:3]
    words = ", ".join(f"“{cell.keys[k]}” {said(cell.weights[k])}" for k in top)
    claim_words(
        page,
        "stage_values",
        f"Each key also has a value v of {size} numbers. A row of the picture is a value times its "
        "weight, so a key with little weight leaves a pale row. The rows add up to z, the result "
        f"of the head. The 3 largest of {len(cell.keys)} weights: {words}; together "
        f"{said(cell.weights[top].sum())}.",
    )
    rows, z = traces(page, "inside_values", "heatmap")
    assert rows["zmax"] == z["zmax"]  # a sum is as dark as its terms
    ends = claim_strip(rows, cell.added, list(map(shown, cell.keys)))
    claim_strip(z, cell.z[None], ["z"])
    layout = page.figure("inside_values")["layout"]
    assert [*layout["yaxis"]["ticktext"]] == list(map(shown, cell.keys))
    assert layout["yaxis"]["range"][0] > layout["yaxis"]["range"][1]
    hovers = [text for trace in (rows, z) for row in trace["text"] for text in row]
    claim_figure(page, "inside_values", "z", *ends, *map(shown, cell.keys), *hovers)
    page.claim(f"All {size} numbers of z, and what each key adds", "numbers_values")
    table = page.table("numbers_values")
    assert list(table) == ["dimension", "z", *cell.numbered]
    expected = [np.arange(1, size + 1), cell.z, *cell.added]
    np.testing.assert_allclose(table.to_numpy().T, expected, atol=1e-9)


def check_the_output_is_the_sum_of_the_heads_parts(page: Rendered, cell: Cell) -> None:
    head, heads, size, wide = cell.case.head, len(cell.parts), len(cell.q), len(cell.x)
    rank = 1 + sum(length > cell.lengths[head] for length in cell.lengths)
    page.claim("7 · Its part of the output", "stage_output")
    page.claim(
        rf"$$NL\text{{output}} = \sum_{{h=1}}^{{{heads}}} z_h W_h^O + b^ONL$$".replace("NL", "\n"),
        "stage_output",
    )
    claim_words(
        page,
        "stage_output",
        f"This head's {size} rows of Wᴼ turn z into {wide} numbers. The parts of all {heads} heads "
        "and the bias add up to the output of the attention. "
        + (
            "Its part is the longest here."
            if rank == 1
            else f"Its part is number {rank} of {heads} by length here."
        ),
    )
    (strips,) = traces(page, "inside_output", "heatmap")
    ends = claim_strip(strips, np.stack([cell.parts[head], cell.output]), ["this head", "output"])
    (bars,) = traces(page, "inside_output", "bar")
    names = [f"head {n + 1}" for n in range(heads)]
    claim_bars(bars, cell.lengths, names, 2)
    layout = page.figure("inside_output")["layout"]
    claim_axis(layout["yaxis2"], names, head)
    assert [*layout["yaxis"]["ticktext"]] == ["this head", "output"]
    lengths = [said(length, 2) for length in cell.lengths]
    hovers = [text for row in strips["text"] for text in row]
    known = ["this head", "output", "length of each head’s part", f"<b>head {head + 1}</b>"]
    claim_figure(page, "inside_output", *known, *ends, *names, *lengths, *hovers)
    title = f"All {wide} numbers of each head's part, the bias and the output"
    page.claim(title, "numbers_output")
    table = page.table("numbers_output")
    assert list(table) == ["dimension", *names, "bias", "output"]
    expected = [np.arange(1, wide + 1), *cell.parts, cell.taken.output_bias, cell.output]
    np.testing.assert_allclose(table.to_numpy().T, expected, atol=1e-7)


def check_nothing_else_on_the_page_is_a_number(page: Rendered, cell: Cell) -> None:
    """After the checks above, which claim what they compare."""

    def elsewhere(item: Item) -> bool:
        compared_as_a_table = item.where.startswith("numbers_") and item.kind in (
            "cell",
            "column",
        )
        return bool(
            SIDEBAR.fullmatch(item.where)
            or compared_as_a_table
            or item.kind == "code"
            or (item.kind == "help" and item.where.startswith("stage_"))
            or (item.kind == "figure" and item.where.startswith("small_"))
        )

    page.everything_was_claimed(elsewhere)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.model}-{case.kind}")
def test_everything_on_the_page_follows_from_the_weights(case):
    page, cell = open_page(case)
    check_the_sentence_names_the_cell_and_its_weight(page, cell)
    check_the_overview_is_seven_results_with_their_pictures(page, cell)
    check_query_and_key_are_projections(page, cell)
    check_the_product_names_its_largest_terms(page, cell)
    check_scores_are_scaled_and_masked(page, cell)
    check_the_softmax_gives_the_weight(page, cell)
    check_values_add_up_to_z(page, cell)
    check_the_output_is_the_sum_of_the_heads_parts(page, cell)
    check_nothing_else_on_the_page_is_a_number(page, cell)


def test_the_page_opens_on_the_pinned_token_of_the_first_page(translator):
    source = "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd."
    page = render("head", source=source)
    record = translator.inspect(source)
    text = page.texts("head_sentence")[0]
    found = re.fullmatch(
        r"At the position that reads “red” and produces “shirt₆”, head (\d) of layer (\d) gives "
        r"“Hemd₆” the weight ([\d.]+)\.",
        text,
    )
    assert found, text
    row = record.cross[int(found[2]) - 1, int(found[1]) - 1, 5]
    assert said(float(row.max())) == found[3] and int(row.argmax()) == 5


def test_why_the_head_looks_there_adds_up_to_the_score(translator):
    source = "Ein Hund läuft."
    place = {"kind": "cross", "layer": "2", "head": "1", "q": "1", "k": "1"}
    page = render("head", "open_score", act=None, state=None, source=source, **place)
    split = score_split(translator, translator.inspect(source), "cross", 2, 1, 1, 1)
    named = {"token": "token", "position": "position", "feed-forward": "feed-forward"}

    def groups(end: Literal["query", "key"]) -> list[str]:
        return [
            f"{part.kind} heads" if part.what == "head" else named.get(part.what, "norms, biases")
            for part in split.components(end)
        ]

    rows, columns = groups("query"), groups("key")
    figure = page.figure("why_score")
    layout = figure["layout"]
    names = [[item.text for item in page.found("why_score", "figure")]]
    assert layout["title"]["text"] == f"The score {signed(split.score, 3)} as a sum: query × key"
    assert layout["title"]["subtitle"]["text"].startswith(
        "rows: what wrote the query; columns: what wrote the key; all cells add up to it to "
    )
    seen = set()
    for cell in (text for text in names[0] if "<b>" in text):
        row, column, value = re.split(r" × |: <b>", cell.removesuffix("</b>"))
        at = np.ix_([r == row for r in rows], [c == column for c in columns])
        assert value == signed(split.terms[at].sum(), 2)
        seen.add((row, column))
    assert seen == {(row, column) for row in rows for column in columns}
    (bars,) = page.figure("why_terms")["data"]
    flat = np.argsort(-np.abs(split.terms), axis=None)[:8]
    terms = [np.unravel_index(at, split.terms.shape) for at in flat]
    values = [split.terms[q, k] for q, k in terms]
    np.testing.assert_allclose(array(bars["x"]), [*values, split.score - sum(values)], atol=1e-7)
    labels_ = [
        f"{split.query_components[q].label} × {split.key_components[k].label}" for q, k in terms
    ]
    assert bars["customdata"] == [*labels_, f"{split.terms.size - 8:,} others"]
    table = page.table("why_removals")
    assert list(table) == ["without", "score, norm held", "norm recomputed", *table.columns[3:]]
    assert list(table.columns[3:]) == ["head off everywhere", "weight"]
    for (_, row), part in zip(table.iterrows(), split.removals, strict=True):
        whole = "" if part.whole is None else signed(part.whole.score, 3)
        assert list(row) == [
            f"{part.component.label} ({part.end})",
            signed(part.predicted.score, 3),
            signed(part.true.score, 3),
            whole,
            signed(part.true.weight, 3),
        ]


def signed(value: float, places: int) -> str:
    text = said(value, places)
    return text if text.startswith("−") or not float(text.replace(",", "")) else f"+{text}"
