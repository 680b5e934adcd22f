"""Every declared chart: its table and description are what its figure shows."""

from __future__ import annotations

import numpy as np
import pytest

from app.figures import (
    checklist,
    comparison,
    experiments,
    inside_head,
    masks,
    vectors,
    why,
    word_alignment,
)
from app.figures.chart import Chart
from app.figures.grid import Axes
from app.figures.style import tick
from core.analysis.inside_head import inside_head as look_inside
from core.experiments.site import site
from core.parity.checklist import Check
from core.text.tokenizer import EOS
from tests import small
from tests.app.charts import names_its_place, rows_are_drawn
from tests.app.test_figures import HOSTILE, all_charts, make_record

STRIPS = "score q·k/√dₖ", "after the mask", "after softmax"
WORDS = [word for word in HOSTILE if word]


def charts() -> list[Chart]:
    """Return charts of every kind, on values that differ from each other."""
    n, random = len(WORDS), np.random.default_rng(7)
    values, shares = random.normal(size=n), random.random((2, n))
    ends = (values - 1).tolist(), (values + 2).tolist()
    lost = [np.nan, *values[1:].tolist()]
    causal = np.tri(n, dtype=bool)
    reasons = masks.reasons(np.ones_like(causal), causal)
    cells = random.uniform(-1, 1, (n, n))
    grid = why.Grid(
        WORDS, WORDS, cells, [WORDS] * n, [[f"{tick(a)} {tick(b)}" for b in WORDS] for a in WORDS]
    )
    ribbons = [why.Ribbon(why.Node(i, w), why.Node("m", "m"), v) for i, (w, v) in
               enumerate(zip(WORDS, values.tolist(), strict=True))]  # fmt: skip
    links = {(i, (2 * i) % n): float(v) for i, v in enumerate(shares[0])}
    curve = [
        {"step": 100 * i, "val_loss": 5 / (i + 1), "train_loss": 6 / (i + 1)} for i in range(3)
    ]
    _, scratch = small.pair()
    inside = look_inside(site(scratch, (9, 8, 7, EOS), (30, 31, 32, EOS), "decoder", 1), 0, 3)
    keys = WORDS[:4]
    lines = [
        Check("loss", True, 0.0, 1e-12),
        Check("logits after 20 Adam steps", True, 3e-14, 1e-12),
        Check("greedy: the same tokens", False, 2.0, 0.0),
    ]
    return [
        *all_charts(make_record(WORDS, WORDS[:3])),
        why.terms_figure(WORDS, values.tolist(), "t", "s", "nats", lost),
        why.terms_figure(WORDS, values.tolist(), "t", "s", "nats", intervals=ends),
        why.words_grid_figure(grid, "t", "s", 2.0, True),
        why.pairs_figure(cells, 2, "t"),
        why.ribbons_figure(ribbons, ("a", "b"), "t", "s"),
        experiments.change_figure(WORDS, *shares, ("a", "b"), "t", ("c", shares[0])),
        experiments.cheating_figure([0, 20], [0.1, 0.3], [0.2, 0.9], 40, 0.05),
        experiments.extrapolation_figure(np.arange(n), shares[0], 2),
        masks.mask_figure(causal, reasons, Axes(WORDS, WORDS, "q", "k", list(range(n))), "t", "s"),
        masks.row_figure(values, values, shares[0], causal[2], "−∞", WORDS, "t"),
        comparison.curves_figure({WORDS[0]: curve, "b": curve}),
        comparison.bleu_figure(
            {"a": [[40.0], [41.0]], "b": [[39.0, 38, 40], [42.0, 41, 44]]}, ("c", "d")
        ),
        comparison.pair_figure([make_record(WORDS, WORDS[:3])] * 2, [(0, 0), (0, 0)], ("c", "d")),
        checklist.checks_figure(lines, 3),
        checklist.checks_figure(lines, 87),
        vectors.rotation_figure(cells, [0, 2, 3], 1),
        word_alignment.alignment_figure(
            WORDS, WORDS, links, dict.fromkeys(links, "x"), ("German", "English"), "t", "s"
        ),
        inside_head.projection_figure(inside, 1),
        inside_head.product_figure(inside, 1),
        inside_head.scores_figure(inside.masked_K, inside.open_K, keys, 1),
        inside_head.softmax_figure(inside, keys, 1),
        inside_head.values_figure(inside, keys),
        inside_head.output_figure(inside),
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_row_of_a_table_is_a_mark_of_the_figure(theme):
    """Hovers name their places; only the strips of a row of scores are told by their labels."""
    for chart in charts():
        told = rows_are_drawn(chart, theme)
        for row, hover in zip(chart.rows(), told, strict=True):
            assert names_its_place(hover, row, STRIPS), (hover, row)


def test_a_description_names_the_least_and_the_largest_value():
    values = [3.0, -2.5, 0.25, *np.linspace(0, 1, 12)]
    words = [f"w{i}" for i in range(15)]
    chart = why.terms_figure(words, values, "t", "s", "nats")
    assert chart.description() == "15 values, least −2.5 (w1), largest 3 (w0)."
    short = why.terms_figure(words[:2], values[:2], "t", "s", "nats", [np.nan, -1.25])
    assert short.description() == "w0 3; w1 −2.5. true effect: w1 −1.25."
    even = experiments.change_figure(words[:1], np.ones(1), np.zeros(1), ("a", "b"), "t")
    assert even.description() == "a: w0 1. b: w0 0."
    table = why.terms_figure(["a", "b"], [1.0, -2.0], "t", "s", "n", intervals=([0, -3], [2, 1]))
    assert table.table().to_numpy().tolist() == [["", "a", 1, 0, 2], ["", "b", -2, -3, 1]]
