"""Figures of masks, positions, comparisons and Ask why, on small data; words stay plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from app.figures import comparison, experiments, grid, inside_head, masks, positions, style, vectors
from app.figures.chart import Chart, cell_numbers
from app.figures.steps import heads_figure
from app.figures.style import diverging, sequential
from app.figures.why import terms_figure
from app.look.labels import label, labels
from app.views.why.sources import narrow_numbers
from core.analysis.position_table import sums
from core.config import DecodeConfig
from core.record.record import RecordToken, TranslationRecord
from tests.app.page_checks import is_blue

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = [
    "<s>",
    "</s>",
    "<a href=x>y</a>",
    "$x$",
    "%{z}",
    "&lt;",
    "<img src=x onerror=alert(1)>",
    "a\u200bb",
    "",
    "שלום",
]


def word(text: str) -> RecordToken:
    special = text in ("<bos>", "<eos>", "<pad>")
    return RecordToken(3, text, text, starts_word=True, special=special, unknown=False)


def table(length: int, d_model: int) -> np.ndarray:
    """Return sinusoidal positional encodings by the formula of the Transformer paper, §3.5."""
    angles = np.arange(length)[:, None] / 10_000 ** (np.arange(0, d_model, 2) / d_model)
    rows = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    return rows.reshape(length, d_model).astype(np.float32)


def make_record(source: list[str], target: list[str], d_model: int = 16) -> TranslationRecord:
    """Return a record of one layer and head with uniform weights over all unmasked cells."""
    fed, produced = ["<bos>", *target], [*target, "<eos>"]
    source = [*source, "<eos>"]
    S, T = len(source), len(fed)
    open_cells = {
        "encoder": np.ones((S, S), bool),
        "decoder": np.tri(T, dtype=bool),
        "cross": np.ones((T, S), bool),
    }
    return TranslationRecord(
        model="test",
        weights_sha256="0",
        source_language="German",
        target_language="English",
        decode=DecodeConfig(beam=1),
        source_text="",
        translation="",
        source=tuple(map(word, source)),
        target_in=tuple(map(word, fed)),
        target_out=tuple(map(word, produced)),
        **{f"{kind}_mask": mask for kind, mask in open_cells.items()},
        **{
            kind: (mask / mask.sum(-1, keepdims=True))[None, None].astype(np.float32)
            for kind, mask in open_cells.items()
        },
        source_positions=table(S, d_model),
        target_positions=table(T, d_model),
        log_probs=np.full(T, -0.5, np.float32),
        alternatives=((),) * T,
        alternative_log_probs=np.zeros((T, 0), np.float32),
        hypotheses=(),
        checks=(),
    )


def hatched_cells(figure: go.Figure, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """Return, by reason, the cells that hatched bars cover; check that no bars overlap."""
    found = {}
    for trace in figure.data:
        if trace.type == "bar" and trace.marker.pattern.shape:
            covered = np.zeros(shape, int)
            for row, base, length in zip(trace.y, trace.base, trace.x, strict=True):
                assert float(base + 0.5).is_integer() and float(length).is_integer() and length > 0
                covered[row, int(base + 0.5) : int(base + 0.5 + length)] += 1
            assert covered.max() == 1
            found[trace.name] = covered.astype(bool)
    return found


PADDING = np.array([[True, True, True, False, False]] * 5)
CAUSAL = np.tri(5, dtype=bool)


def mask_of(
    padding: np.ndarray, causal: np.ndarray, theme: str = "light", words: list[str] | None = None
) -> go.Figure:
    words = words or [f"w{i}" for i in range(len(padding))]
    both = grid.Axes(words, words, "query", "key", list(range(len(words))))
    reasons = masks.reasons(padding, causal)
    return masks.mask_figure(padding & causal, reasons, both, "Mask", "").figure(theme)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_masked_cells_are_hatched_and_lettered_by_reason(theme):
    figure = mask_of(PADDING, CAUSAL, theme)
    letters = np.full((5, 5), " ", dtype="<U2")
    for trace in figure.data:
        if trace.type == "scatter" and trace.text is not None:
            assert (trace.xaxis, trace.yaxis) == ("x2", "y2")  # above the hatching
            letters[list(trace.y), list(trace.x)] = trace.text
    assert letters.tolist() == [
        [" ", "f", "f", "pf", "pf"],
        [" ", " ", "f", "pf", "pf"],
        [" ", " ", " ", "pf", "pf"],
        [" ", " ", " ", "p", "pf"],
        [" ", " ", " ", "p", "p"],
    ]
    hatched = hatched_cells(figure, (5, 5))
    for reason, letter in ((masks.FUTURE, "f"), (masks.PADDING, "p"), (masks.BOTH, "pf")):
        assert np.array_equal(hatched[reason], letters == letter)
    assert len({t.marker.pattern.shape for t in figure.data if t.type == "bar"}) == 3
    everything = np.ones((5, 5), bool)
    assert masks.reasons(everything, everything) == {}
    assert hatched_cells(mask_of(everything, everything), (5, 5)) == {}


@pytest.mark.parametrize("length", [1, 60, 100])
def test_long_masks_have_few_shapes_and_readable_labels(length):
    causal = np.tri(length, dtype=bool)
    figure = mask_of(np.ones_like(causal), causal)
    assert sum(len(t.y) for t in figure.data if t.type == "bar") == length - 1
    axis = figure.layout.yaxis
    if length > 1:
        plot = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
        pitch = plot / length * (axis.tickvals[1] - axis.tickvals[0])
        assert pitch >= 0.9 * axis.tickfont.size >= 0.9 * style.FLOOR
    assert len(figure.layout.yaxis2.ticktext) == length  # for hovers


def test_finite_mask_values_are_printed_in_the_masked_cells():
    scores = np.array([0.5, -2.0, 3.0, 9.0])
    mask = np.array([True, True, True, False])
    masked, weights = np.where(mask, scores, -1e4), np.array([0.075, 0.006, 0.919, 0.0])
    chart = masks.row_figure(scores, masked, weights, mask, "−10⁴", list("abcd"), "Row")
    figure = chart.figure("light")
    (hatched,) = hatched_cells(figure, (3, 4)).values()
    assert hatched.tolist() == [[False] * 4, [False] * 3 + [True], [False] * 3 + [True]]
    fills, on_scores, on_weights = (t for t in figure.data if t.type == "scatter")
    assert list(zip(fills.x, fills.y, fills.text, strict=True)) == [(3, 1, "−10⁴"), (3, 2, "0")]
    assert list(on_scores.text) == ["0.5", "−2.0", "3.0", "9.0", "0.5", "−2.0", "3.0"]
    assert list(on_weights.text) == ["0.07", "0.01", "0.92"]


def test_the_lines_of_a_change_lead_from_before_to_after():
    before, after = np.array([0.9, 0.2, 0.5]), np.array([0.1, 0.6, 0.5])
    names = ("with", "without")
    chart = experiments.change_figure(["a", "b", "c"], before, after, names, "T")
    figure = chart.figure("light")
    lines = {t.line.color: t.y for t in figure.data if t.type == "scatter" and t.mode == "lines"}
    lengths = {is_blue(colour): [v for v in y if v == v] for colour, y in lines.items()}
    assert lengths == {True: [0.2, 0.6, 0.5, 0.5], False: [0.9, 0.1]}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("scale", [diverging, sequential])
def test_numbers_are_readable_on_every_colour(theme, scale):
    """The contrast is at least 4.5:1 (WCAG 2.2) over the whole scale."""
    values = np.linspace(-1, 1, 33)
    heat = go.Heatmap(z=[values], zmin=-1, zmax=1, colorscale=scale(theme), text=[["0"] * 33])
    for ink, (_, ground) in zip(cell_numbers(heat, 12).textfont.color, scale(theme), strict=True):
        darker, lighter = sorted(map(luminance, (ink, ground)))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (ink, ground)


def luminance(colour: str) -> float:
    """Return the relative luminance (WCAG 2.2) of "#rrggbb" or "rgb(r,g,b)"."""
    channels = bytes.fromhex(colour[1:]) if colour[0] == "#" else re.findall(r"\d+", colour)
    shares = [int(c) / 255 for c in channels]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def test_fairseqs_table_is_told_from_the_papers():
    """Its slowest wave is 2π · 10,000 positions long, and it begins at its third row."""
    places, pairs = np.arange(9)[:, None] + 2, np.arange(8)
    angles = places / 10_000 ** (pairs / 7)
    rows = np.stack((np.sin(angles), np.cos(angles)), -1).reshape(9, 16).astype(np.float32)
    assert positions.formula_of(rows) == "fairseq" and positions.formula_of(table(9, 16)) == "paper"
    assert positions.wavelength(14, 16, "fairseq") == pytest.approx(2 * np.pi * 10_000)
    tokens = tuple(map(word, "in dem Haus in dem Park am See <eos>".split()))
    text = positions.waves_figure(rows, tokens, (0, 14)).figure("dark").to_json()
    assert "62,832" in text and "learned" not in text


def test_a_learned_table_is_not_called_sinusoidal():
    tokens = tuple(map(word, "in dem Haus in dem Park <eos>".split()))
    learned = np.random.default_rng(1).normal(0, 0.3, (7, 16)).astype(np.float32)
    formula = table(7, 16)
    assert positions.is_sinusoidal(formula) and not positions.is_sinusoidal(learned)
    formula[3, 5] += 0.01
    assert not positions.is_sinusoidal(formula)
    chart = positions.dot_product_figure(learned)
    products = chart.figure("dark")
    for figure in (
        positions.table_figure(learned, tokens).figure("dark"),
        positions.waves_figure(learned, tokens, (0, 4)).figure("dark"),
        products,
    ):
        text = figure.to_json()
        assert not any(word in text for word in ("wavelength", "sin²", "cosine"))
    dots = next(trace for trace in products.data if trace.mode == "markers")
    assert dots.error_y.visible
    pairs = [float(learned[p].astype(float) @ learned[p + 2]) for p in range(5)]
    (row,) = (row for row in chart.rows() if row.place == "2")
    assert row[2:] == pytest.approx([np.mean(pairs), min(pairs), max(pairs)])


def test_a_term_with_two_lines_gets_a_higher_bar():
    long = "decoder layer 2 feed-forward", "× encoder layer 1 feed-forward"
    one, two = (
        terms_figure([name, "token"], [1.5, -0.5], "title", "subtitle", "nats").figure("light")
        for name in ("one", "\n".join(long))
    )
    assert two.layout.yaxis.ticktext[0] == "<br>".join(long)
    assert two.data[0].customdata[0] == " ".join(long)
    assert two.layout.height > one.layout.height


def test_a_row_of_small_numbers_shows_more_decimals():
    assert narrow_numbers(np.array([16.131, 0.604, -0.04])) == ["16.13", ".60", "−.04"]
    assert narrow_numbers(np.array([0.0004, -0.0024])) == [".000", "−.002"]
    assert narrow_numbers(np.array([0.1, 0.0])) == [".10", ".00"]
    assert narrow_numbers(np.zeros(2)) == [".00", ".00"]


def test_a_very_long_row_of_scores_prints_the_chosen_one_only():
    words = [f"w{i}" for i in range(70)]
    chart = inside_head.scores_figure(np.arange(70.0), np.ones(70, bool), words, 3)
    figure = chart.figure("light")
    assert [text for text in figure.data[0].text if text] == ["3.00"]
    assert 3 in figure.layout.yaxis.tickvals
    assert figure.data[0].customdata[69][1] == "69.00"


def strings(value: Any) -> Iterator[str]:
    """Yield every string in a figure that plotly may parse."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in ("bdata", "hovertemplate", "family"):
                yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def all_charts(record: TranslationRecord) -> list[Chart]:
    vectors_, tokens = record.source_positions, record.source
    words = labels(tokens, 1)
    n = len(words)
    causal = np.tri(n, dtype=bool)
    both = grid.Axes(words, words, "query", "key", list(range(n)))
    masked = masks.reasons(np.ones_like(causal), causal)
    summed = sums(np.eye(n, 16), vectors_.astype(float))
    ones = np.full(n, 0.5)
    return [
        masks.mask_figure(np.eye(n, dtype=bool), masked, both, "t", "s"),
        masks.row_figure(ones, ones, ones, np.arange(n) < n - 1, "−∞", words, "t"),
        experiments.change_figure(words, ones, ones, ("a", "b"), "t"),
        vectors.lengths_figure(summed, words),
        vectors.plane_figure(summed, words),
        positions.table_figure(vectors_, tokens),
        positions.table_figure(vectors_, None),
        positions.waves_figure(vectors_, tokens, positions.sample_dimensions(16)),
        positions.dot_product_figure(vectors_),
        terms_figure(words, [0.5] * n, words[2], "s", "nats"),
        comparison.scores_figure(record, -1.0, words[2]),
        comparison.curves_figure({words[2]: []}),
        heads_figure(record),
    ]


