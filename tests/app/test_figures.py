"""The figures draw the record's own numbers, claim nothing else, and parse no word as markup."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from app.figures import experiments, grid, masks, positions, style, vectors
from app.figures.grid import numbers
from app.figures.style import diverging, sequential
from app.look.labels import label, labels
from app.look.numbers import percent
from core.analysis.position_table import rotation, sums
from core.config import DecodeConfig
from core.record.record import RecordToken, TranslationRecord

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("encoder", "decoder", "cross")
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
    """Paper §3.5, written out number by number and apart from the code under test."""
    rows = []
    for position in range(length):
        angles = [position / 10000 ** (2 * i / d_model) for i in range(d_model // 2)]
        rows.append([f(angle) for angle in angles for f in (math.sin, math.cos)])
    return np.array(rows, np.float32)


def make_record(source: list[str], target: list[str], d_model: int = 16) -> TranslationRecord:
    """A record of one layer and head whose weights are even over what each mask leaves open."""
    fed, produced = ["<bos>", *target], [*target, "<eos>"]
    source = [*source, "<eos>"]
    S, T = len(source), len(fed)
    open_masks = {
        "encoder_mask": np.ones((S, S), bool),
        "decoder_mask": np.tril(np.ones((T, T), bool)),
        "cross_mask": np.ones((T, S), bool),
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
        **maps_for(open_masks),
        source_positions=table(S, d_model),
        target_positions=table(T, d_model),
        log_probs=np.full(T, -0.5, np.float32),
        alternatives=((),) * T,
        alternative_log_probs=np.zeros((T, 0), np.float32),
        hypotheses=(),
        checks=(),
    )


def maps_for(masks: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The masks together with maps [1, 1, query, key] that keep to them."""
    found = dict(masks)
    for name, mask in masks.items():
        share = mask / np.maximum(mask.sum(-1, keepdims=True), 1)
        found[name.removesuffix("_mask")] = share[None, None].astype(np.float32)
    return found


@pytest.fixture(scope="module")
def record() -> TranslationRecord:
    return make_record("in dem Haus in dem Park".split(), "in the house in the park .".split())


def drawn_cells(figure: go.Figure) -> dict[str, np.ndarray]:
    """Which cells the heat maps fill, by the first words of their hover after the row's name."""
    found: dict[str, np.ndarray] = {}
    for trace in figure.data:
        if trace.type == "heatmap":
            words = trace.hovertemplate.split("<br>")[1].split(" <b>")[0]
            found[words] = found.get(words, False) | np.isfinite(trace.z)
    return found


