"""The page "Inside a head", recomputed from the weights."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pytest

from app.look.labels import labels
from core.experiments.score_split import score_split
from core.experiments.site import Site, site
from core.record.record import TranslationRecord
from tests.app.page_checks import (
    drawn,
    is_blue,
    nothing_else,
    number,
    record,
    signed,
    titles,
    traces,
    translator,
)
from tests.app.rendered import Rendered, array, render

STAGES = ("project", "product", "scale", "mask", "softmax", "values", "output")


@dataclass(frozen=True)
class Case:
    """A cell of a head, as in a link."""

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
    """The arithmetic of one cell, step by step as in the paper."""

    def __init__(self, record: TranslationRecord, taken: Site, case: Case) -> None:
        self.record, self.taken, self.case = record, taken, case
        self.size = size = taken.to_query.shape[0] // taken.num_heads
        self.x, memory = taken.inputs_QD[case.q], taken.memory_KD
        values = memory @ taken.to_value.T + taken.value_bias
        last = case.q if case.kind == "decoder" else len(memory)
        self.may = np.arange(len(memory)) <= last
        parts = []
        for head in range(taken.num_heads):
            own = slice(head * size, (head + 1) * size)
            q = taken.to_query[own] @ self.x + taken.query_bias[own]
            k = memory @ taken.to_key[own].T + taken.key_bias[own]
            scores = k @ q
            masked = np.where(self.may, scores / math.sqrt(size), -np.inf)
            exps = np.exp(masked - masked.max())
            weights = exps / exps.sum()
            added = weights[:, None] * values[:, own]
            z = added.sum(0)
            parts.append(taken.to_output[:, own] @ z)
            if head == case.head:
                self.q, self.k, self.scores, self.scaled = q, k, scores, scores / math.sqrt(size)
                self.masked, self.exps, self.weights = masked, exps, weights
                self.added, self.z, self.products = added, z, q * k[case.k]
        self.parts = np.array(parts)
        self.lengths = np.sqrt((self.parts**2).sum(1))
        self.output = self.parts.sum(0) + taken.output_bias
        first = 0 if case.kind == "decoder" else 1
        keys = record.target_in if case.kind == "decoder" else record.source
        queries = record.source if case.kind == "encoder" else record.target_out
        self.keys, self.queries = labels(keys, first), labels(queries, 1)
        self.numbered = [f"{first + i} {key}" for i, key in enumerate(self.keys)]


def tex(value: float) -> str:
    return number(value).replace("−", "-").replace("∞", r"\infty").replace(",", "{,}")


def unescaped(text: str) -> str:
    """Undo the Markdown escapes that keep tokens literal."""
    return re.sub(r"\\(?=[<>.,|*_#+-])", "", text).replace("\u2060", "")


def open_page(case: Case) -> tuple[Rendered, Cell]:
    place = {name: str(getattr(case, name)) for name in ("kind", "layer", "head", "q", "k")}
    page = render(
        "head",
        *(f"numbers_{name}" for name in STAGES),
        source=case.source,
        direction=case.direction,
        model=case.model,
        search="greedy",
        **place,
    )
    name = f"{case.model}-{case.direction}"
    rec = record(case.source, name, beam=1)
    ids = [tuple(token.id for token in side) for side in (rec.source, rec.target_out)]
    with translator(name).exclusive_model() as model:
        return page, Cell(rec, site(model, *ids, case.kind, case.layer), case)


def check_stage(page: Rendered, name: str, formula: str, words: str) -> None:
    """Check a stage's title, formula and text."""
    title = {
        "project": "Query and key",
        "product": "Dot product",
        "scale": "Scaled",
        "mask": "Masked",
        "softmax": "Softmax",
        "values": "Weighted values",
        "output": "The head's part of the output",
    }[name]
    page.claim(f"{STAGES.index(name) + 1} · {title}", f"stage_{name}")
    page.claim(f"$$\n{formula}\n$$", f"stage_{name}")
    (item,) = page.found(f"stage_{name}", "markdown")
    assert unescaped(item.text) == words
    item.claimed = True


def aligned(*lines: str) -> str:
    return r"\begin{aligned} " + r" \\ ".join(lines) + r" \end{aligned}"