def all_figures(record: TranslationRecord) -> list[go.Figure]:
    return [chart.figure("light") for chart in all_charts(record)]


def test_ticks_are_cut_before_they_are_escaped():
    assert style.tick("<" * 30, 5) == "&lt;" * 4 + "…"
    assert style.tick("&lt;$") == "&amp;lt;&#36;"
    assert style.tick("שלום") == "\u2066שלום\u2069"


def test_hostile_words_are_shown_literally_in_a_browser(local_page):
    """Tick labels and hovers show the words as text: no link, image or formula appears."""
    expected = [label(word(text)) for text in HOSTILE]
    causal = np.tri(len(expected), dtype=bool)
    figure = mask_of(np.ones_like(causal), causal, words=expected)
    local_page.set_content(figure.to_html(config=style.CONFIG))
    ticks = local_page.locator(".ytick text")
    ticks.first.wait_for(timeout=30_000)
    shown = [text.strip("\u2066\u2069") for text in ticks.all_text_contents()]
    assert shown == [t if len(t) <= 12 else t[:11] + "…" for t in expected]
    for row, text in enumerate(expected):
        box = local_page.locator(".nsewdrag").first.bounding_box()
        cell = box["height"] / len(expected)
        local_page.mouse.move(box["x"] + cell * 0.5, box["y"] + cell * (row + 0.4))
        local_page.mouse.move(box["x"] + cell * 0.5, box["y"] + cell * (row + 0.5))
        local_page.locator(".hovertext", has_text="may look at").wait_for(timeout=5_000)
        local_page.wait_for_timeout(150)
        hover = re.sub("[\u2066\u2069]", "", local_page.locator(".hovertext").text_content())
        assert hover.startswith(f"{text}may look at") and expected[0] in hover, hover
    assert local_page.locator("svg a, svg img, .MathJax").count() == 0
