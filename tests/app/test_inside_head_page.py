"""The page "Inside a head", recomputed from the weights."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from app.look.labels import labels
from app.look.numbers import scientific
from core.experiments.score_split import score_split
from core.experiments.site import Site, site
from core.record.record import TranslationRecord
from tests.app.charts import Value, holds, plain, says, shows
from tests.app.page_checks import (
    is_blue,
    nothing_else,
    number,
    percent,
    record,
    signed,
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


def short(value: float) -> str:
    return number(value) if np.isinf(value) else scientific(float(value))


def tex(value: float, digits: int = 3) -> str:
    if np.isinf(value):
        return number(value).replace("−", "-").replace("∞", r"\infty")
    base, _, power = f"{value:.{digits}g}".partition("e")
    return base + (rf" \cdot 10^{{{int(power)}}}" if power else "")


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


def stage(page: Rendered, name: str, formula: Sequence[str], *words: Value) -> None:
    """Check the numbers of a stage's title, formula and text."""
    where = f"stage_{name}"
    says(page, where, f"{STAGES.index(name) + 1} · ")
    (shown,) = (item for item in page.found(where) if item.text.startswith("$$"))
    assert holds(shown.text, formula), (shown.text, formula)
    shown.claimed = True
    (said,) = (item for item in page.found(where, "markdown"))
    assert holds(said.text, words), (said.text, words)
    said.claimed = True


def check_table(page: Rendered, name: str, count: int, columns: dict) -> None:
    """Check a stage's table of numbers, column by column."""
    says(page, f"numbers_{name}", f"All {count} ")
    table = page.table(f"numbers_{name}")
    assert list(table) == list(columns)
    for column, values in columns.items():
        if column == "key":
            assert table[column].tolist() == values
        else:
            np.testing.assert_allclose(table[column].astype(float), values, atol=1e-7)


def strips(rows: dict[str, np.ndarray]) -> list[tuple[str, float]]:
    """Return the rows of vectors that are drawn as rows of cells."""
    return [(f"{name}, dimension {i}", value) for name, vector in rows.items()
            for i, value in enumerate(vector, start=1)]  # fmt: skip


def bars(names: Sequence[str], values: Sequence[float], places: int = 2) -> list[list[str]]:
    """Return the values of the hovers of bars."""
    return [[name, number(value, places)] for name, value in zip(names, values, strict=True)]


def check_names(axis: dict, names: Sequence[str], chosen: str | None = None) -> None:
    """Check the names of bars; the chosen one is bold."""
    assert [plain(name) for name in axis["ticktext"]] == list(names)
    assert [plain(name) for name in axis["ticktext"] if "<b>" in name] == [chosen] * bool(chosen)


def check_the_cell(page: Rendered, cell: Cell) -> None:
    case = cell.case
    fed = labels(cell.record.target_in, 0)
    position = (
        f"At the position of “{cell.queries[case.q]}”"
        if case.kind == "encoder"
        else f"At the position that reads “{fed[case.q]}” and produces “{cell.queries[case.q]}”"
    )
    place = position, str(case.head + 1), f"layer {case.layer + 1}"
    says(page, "head_sentence", *place, f"“{cell.keys[case.k]}”", short(cell.weights[case.k]))
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


def check_the_line_of_results(page: Rendered, cell: Cell) -> None:
    k, size, masked = cell.case.k, cell.size, int((~cell.may).sum())
    results = (
        f"q·k = {number(cell.scores[k], 2)}",
        f"÷ √{size} = {number(cell.scaled[k], 2)}",
        *[f"{masked} of {len(cell.may)} masked"] * bool(masked),
        f"weight {short(cell.weights[k])}",
    )
    page.claim(" → ".join(results), "head_sentence", "caption")
    if "pictured_head" in page.figures:  # the page asks about the row's two largest scores
        both = {"score": cell.masked, "weight": cell.weights}
        rows = [(name, *at) for name, of in both.items() for at in zip(cell.keys, of, strict=True)]
        hovers = [bar for of in both.values() for bar in bars(cell.keys, of)]
        shows(page, "pictured_head", rows, hovers=hovers)


def check_projections(page: Rendered, cell: Cell) -> None:
    k, wide, h = cell.case.k, len(cell.x), str(cell.case.head + 1)
    stage(page, "project", [h] * 4, str(wide), str(cell.size))
    inputs = np.stack([cell.x, cell.taken.memory_KD[k]])
    rows = strips({"xq": inputs[0], "xk": inputs[1], "q": cell.q, "k": cell.k[k]})
    layout = shows(page, "inside_project", rows)["layout"]
    assert layout["yaxis"]["domain"][0] > layout["yaxis2"]["domain"][1]
    columns = {"dimension": range(1, wide + 1)}
    columns |= {"x of the query": inputs[0], "x of the key": inputs[1]}
    check_table(page, "project", wide, columns)