def check_table(page: Rendered, name: str, title: str, columns: dict) -> None:
    """Check a stage's table of numbers, column by column."""
    page.claim(title, f"numbers_{name}")
    table = page.table(f"numbers_{name}")
    assert list(table) == list(columns)
    for column, values in columns.items():
        if column == "key":
            assert table[column].tolist() == values
        else:
            np.testing.assert_allclose(table[column].astype(float), values, atol=1e-7)


def check_texts(page: Rendered, where: str, *known: str) -> None:
    """Claim the texts of a figure, which must all be among `known`."""
    hovers = (
        "%{text}<br><b>%{z:.4f}</b><extra></extra>",
        "%{customdata[0]}<br><b>%{customdata[1]}</b><extra></extra>",
    )
    for item in page.found(where, "figure"):
        assert item.text in {*known, *hovers}, item
        item.claimed = True


def check_strip(trace: dict, values: np.ndarray, names: list[str]) -> list[str]:
    """Check rows of colours; return the texts of their hovers and of the colour bar."""
    np.testing.assert_allclose(array(trace["z"]), values, rtol=0, atol=2e-6)
    limit = trace["zmax"]
    assert trace["zmin"] == -limit
    hovers = [[f"{name}<br>dimension {i + 1}" for i in range(values.shape[1])] for name in names]
    assert trace["text"] == hovers
    assert is_blue(trace["colorscale"][-1][1]) and not is_blue(trace["colorscale"][0][1])
    ends = []
    if trace["showscale"]:
        ends = list(trace["colorbar"]["ticktext"])
        expected = [number(v, 2) for v in (-limit, 0, limit)]
        assert ends in (expected, expected[::2])
        at = array(trace["colorbar"]["tickvals"])
        np.testing.assert_allclose(at[[0, -1]], [-limit, limit], rtol=1e-3)
    return [*ends, *(text for row in hovers for text in row)]


def check_bars(trace: dict, values: np.ndarray, names: list[str], places: int = 4) -> list[str]:
    """Check bars, the numbers printed on them and the names in their hovers."""
    finite = np.where(np.isfinite(values), values, 0.0)
    np.testing.assert_allclose(array(trace["x"]), finite, rtol=0, atol=1e-9)
    assert array(trace["y"]).tolist() == list(range(len(values)))
    texts = [number(v, places) for v in values]
    assert list(trace["text"]) == texts
    hovers = list(zip(drawn(names), texts, strict=True))
    assert [tuple(pair) for pair in trace["customdata"]] == hovers
    return [*drawn(names), *texts]


def check_axis(axis: dict, names: list[str], chosen: int | None = None) -> list[str]:
    """Check the names of the bars: the first is on top, the chosen one is bold."""
    expected = [f"<b>{name}</b>" if i == chosen else name for i, name in enumerate(drawn(names))]
    assert list(axis["ticktext"]) == expected
    assert array(axis["tickvals"]).tolist() == list(range(len(names)))
    assert axis["range"][0] > axis["range"][1]
    return expected


def check_the_cell(page: Rendered, cell: Cell) -> None:
    case = cell.case
    fed = labels(cell.record.target_in, 0)
    position = (
        f"At the position of “{cell.queries[case.q]}”"
        if case.kind == "encoder"
        else f"At the position that reads “{fed[case.q]}” and produces “{cell.queries[case.q]}”"
    )
    page.claim(
        f"{position}, head {case.head + 1} of layer {case.layer + 1} gives "
        f"“{cell.keys[case.k]}” the weight {number(cell.weights[case.k])}.",
        "head_sentence",
    )
    written = cell.record.maps(case.kind)[case.layer, case.head, case.q, case.k]
    assert cell.weights[case.k] == pytest.approx(float(written), abs=2e-6)
    layers, heads = cell.record.maps(case.kind).shape[:2]
    for where, options, chosen in (
        ("head_q", [f"{i + 1} · {word}" for i, word in enumerate(cell.queries)], case.q),
        ("head_k", [word.replace(" ", " · ", 1) for word in cell.numbered], case.k),
        ("head_layer", [str(n + 1) for n in range(layers)], case.layer),
        ("head_head", [str(n + 1) for n in range(heads)], case.head),
    ):
        page.claim_all(where, options, "option")
        page.claim(options[chosen], where, "raw_value")