def hatched_cells(figure: go.Figure, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """Which cells the bars of each reason cover; a cell covered in part or twice fails."""
    found = {}
    for trace in figure.data:
        if trace.type != "bar" or not trace.marker.pattern.shape:
            continue
        cells = np.zeros(shape, int)
        for row, base, length in zip(trace.y, trace.base, trace.x, strict=True):
            first = base + 0.5
            assert float(first).is_integer() and float(length).is_integer() and length > 0
            cells[row, int(first) : int(first + length)] += 1
        assert cells.max() == 1
        found[trace.name] = cells.astype(bool)
    return found


PAD_MASK = np.array([[True, True, True, False, False]] * 5)
CAUSAL = np.tril(np.ones((5, 5), bool))


def axes(rows: list[str], columns: list[str], ids: list[int]) -> grid.Axes:
    return grid.Axes(rows, columns, "query: target token", "key: target token", ids)


def mask_of(padding: np.ndarray, causal: np.ndarray, theme: str = "light") -> go.Figure:
    words = [f"w{i}" for i in range(len(padding))]
    return masks.mask_figure(
        padding & causal,
        masks.reasons(padding, causal),
        axes(words, words, list(range(len(words)))),
        "Mask",
        "",
        theme,
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_mask_cells_are_the_masks_and_say_why(theme):
    """Against the reasons told apart by hand: the last two keys are padding."""
    figure = mask_of(PAD_MASK, CAUSAL, theme)
    drawn, hatched = drawn_cells(figure), hatched_cells(figure, (5, 5))
    mask = PAD_MASK & CAUSAL
    assert np.array_equal(drawn["may look at"], mask)
    assert np.array_equal(drawn["may not look at"], ~mask)
    letters = np.full((5, 5), " ", dtype="<U2")
    for trace in figure.data:
        if trace.type == "scatter" and trace.text is not None:
            assert (trace.xaxis, trace.yaxis) == ("x2", "y2")  # with the hatching, not under it
            for row, column, letter in zip(trace.y, trace.x, trace.text, strict=True):
                assert letters[row, column] == " "
                letters[row, column] = letter
    by_hand = [
        [" ", "f", "f", "pf", "pf"],
        [" ", " ", "f", "pf", "pf"],
        [" ", " ", " ", "pf", "pf"],
        [" ", " ", " ", "p", "pf"],
        [" ", " ", " ", "p", "p"],
    ]
    assert letters.tolist() == by_hand
    for reason, letter in ((masks.FUTURE, "f"), (masks.PADDING, "p"), (masks.BOTH, "pf")):
        assert np.array_equal(hatched[reason], letters == letter)
    shapes = {t.marker.pattern.shape for t in figure.data if t.type == "bar"}
    assert len(shapes) == 3


def test_one_mask_alone_has_one_reason():
    everything = np.ones((5, 5), bool)
    assert list(masks.reasons(PAD_MASK, everything)) == [masks.PADDING]
    assert list(masks.reasons(everything, CAUSAL)) == [masks.FUTURE]
    assert masks.reasons(everything, everything) == {}
    figure = mask_of(everything, everything)
    assert hatched_cells(figure, (5, 5)) == {} and drawn_cells(figure)["may look at"].all()


def test_ids_stand_beneath_the_columns():
    figure = mask_of(PAD_MASK, CAUSAL)
    assert figure.layout.xaxis.ticktext == ("w0", "w1", "w2", "w3", "w4")
    assert figure.layout.xaxis3.ticktext == ("0", "1", "2", "3", "4")
    assert figure.layout.xaxis3.side == "bottom"
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]  # the first row is on top


@pytest.mark.parametrize("length", [1, 60, 100])
def test_any_length_is_few_shapes_and_labels_apart(length):
    causal = np.tril(np.ones((length, length), bool))
    figure = mask_of(np.ones_like(causal), causal)
    bars = sum(len(t.y) for t in figure.data if t.type == "bar")
    assert bars == length - 1  # the last row looks everywhere
    axis = figure.layout.yaxis
    if length > 1:
        plot = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
        pitch = plot / length * (axis.tickvals[1] - axis.tickvals[0])
        assert pitch >= 0.9 * axis.tickfont.size >= 0.9 * style.FLOOR
    assert len(figure.layout.yaxis2.ticktext) == length  # the hover leaves none out


def test_a_row_on_its_way_to_weights():
    scores = np.array([0.5, -2.0, 3.0, 9.0])
    mask = np.array([True, True, True, False])
    masked, weights = np.where(mask, scores, -1e4), np.array([0.075, 0.006, 0.919, 0.0])
    figure = masks.row_figure(
        scores, masked, weights, mask, "−10⁴", ["a", "b", "c", "d"], "Row", "light"
    )
    signed, shares = (t for t in figure.data if t.type == "heatmap")
    assert np.array_equal(signed.z[0], scores) and np.isnan(signed.z[2]).all()
    assert np.array_equal(signed.z[1], [0.5, -2.0, 3.0, np.nan], equal_nan=True)
    assert (signed.zmin, signed.zmax) == (-9.0, 9.0) and (shares.zmin, shares.zmax) == (0, 1)
    assert np.array_equal(shares.z[2], [0.075, 0.006, 0.919, np.nan], equal_nan=True)
    (hatched,) = hatched_cells(figure, (3, 4)).values()
    assert hatched.tolist() == [[False] * 4, [False] * 3 + [True], [False] * 3 + [True]]
    assert list(signed.text[0]) == ["0.5", "−2.0", "3.0", "9.0"]
    assert list(signed.text[1]) == ["0.5", "−2.0", "3.0", ""] and set(signed.text[2]) == {""}
    assert list(shares.text[2]) == ["0.07", "0.01", "0.92", ""] and set(shares.text[0]) == {""}
    said = next(t for t in figure.data if t.type == "scatter")
    assert list(zip(said.x, said.y, said.text, strict=True)) == [(3, 1, "−10⁴"), (3, 2, "0")]
    _, on_scores, on_weights = (t for t in figure.data if t.type == "scatter")
    assert list(on_scores.text) == ["0.5", "−2.0", "3.0", "9.0", "0.5", "−2.0", "3.0"]
    assert list(zip(on_weights.x, on_weights.y, on_weights.text, strict=True)) == [
        (0, 2, "0.07"),
        (1, 2, "0.01"),
        (2, 2, "0.92"),
    ]
    scores, weights = (trace for trace in figure.data if trace.type == "heatmap")
    assert len(scores.colorbar.ticktext) == 3 and list(weights.colorbar.ticktext) == ["0", "1"]
    assert (scores.colorbar.title.text, weights.colorbar.title.text) == ("score", "weight")


def test_a_change_is_drawn_from_before_to_after():
    before, after = np.array([0.9, 0.2, 0.5]), np.array([0.1, 0.6, 0.5])
    control = np.array([0.9, 0.2, 0.5])
    figure = experiments.change_figure(
        ["a", "<b>", "c"], before, after, ("with", "without"), "T", "light", ("masked", control)
    )
    bar = next(t for t in figure.data if t.type == "bar")
    assert np.array_equal(bar.y, before)
    assert [row[1:] for row in bar.customdata.tolist()] == [
        pytest.approx([b, a, a - b]) for b, a in zip(before, after, strict=True)
    ]
    scatters = [t for t in figure.data if t.type == "scatter"]
    dots = {t.marker.color: t for t in scatters if t.mode == "markers" and t.name is None}
    (gained, up), (lost, down) = dots.items()
    blue, orange = (style.diverging("light")[i][1] for i in (28, 4))
    assert (gained, lost) == (blue, orange)
    assert (list(up.x), list(up.y)) == ([1, 2], [0.6, 0.5])
    assert (list(down.x), list(down.y)) == ([0], [0.1])
    lines = [t for t in scatters if t.mode == "lines"]
    assert [v for t in lines for v in t.y if np.isfinite(v)] == [0.2, 0.6, 0.5, 0.5, 0.9, 0.1]
    ticks = next(t for t in figure.data if t.name == "masked")
    assert np.array_equal(ticks.y, control)
    # A token that rises from nothing has no bar to point at: its dot answers as the bar would.
    for dot in (up, down):
        assert dot.hovertemplate == bar.hovertemplate and dot.hoverinfo is None
        assert dot.customdata.tolist() == bar.customdata[list(dot.x)].tolist()


def test_curves_hold_their_points():
    figure = experiments.cheating_figure([0, 10], [0.06, 0.07], [0.05, 0.9], 200, 1 / 16, "light")
    lines = {t.name: t for t in figure.data}
    assert list(lines["without"].y) == [0.05, 0.9]
    assert list(lines["with the causal mask"].y) == [0.06, 0.07]
    assert figure.layout.shapes[0].y0 == 1 / 16
    figure = experiments.extrapolation_figure(np.array([0, 9]), np.array([0.8, 0.1]), 5, "dark")
    assert list(figure.data[0].x) == [0, 9] and list(figure.data[0].y) == [0.8, 0.1]
    assert figure.layout.shapes[0].x0 == 5


def test_the_rotation_is_drawn_with_its_numbers():
    matrix = rotation(3, 16)
    figure = vectors.rotation_figure(matrix, [0, 1, 2, 5], 3, "light")
    heat = figure.data[0]
    assert np.array_equal(heat.z, matrix[np.ix_([0, 1, 2, 5], [0, 1, 2, 5])])
    assert heat.text[0][0] == f"{math.cos(3):.2f}".replace("-", "−") and heat.text[0][2] == ""
    drawn = dict(
        zip(zip(figure.data[1].y, figure.data[1].x, strict=True), figure.data[1].text, strict=True)
    )
    assert drawn == {(i, j): t for i, line in enumerate(heat.text) for j, t in enumerate(line) if t}
    positions_table = table(12, 16)
    circles = vectors.circles_figure(positions_table, 4, 3, [0, 6], "light")
    points = [(t.x[0], t.y[0]) for t in circles.data if t.mode == "markers"]
    by_hand = [(positions_table[p, d + 1], positions_table[p, d]) for d in (0, 6) for p in (4, 7)]
    assert points == by_hand


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("scale", [diverging, sequential])
def test_a_number_can_be_read_on_every_colour(theme, scale):
    """4.5:1 (WCAG 2.2), from one end of a scale to the other."""
    values = np.linspace(-1, 1, 33)
    heat = go.Heatmap(z=[values], zmin=-1, zmax=1, colorscale=scale(theme), text=[["0"] * 33])
    for ink, (_, ground) in zip(numbers(heat, 12).textfont.color, scale(theme), strict=True):
        one, other = sorted(luminance(colour) for colour in (ink, ground))
        assert (other + 0.05) / (one + 0.05) >= 4.5, (ink, ground)


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2) of "#rrggbb" or "rgb(r,g,b)"."""
    found = (
        re.findall(r"\d+", colour)
        if "(" in colour
        else [str(int(colour[at : at + 2], 16)) for at in (1, 3, 5)]
    )
    channels = [int(part) / 255 for part in found]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def test_vectors_are_drawn_as_they_were_measured():
    chance = np.random.default_rng(0)
    found = sums(chance.normal(size=(5, 8)), chance.normal(size=(5, 8)))
    words = ["a", "b", "c", "d", "<e>"]
    lengths = vectors.lengths_figure(found, words, "light")
    bar, place, total = lengths.data
    assert np.array_equal(bar.y, found.content)
    assert np.array_equal(place.y, found.position) and np.array_equal(total.y, found.total)
    plane = vectors.plane_figure(found, words, "light")
    rings, dots = plane.data[1:]
    for trace, points in ((rings, found.before), (dots, found.after)):
        assert np.array_equal(np.column_stack([trace.x, trace.y]), points)
    assert (rings.mode, dots.mode) == ("markers", "markers+text")
    assert list(dots.text) == [style.tick(word) for word in words]
    assert percent(found.explained) in plane.layout.title.subtitle.text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_table_holds_the_positions_and_zero_is_the_middle(record, theme):
    figure = positions.table_figure(record.source_positions, record.source, theme)
    heat = next(trace for trace in figure.data if trace.type == "heatmap")
    assert np.array_equal(heat.z, record.source_positions)
    assert heat.zmin == -heat.zmax == -np.abs(record.source_positions).max()
    assert heat.colorscale[len(heat.colorscale) // 2][0] == 0.5
    assert figure.layout.yaxis.ticktext[2] == "pos 2 Haus"
    assert figure.layout.xaxis2.ticktext[4] == "dimension 4: sine, wavelength 62.8"
    assert figure.layout.xaxis2.ticktext[5] == "dimension 5: cosine, wavelength 62.8"
    assert figure.layout.xaxis3.ticktext == ("6", "63", "628", "6,283")


def test_waves_are_columns_of_the_table_on_the_formula(record):
    dimensions = (0, 3, 14)
    figure = positions.waves_figure(
        record.target_positions, record.target_in, dimensions, "light", 0
    )
    dots = [trace for trace in figure.data if trace.mode == "markers"]
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    assert len(dots) == len(lines) == len(figure.layout.annotations) == 3
    for dimension, dot, line, note in zip(
        dimensions, dots, lines, figure.layout.annotations, strict=True
    ):
        assert np.array_equal(dot.y, record.target_positions[:, dimension])
        rate = 10000 ** -((dimension - dimension % 2) / 16)
        wave = (np.sin, np.cos)[dimension % 2]
        assert np.allclose(line.y, wave(np.asarray(line.x) * rate), atol=1e-9)
        assert dot.yaxis == line.yaxis == note.yref
    assert figure.layout.annotations[1].text == "dimension 3: cosine<br>wavelength 19.9"
    assert dots[0].customdata[1] == "pos 1 in₁"


def test_dot_products_depend_on_the_distance_alone(record):
    figure = positions.dot_product_figure(record.source_positions, "light")
    dots = next(trace for trace in figure.data if trace.mode == "markers")
    for distance, value, (pairs, low, high) in zip(dots.x, dots.y, dots.customdata, strict=True):
        expected = sum(math.cos(distance / 10000 ** (2 * i / 16)) for i in range(8))
        assert value == pytest.approx(expected, abs=1e-5)
        assert high - low < 1e-5
        assert pairs == 7 - abs(distance)
    assert list(dots.x) == list(range(-6, 7))
    assert not dots.error_y.visible


def test_a_learned_table_is_not_called_sinusoidal(record):
    learned = np.random.default_rng(1).normal(0, 0.3, (7, 16)).astype(np.float32)
    assert positions.is_sinusoidal(record.source_positions)
    assert not positions.is_sinusoidal(learned)
    nudged = record.source_positions.copy()
    nudged[3, 5] += 0.01
    assert not positions.is_sinusoidal(nudged)
    waves = positions.waves_figure(learned, record.source, (0, 4), "dark")
    products = positions.dot_product_figure(learned, "dark")
    words = [
        positions.table_figure(learned, record.source, "dark").to_json(),
        waves.to_json(),
        products.to_json(),
    ]
    assert not any("wavelength" in text or "sin²" in text or "cosine" in text for text in words)
    dots = next(trace for trace in products.data if trace.mode == "markers")
    assert dots.error_y.visible
    pairs = [float(learned[p].astype(float) @ learned[p + 2]) for p in range(5)]
    at = list(dots.x).index(2)
    assert dots.y[at] == pytest.approx(np.mean(pairs))
    assert dots.customdata[at][1:] == pytest.approx([min(pairs), max(pairs)])
    assert dots.error_y.array[at] == pytest.approx(max(pairs) - np.mean(pairs))
    assert dots.error_y.arrayminus[at] == pytest.approx(np.mean(pairs) - min(pairs))


def strings(value: Any) -> Iterator[str]:
    """Every string in a figure that plotly may parse."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in ("bdata", "hovertemplate", "family"):
                yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def all_figures(record: TranslationRecord) -> list[go.Figure]:
    table, tokens = record.source_positions, record.source
    words = labels(tokens, 1)
    n = len(words)
    square, open_row = np.eye(n), np.arange(n) < n - 1
    both = axes(words, words, list(range(n)))
    masked = masks.reasons(np.ones((n, n), bool), np.tril(np.ones((n, n), bool)))
    summed = sums(np.eye(n, 16), table.astype(float))
    ones = np.full(n, 0.5)
    return [
        masks.mask_figure(square == 1, masked, both, "t", "s", "light"),
        masks.row_figure(ones, ones, ones, open_row, "−∞", words, "t", "light"),
        experiments.change_figure(words, ones, ones, ("a", "b"), "t", "light"),
        vectors.lengths_figure(summed, words, "light"),
        vectors.plane_figure(summed, words, "light"),
        positions.table_figure(table, tokens, "light"),
        positions.table_figure(table, None, "light"),
        positions.waves_figure(table, tokens, positions.some_dimensions(table.shape[1]), "light"),
        positions.dot_product_figure(table, "light"),
    ]