def check_the_product(page: Rendered, cell: Cell) -> None:
    score, size, k = cell.scores[cell.case.k], cell.size, cell.k[cell.case.k]
    largest = sorted(range(size), key=lambda e: -abs(cell.products[e]))[:5]
    part = sum(cell.products[e] for e in largest)
    sums = "5", str(size), short(part), str(size - 5), short(score - part), short(score)
    stage(page, "product", ["1", str(size), tex(score)], *sums)
    names = [f"{e + 1}:  {number(cell.q[e], 2)} × {number(k[e], 2)}" for e in largest]
    names.append(f"the other {size - 5}")
    values = [*cell.products[largest], score - part]
    rows = [*strips({"qeke": cell.products}), *zip(names, values, strict=True)]
    told = [None] * size + bars([f"dimension {n}" for n in names[:5]] + names[5:], values)
    figure = shows(page, "inside_product", rows, hovers=told)
    check_names(figure["layout"]["yaxis2"], names)
    (drawn,) = traces(figure, type="bar")
    assert [is_blue(c) for c in drawn["marker"]["color"][:5]] == [v > 0 for v in values[:5]]
    columns = {"dimension": range(1, size + 1), "q": cell.q, "k": k, "q × k": cell.products}
    check_table(page, "product", size, columns)


def check_scaling_and_mask(page: Rendered, cell: Cell) -> None:
    k, size, count = cell.case.k, cell.size, len(cell.keys)
    score, scaled, masked = tex(cell.scores[k], 4), tex(cell.scaled[k]), tex(cell.masked[k])
    stage(page, "scale", [score, str(size), scaled], f"√{size} = {size**0.5:.4g}")
    hidden = int((~cell.may).sum())
    plus = ["0", scaled, "0"] if cell.may[k] else [r"-\infty", scaled, r"\infty"]
    few = ["is masked" if hidden == 1 else "are masked", "−∞"]
    said = [str(hidden), str(count), *few] if hidden else [str(count), "no score changes"]
    stage(page, "mask", [*plus, masked], *said)
    assert ("inside_mask" in page.figures) == bool(hidden)
    for name, values in (("scale", cell.scaled), ("mask", cell.masked))[: 1 + bool(hidden)]:
        rows = [*zip(cell.keys, values, strict=True)]
        figure = shows(page, f"inside_{name}", rows, hovers=bars(cell.keys, values))
        *hatched, drawn = traces(figure, type="bar")
        check_names(figure["layout"]["yaxis"], cell.keys, cell.keys[k])
        for value, colour in zip(values, drawn["marker"]["color"], strict=True):
            assert not np.isfinite(value) or is_blue(colour) == (value >= 0)
        assert len(hatched) == (name == "mask")
        for trace in hatched:
            assert array(trace["y"]).tolist() == np.flatnonzero(~cell.may).tolist()
            assert trace["marker"]["pattern"]["shape"] == "/"


def check_the_softmax(page: Rendered, cell: Cell) -> None:
    case, k = cell.case, cell.case.k
    total, weight = cell.exps.sum(), cell.weights[k]
    in_map = float(cell.record.maps(case.kind)[case.layer, case.head, case.q, k])
    fraction = [cell.masked[k], cell.masked.max(), total, cell.exps[k], total]
    apart = pytest.approx(abs(in_map - weight), rel=0.06, abs=1e-12)
    said = "float32", "float64", apart
    stage(page, "softmax", [*(tex(one, 4) for one in fraction), tex(weight)], *said)
    rows = [("e^(s − max)", *row) for row in zip(cell.keys, cell.exps, strict=True)]
    rows += [("weight", *row) for row in zip(cell.keys, cell.weights, strict=True)]
    told = bars(cell.keys, cell.exps, 3) + bars(cell.keys, cell.weights, 3)
    figure = shows(page, "inside_softmax", rows, hovers=told)
    layout = figure["layout"]
    weights = traces(figure, type="bar")[1]
    check_names(layout["yaxis"], cell.keys, cell.keys[k])
    assert not layout["yaxis2"]["showticklabels"]
    light = [sum(map(int, re.findall(r"\d+", c))) for c in weights["marker"]["color"]]
    assert (np.diff(np.array(light)[np.argsort(cell.weights)]) <= 0).all()  # larger is darker
    notes = sorted((note["x"], plain(note["text"])) for note in layout["annotations"])
    starts = [layout["xaxis"]["domain"][0], layout["xaxis2"]["domain"][0]]
    assert notes == [(starts[0], "es − max"), (starts[1], "weight")]
    columns = {
        "key": cell.numbered,
        "q·k": cell.scores,
        "scaled": cell.scaled,
        "masked": cell.masked,
        "e^(s − max)": cell.exps,
        "weight": cell.weights,
    }
    check_table(page, "softmax", len(cell.keys), columns)