def check_the_overview(page: Rendered, cell: Cell) -> None:
    k, size, masked = cell.case.k, cell.size, int((~cell.may).sum())
    results = {
        "project": ("Query, key", f"2 × {size} numbers"),
        "product": ("Dot product", f"q·k = {number(cell.scores[k])}"),
        "scale": ("Scaled", f"÷ √{size} = {number(cell.scaled[k])}"),
        "mask": ("Masked", f"{masked} of {len(cell.may)} masked" if masked else "no key masked"),
        "softmax": ("Softmax", f"weight {number(cell.weights[k])}"),
        "values": ("Values", f"z, {size} numbers"),
        "output": ("Output", f"length {number(cell.lengths[cell.case.head], 2)}"),
    }
    for n, (name, (title, result)) in enumerate(results.items(), start=1):
        page.claim(f"[{n} · {title}](#stage-{name})", f"overview_{name}", "markdown")
        page.claim(result, f"overview_{name}", "caption")
    rows = {"project": [cell.q, cell.k[k]], "product": [cell.products], "values": [cell.z]}
    for name, expected in rows.items():
        strips = traces(page.figure(f"small_{name}"), type="heatmap")
        sent = [array(strip["z"])[0] for strip in strips]
        np.testing.assert_allclose(sent, expected, rtol=0, atol=2e-6)
    for name, values, chosen in (
        ("scale", cell.scaled, k),
        ("mask", np.where(cell.may, cell.scaled, 0.0), k),
        ("softmax", cell.weights, k),
        ("output", cell.lengths, cell.case.head),
    ):
        (bars,) = traces(page.figure(f"small_{name}"), type="bar")
        np.testing.assert_allclose(array(bars["y"]), values, rtol=0, atol=1e-9)
        colours = bars["marker"]["color"]
        assert len(set(colours)) <= 2 and colours.count(colours[chosen]) == 1
    shaded = page.figure("small_mask")["layout"].get("shapes", [])
    assert [round(v["x0"] + 0.5) for v in shaded] == np.flatnonzero(~cell.may).tolist()


def check_projections(page: Rendered, cell: Cell) -> None:
    k, wide, h = cell.case.k, len(cell.x), cell.case.head + 1
    check_stage(
        page,
        "project",
        aligned(
            rf"q &= x_q W_{{{h}}}^Q + b_{{{h}}}^Q",
            rf"k &= x_k W_{{{h}}}^K + b_{{{h}}}^K",
        ),
        f"Each position enters this attention as a vector x of {wide} numbers. The head's own "
        "matrices turn the query's vector into q and the key's vector into k, "
        f"{cell.size} numbers each. Orange is below zero, blue above; point at a cell for its "
        "number.",
    )
    inputs = np.stack([cell.x, cell.taken.memory_KD[k]])
    figure = page.figure("inside_project")
    upper, lower = traces(figure, type="heatmap")
    names = ["x<sub>q</sub>", "x<sub>k</sub>"]
    known = check_strip(upper, inputs, names)
    known += check_strip(lower, np.stack([cell.q, cell.k[k]]), ["q", "k"])
    layout = figure["layout"]
    assert (layout["yaxis"]["ticktext"], layout["yaxis2"]["ticktext"]) == (names, ["q", "k"])
    assert layout["yaxis"]["domain"][0] > layout["yaxis2"]["domain"][1]
    check_texts(page, "inside_project", *names, "q", "k", *known)
    columns = {"dimension": range(1, wide + 1)}
    columns |= {"x of the query": inputs[0], "x of the key": inputs[1]}
    check_table(page, "project", f"All {wide} numbers of both vectors x", columns)