def test_words_reach_plotly_escaped_and_never_in_a_template():
    hostile, tame = make_record(HOSTILE, HOSTILE), make_record(["a"] * 10, ["b"] * 10)
    for figure, plain in zip(all_figures(hostile), all_figures(tame), strict=True):
        spec = json.loads(figure.to_json())
        for text in strings(spec):
            assert "$" not in text, text
            assert "<" not in text.replace("<br>", ""), text
        for trace, other in zip(figure.data, plain.data, strict=True):
            assert trace.hovertemplate == other.hovertemplate


def test_ticks_are_cut_before_they_are_escaped():
    assert style.tick("<" * 30, 5) == "&lt;" * 4 + "…"
    assert style.tick("&lt;$") == "&amp;lt;&#36;"
    assert style.tick("שלום") == "\u2066שלום\u2069"


def test_hostile_words_show_as_they_were_typed(serve, local_page, tmp_path):
    """In the browser: as tick labels and in the hover, with no link and no other element made."""
    script = tmp_path / "page.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import numpy as np, streamlit as st\n"
        "from app.figures import masks, style\n"
        "from app.look.labels import label\n"
        "from app.figures.grid import Axes\n"
        "from tests.app.test_figures import HOSTILE, word\n"
        "words = [label(word(text)) for text in HOSTILE]\n"
        "mask = np.tril(np.ones((len(words), len(words)), bool))\n"
        "axes = Axes(words, words, 'row', 'column', list(range(len(words))))\n"
        "masked = masks.reasons(np.ones_like(mask), mask)\n"
        "figure = masks.mask_figure(mask, masked, axes, 'Mask', '', 'light')\n"
        "st.plotly_chart(figure, width='content', theme=None, config=style.CONFIG, key='mask')\n"
    )
    page = local_page
    page.goto(serve(script))
    chart = page.locator(".st-key-mask")
    chart.locator(".ytick text").first.wait_for(timeout=30_000)
    shown = [
        text.strip("\u2066\u2069") for text in chart.locator(".ytick text").all_text_contents()
    ]
    expected = [label(word(text)) for text in HOSTILE]
    assert shown == [t if len(t) <= 12 else t[:11] + "…" for t in expected]
    for row, text in enumerate(expected):
        chart.locator(".nsewdrag").first.scroll_into_view_if_needed()
        box = chart.locator(".nsewdrag").first.bounding_box()
        cell = box["height"] / len(expected)
        page.mouse.move(box["x"] + cell * 0.5, box["y"] + cell * (row + 0.4))
        page.mouse.move(box["x"] + cell * 0.5, box["y"] + cell * (row + 0.5))
        chart.locator(".hovertext", has_text="may look at").wait_for(timeout=5_000)
        page.wait_for_timeout(150)
        hover = (
            chart.locator(".hovertext").text_content().replace("\u2066", "").replace("\u2069", "")
        )
        assert hover.startswith(f"{text}may look at"), hover
        assert expected[0] in hover
    assert page.locator(".stPlotlyChart svg a, .stPlotlyChart svg img, .MathJax").count() == 0