def check_the_values(page: Rendered, cell: Cell) -> None:
    h, size = str(cell.case.head + 1), cell.size
    top = sorted(range(len(cell.keys)), key=lambda k: -cell.weights[k])[:3]
    words = [f"“{cell.keys[k]}” {percent(cell.weights[k])}" for k in top]
    together = percent(cell.weights[top].sum())
    stage(page, "values", [h] * 3, str(size), "3", str(len(cell.keys)), *words, together)
    rows = [
        (f"{key}, dimension {i}", value)
        for key, added in zip(cell.keys, cell.added, strict=True)
        for i, value in enumerate(added, start=1)
    ]
    figure = shows(page, "inside_values", [*rows, *strips({"z": cell.z})])
    added, z = traces(figure, type="heatmap")
    assert added["zmax"] == z["zmax"]  # one scale for the sum and its terms
    check_names(figure["layout"]["yaxis"], cell.keys)
    columns = {"dimension": range(1, size + 1), "z": cell.z}
    columns |= dict(zip(cell.numbered, cell.added, strict=True))
    check_table(page, "values", size, columns)


def check_the_output(page: Rendered, cell: Cell) -> None:
    head, heads, wide = cell.case.head, len(cell.parts), len(cell.x)
    rank = 1 + sum(length > cell.lengths[head] for length in cell.lengths)
    said = ["longest"] if rank == 1 else [str(rank), str(heads)]
    stage(page, "output", ["1", str(heads)], str(cell.size), str(wide), str(heads), *said)
    names = [f"head {n + 1}" for n in range(heads)]
    rows = strips({"this head": cell.parts[head], "output": cell.output})
    rows += zip(names, cell.lengths, strict=True)
    told = [None] * (2 * wide) + bars(names, cell.lengths)
    figure = shows(page, "inside_output", rows, "length of each head", hovers=told)
    check_names(figure["layout"]["yaxis2"], names, names[head])
    columns = {"dimension": range(1, wide + 1), **dict(zip(names, cell.parts, strict=True))}
    columns |= {"bias": cell.taken.output_bias, "output": cell.output}
    check_table(page, "output", wide, columns)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.model}-{case.kind}")
def test_everything_on_the_page_follows_from_the_weights(case):
    page, cell = open_page(case)
    for check in (
        check_the_cell,
        check_the_line_of_results,
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
        but=lambda item: item.kind == "code_text" or item.where == "question_head",
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
    assert short(float(row.max())) == match[3] and int(row.argmax()) == 5


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
    sums = {
        (row, column): split.terms[
            np.ix_([r == row for r in rows], [c == column for c in columns])
        ].sum()
        for row in dict.fromkeys(rows)
        for column in dict.fromkeys(columns)
    }
    cells = page.charts["why_score"].rows()
    assert {one.place: one.value for one in cells} == {
        ", ".join(at): pytest.approx(value, abs=1e-5) for at, value in sums.items()
    }
    in_order = [at for one in cells for at in sums if ", ".join(at) == one.place]
    hovers = [(f"{row} × {column}", signed(sums[row, column], 2)) for row, column in in_order]
    error = pytest.approx(0, abs=1e-5)
    score = f"The score {signed(split.score, 2)}"
    shows(page, "why_score", [one[1:3] for one in cells], score, error, hovers=hovers)
    order = np.argsort(-np.abs(split.terms), axis=None)[:8]
    terms = [np.unravel_index(at, split.terms.shape) for at in order]
    values = [split.terms[at] for at in terms]
    names = [
        f"{split.query_components[q].label} × {split.key_components[k].label}" for q, k in terms
    ]
    named = [*names, f"sum of the other {split.terms.size - 8:,} products"]
    expected = [*zip(named, [*values, split.score - sum(values)], strict=True)]
    told = [(name, signed(value)) for name, value in expected]
    shows(page, "why_terms", expected, f"{split.terms.size:,}", "score", hovers=told)
    verb = "raise" if expected[-1][1] > 0 else "lower"
    rest = pytest.approx(abs(expected[-1][1]), abs=0.006)
    says(page, None, pytest.approx(split.terms.size - 8), f"they {verb} the score by", rest)
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