def check_the_product(page: Rendered, cell: Cell) -> None:
    score, size, k = cell.scores[cell.case.k], cell.size, cell.k[cell.case.k]
    largest = sorted(range(size), key=lambda e: -abs(cell.products[e]))[:5]
    part = sum(cell.products[e] for e in largest)
    check_stage(
        page,
        "product",
        rf"q \cdot k = \sum_{{e=1}}^{{{size}}} q_e k_e = {tex(score)}",
        "Multiply q and k dimension by dimension; the sum of the products is the dot product "
        f"q·k. The 5 largest of {size} products add up to {number(part, 4)}, the other "
        f"{size - 5} to {number(score - part, 4)}; q·k is {number(score, 4)}. Blue raises q·k, "
        "orange lowers it.",
    )
    figure = page.figure("inside_product")
    (strip,), (bars,) = traces(figure, type="heatmap"), traces(figure, type="bar")
    title, rest = "q<sub>e</sub>k<sub>e</sub>", f"the other {size - 5}"
    names = [f"{e + 1}:  {number(cell.q[e])} × {number(k[e])}" for e in largest]
    values = np.array([*cell.products[largest], score - part])
    known = check_strip(strip, cell.products[None], [title])
    known += check_bars(bars, values, [*(f"dimension {n}" for n in names), f"{rest} dimensions"])
    known += check_axis(figure["layout"]["yaxis2"], [*names, rest])
    assert [is_blue(c) for c in bars["marker"]["color"][:5]] == [v > 0 for v in values[:5]]
    check_texts(page, "inside_product", title, *known)
    columns = {"dimension": range(1, size + 1), "q": cell.q, "k": k, "q × k": cell.products}
    title = f"All {size} numbers of q and k, and their products"
    check_table(page, "product", title, columns)


def check_scaling_and_mask(page: Rendered, cell: Cell) -> None:
    k, size, count = cell.case.k, cell.size, len(cell.keys)
    score, scaled, masked = (a[k] for a in (cell.scores, cell.scaled, cell.masked))
    check_stage(
        page,
        "scale",
        rf"s_k = \frac{{q \cdot k}}{{\sqrt{{d_k}}}} = \frac{{{tex(score)}}}{{\sqrt{{{size}}}}} = "
        f"{tex(scaled)}",
        "Every key's dot product is divided by √d_k; the result is the score. The chosen key is "
        f"bold. Here √{size} = {number(size**0.5)}. The code scales q before the product, "
        "which gives the same score.",
    )
    hidden = int((~cell.may).sum())
    mask, plus = ("0", "+ 0") if cell.may[k] else (r"-\infty", r"- \infty")
    check_stage(
        page,
        "mask",
        aligned(
            f"M_{{qk}} &= {mask}",
            f"s_k + M_{{qk}} &= {tex(scaled)} {plus}",
            f"&= {tex(masked)}",
        ),
        f"{hidden} of {count} keys {'is' if hidden == 1 else 'are'} masked, because the decoder "
        "may not read tokens that come later: −∞ replaces the score."
        if hidden
        else f"None of these {count} keys is masked, so no score changes.",
    )
    assert ("inside_mask" in page.figures) == bool(hidden)
    for name, values in (("scale", cell.scaled), ("mask", cell.masked))[: 1 + bool(hidden)]:
        figure = page.figure(f"inside_{name}")
        *hatched, bars = traces(figure, type="bar")
        known = check_bars(bars, values, cell.keys)
        known += check_axis(figure["layout"]["yaxis"], cell.keys, k)
        for value, colour in zip(values, bars["marker"]["color"], strict=True):
            assert not np.isfinite(value) or is_blue(colour) == (value >= 0)
        assert len(hatched) == (name == "mask")
        for trace in hatched:
            assert array(trace["y"]).tolist() == np.flatnonzero(~cell.may).tolist()
            assert trace["marker"]["pattern"]["shape"] == "/"
        check_texts(page, f"inside_{name}", "masked", *known)


def check_the_softmax(page: Rendered, cell: Cell) -> None:
    case, k, count = cell.case, cell.case.k, len(cell.keys)
    total, weight = cell.exps.sum(), cell.weights[k]
    in_map = float(cell.record.maps(case.kind)[case.layer, case.head, case.q, k])
    check_stage(
        page,
        "softmax",
        aligned(
            r"A_{qk} &= \frac{e^{s_k - s_\text{max}}}{\sum_j e^{s_j - s_\text{max}}}",
            rf"&= \frac{{e^{{{tex(cell.masked[k])} - ({tex(cell.masked.max())})}}}}{{{tex(total)}}}"
            rf" = \frac{{{tex(cell.exps[k])}}}{{{tex(total)}}}",
            f"&= {tex(weight)}",
        ),
        "The largest score is subtracted first, which changes no weight and keeps the exponentials "
        f"small. In the map of the pass the weight is {number(in_map, 7)} (float32); recomputed "
        f"here in float64 it is {number(weight, 7)}.",
    )
    figure = page.figure("inside_softmax")
    layout = figure["layout"]
    exps, weights = traces(figure, type="bar")
    known = check_bars(exps, cell.exps, cell.keys) + check_bars(weights, cell.weights, cell.keys)
    known += check_axis(layout["yaxis"], cell.keys, k)
    assert not layout["yaxis2"]["showticklabels"]
    light = [sum(map(int, re.findall(r"\d+", c))) for c in weights["marker"]["color"]]
    assert (np.diff(np.array(light)[np.argsort(cell.weights)]) <= 0).all()  # larger is darker
    notes = sorted((note["x"], note["text"]) for note in layout["annotations"])
    starts = [layout["xaxis"]["domain"][0], layout["xaxis2"]["domain"][0]]
    assert notes == [(starts[0], "e<sup>s − max</sup>"), (starts[1], "weight")]
    check_texts(page, "inside_softmax", *(text for _, text in notes), *known)
    columns = {
        "key": cell.numbered,
        "q·k": cell.scores,
        "scaled": cell.scaled,
        "masked": cell.masked,
        "e^(s − max)": cell.exps,
        "weight": cell.weights,
    }
    title = f"All {count} keys: product, score, exponential and weight"
    check_table(page, "softmax", title, columns)


def check_the_values(page: Rendered, cell: Cell) -> None:
    h, size = cell.case.head + 1, cell.size
    top = sorted(range(len(cell.keys)), key=lambda k: -cell.weights[k])[:3]
    words = ", ".join(f"“{cell.keys[k]}” {number(cell.weights[k])}" for k in top)
    check_stage(
        page,
        "values",
        aligned(
            rf"z_{{{h}}} &= \sum_k A_{{qk}}\, v_k",
            rf"v_k &= x_k W_{{{h}}}^V + b_{{{h}}}^V",
        ),
        f"Each key also has a value v of {size} numbers. A row of the picture is a value times its "
        "weight, so a key with little weight leaves a pale row. The rows add up to z, the result "
        f"of the head. The 3 largest of {len(cell.keys)} weights: {words}; together "
        f"{number(cell.weights[top].sum())}.",
    )
    figure = page.figure("inside_values")
    rows, z = traces(figure, type="heatmap")
    assert rows["zmax"] == z["zmax"]  # one scale for the sum and its terms
    known = check_strip(rows, cell.added, drawn(cell.keys)) + check_strip(z, cell.z[None], ["z"])
    known += check_axis(figure["layout"]["yaxis"], cell.keys)
    check_texts(page, "inside_values", "z", *known)
    columns = {"dimension": range(1, size + 1), "z": cell.z}
    columns |= dict(zip(cell.numbered, cell.added, strict=True))
    title = f"All {size} numbers of z, and what each key adds"
    check_table(page, "values", title, columns)


def check_the_output(page: Rendered, cell: Cell) -> None:
    head, heads, wide = cell.case.head, len(cell.parts), len(cell.x)
    rank = 1 + sum(length > cell.lengths[head] for length in cell.lengths)
    longest = "Its part is the longest here."
    check_stage(
        page,
        "output",
        rf"\text{{output}} = \sum_{{h=1}}^{{{heads}}} z_h W_h^O + b^O",
        f"This head's {cell.size} rows of Wᴼ turn z into {wide} numbers. The parts of all {heads} "
        "heads and the bias add up to the output of the attention. "
        + (longest if rank == 1 else f"By length, its part ranks number {rank} of {heads} here."),
    )
    figure = page.figure("inside_output")
    (strips,), (bars,) = traces(figure, type="heatmap"), traces(figure, type="bar")
    names, rows = [f"head {n + 1}" for n in range(heads)], ["this head", "output"]
    known = check_strip(strips, np.stack([cell.parts[head], cell.output]), rows)
    known += check_bars(bars, cell.lengths, names, 2)
    known += check_axis(figure["layout"]["yaxis2"], names, head)
    assert [*figure["layout"]["yaxis"]["ticktext"]] == rows
    check_texts(page, "inside_output", *rows, "length of each head’s part", *known)
    columns = {"dimension": range(1, wide + 1), **dict(zip(names, cell.parts, strict=True))}
    columns |= {"bias": cell.taken.output_bias, "output": cell.output}
    title = f"All {wide} numbers of each head's part, the bias and the output"
    check_table(page, "output", title, columns)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.model}-{case.kind}")
def test_everything_on_the_page_follows_from_the_weights(case):
    page, cell = open_page(case)
    for check in (
        check_the_cell,
        check_the_overview,
        check_projections,
        check_the_product,
        check_scaling_and_mask,
        check_the_softmax,
        check_the_values,
        check_the_output,
    ):
        check(page, cell)
    nothing_else(
        page,
        *(f"numbers_{name}" for name in STAGES),
        *(f"small_{name}" for name in STAGES),
        but=lambda item: item.kind == "code_text",  # compared by test_inside_head.py
    )


def test_the_page_opens_on_the_pinned_token_of_the_first_page():
    source = "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd."
    text = render("head", source=source).texts("head_sentence")[0]
    match = re.fullmatch(
        r"At the position that reads “red” and produces “shirt₆”, head (\d) of layer (\d) gives "
        r"“Hemd₆” the weight ([\d.]+)\.",
        text,
    )
    assert match, text
    row = record(source).cross[int(match[2]) - 1, int(match[1]) - 1, 5]
    assert number(float(row.max())) == match[3] and int(row.argmax()) == 5


def test_the_split_score_adds_up():
    source = "Ein Hund läuft."
    place = {"kind": "cross", "layer": "2", "head": "1", "q": "1", "k": "1"}
    page = render("head", "open_score", source=source, **place)
    split = score_split(translator("scratch-de-en"), record(source), "cross", 2, 1, 1, 1)

    def groups(components) -> list[str]:
        named = ("token", "position", "feed-forward")
        return [
            f"{part.kind} heads"
            if part.what == "head"
            else part.what
            if part.what in named
            else "norms, biases"
            for part in components
        ]

    rows, columns = groups(split.query_components), groups(split.key_components)
    title, subtitle = titles(page.figure("why_score"))
    assert title == f"The score {signed(split.score)}, split by parts of query and key"
    assert subtitle.startswith(
        "rows: parts of the query; columns: parts of the key; all cells add up to the score within "
    )
    cells = {}
    for text in page.texts("why_score", "figure"):
        if "<b>" in text:
            row, column, value = re.split(r" × |: <b>", text.removesuffix("</b>"))
            cells[row, column] = value
    assert cells == {
        (row, column): signed(
            split.terms[np.ix_([r == row for r in rows], [c == column for c in columns])].sum(), 2
        )
        for row in rows
        for column in columns
    }
    (bars,) = page.figure("why_terms")["data"]
    order = np.argsort(-np.abs(split.terms), axis=None)[:8]
    terms = [np.unravel_index(at, split.terms.shape) for at in order]
    values = [split.terms[at] for at in terms]
    np.testing.assert_allclose(array(bars["x"]), [*values, split.score - sum(values)], atol=1e-7)
    assert bars["customdata"] == [
        *(f"{split.query_components[q].label} × {split.key_components[k].label}" for q, k in terms),
        f"{split.terms.size - 8:,} others",
    ]
    table = page.table("why_removals")
    assert list(table) == [
        *("without", "Δ score, norm fixed", "Δ score, norm recomputed"),
        *("Δ score, head off in the whole pass", "Δ weight, norm recomputed"),
    ]
    assert table.to_numpy().tolist() == [
        [
            f"{part.component.label} ({part.end})",
            signed(part.predicted.score),
            signed(part.true.score),
            "" if part.whole is None else signed(part.whole.score),
            signed(part.true.weight),
        ]
        for part in split.removals
    ]
