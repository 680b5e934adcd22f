"""The figures draw the record's own numbers, claim nothing else, and parse no word as markup."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from app.figures import masks, positions, style
from core.record import RecordToken, TranslationRecord

ROOT = Path(__file__).resolve().parents[2]
VIEW = ROOT / "app" / "views" / "masks_positions.py"
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
        search="greedy",
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


def padded(record: TranslationRecord) -> TranslationRecord:
    """The same with its last source token turned into padding, closed to every query."""
    encoder, cross = record.encoder_mask.copy(), record.cross_mask.copy()
    encoder[:, -1] = cross[:, -1] = False
    return replace(
        record,
        source=(*record.source[:-1], word("<pad>")),
        **maps_for({"encoder_mask": encoder, "cross_mask": cross}),
    )


@pytest.fixture(scope="module")
def record() -> TranslationRecord:
    return make_record("in dem Haus in dem Park".split(), "in the house in the park .".split())


def drawn_cells(figure: go.Figure) -> dict[str, np.ndarray]:
    """Which cells each heat map fills, by the first words of its hover after the row's name."""
    found = {}
    for trace in figure.data:
        if trace.type == "heatmap":
            found[trace.hovertemplate.split("<br>")[1].split(" <b>")[0]] = np.isfinite(trace.z)
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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_mask_cells_are_the_records(record, kind, theme):
    for case in (record, padded(record)):
        mask = case.mask(kind)
        figure = masks.mask_figure(case, kind, theme)
        drawn, hatched = drawn_cells(figure), hatched_cells(figure, mask.shape)
        assert np.array_equal(drawn["may look at"], mask)
        closed = sum(hatched.values(), np.zeros(mask.shape, int))
        assert np.array_equal(closed == 1, ~mask) and closed.max(initial=0) <= 1
        if not mask.all():
            assert np.array_equal(drawn["may not look at"], ~mask)
        assert f"{mask.sum()} of {mask.size} cells" in figure.layout.title.text
        assert f"[{mask.shape[0]}, {mask.shape[1]}]" in figure.layout.title.subtitle.text


def test_a_mask_with_holes_is_drawn_as_it_is(record):
    holes = np.random.default_rng(0).random(record.decoder_mask.shape) < 0.5
    holes[:, 0] = True
    odd = replace(record, **maps_for({"decoder_mask": holes}))
    figure = masks.mask_figure(odd, "decoder", "light")
    hatched = hatched_cells(figure, holes.shape)
    upper = np.triu(np.ones(holes.shape, bool), 1)
    assert np.array_equal(drawn_cells(figure)["may look at"], holes)
    assert np.array_equal(hatched[masks.FUTURE], ~holes & upper)
    assert np.array_equal(hatched["closed"], ~holes & ~upper)  # and not called the future


def test_a_closed_cell_says_why(record):
    decoder = masks.closed_cells(record, "decoder")
    assert list(decoder) == [masks.FUTURE]
    assert decoder[masks.FUTURE][2, 3] and not decoder[masks.FUTURE][3, 2]
    for kind in ("encoder", "cross"):
        assert masks.closed_cells(record, kind) == {}
        closed = masks.closed_cells(padded(record), kind)
        assert list(closed) == [masks.PADDING]
        assert closed[masks.PADDING][:, -1].all() and closed[masks.PADDING].sum() == len(
            closed[masks.PADDING]
        )


def test_mask_rows_are_the_tokens_fed_in(record):
    layout = masks.mask_figure(record, "cross", "light").layout
    assert layout.yaxis.ticktext[:3] == ("&lt;bos&gt;", "in₁", "the₂")
    assert layout.xaxis.ticktext == ("in₁", "dem₂", "Haus", "in₄", "dem₅", "Park", "&lt;eos&gt;")
    assert "English token fed in (query)" in layout.yaxis.title.text
    assert "German token looked at (key)" in layout.xaxis.title.text
    assert layout.yaxis.range[0] > layout.yaxis.range[1]  # the first row is on top
    assert layout.yaxis2.ticktext[0] == "&lt;bos&gt;, fed in to predict in₁"
    encoder = masks.mask_figure(record, "encoder", "light").layout
    assert "German token that looks (query)" in encoder.yaxis.title.text
    assert encoder.yaxis2.ticktext[2] == "Haus"


@pytest.mark.parametrize("length", [1, 60, 100])
def test_any_length_is_few_shapes_and_labels_apart(length):
    long = make_record(["Wort"] * length, ["word"] * length)
    figure = masks.mask_figure(long, "decoder", "light")
    assert (
        sum(len(t.y) for t in figure.data if t.type == "bar" and t.marker.pattern.shape) == length
    )
    axis = figure.layout.yaxis
    plot = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    pitch = plot / (length + 1) * (axis.tickvals[1] - axis.tickvals[0])
    assert pitch >= 0.9 * axis.tickfont.size >= 0.9 * style.FLOOR
    assert len(figure.layout.yaxis2.ticktext) == length + 1  # the hover leaves none out


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_table_holds_the_positions_and_zero_is_the_middle(record, theme):
    figure = positions.table_figure(record.source_positions, record.source, theme)
    heat = next(trace for trace in figure.data if trace.type == "heatmap")
    assert np.array_equal(heat.z, record.source_positions)
    assert heat.zmin == -heat.zmax == -np.abs(record.source_positions).max()
    assert heat.colorscale[len(heat.colorscale) // 2][0] == 0.5
    assert figure.layout.yaxis.ticktext[2] == "2 Haus"
    assert figure.layout.xaxis2.ticktext[4] == "dimension 4: sine, wavelength 62.8"
    assert figure.layout.xaxis2.ticktext[5] == "dimension 5: cosine, wavelength 62.8"
    assert figure.layout.xaxis3.ticktext == ("6", "63", "628", "6,283")


def test_waves_are_columns_of_the_table_on_the_formula(record):
    dimensions = (0, 3, 14)
    figure = positions.waves_figure(record.target_positions, record.target_in, dimensions, "light")
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
    assert figure.layout.annotations[1].text == "dimension 3, cosine<br>wavelength 19.9"
    assert dots[0].customdata[1] == "1 in"


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
    return [
        *(masks.mask_figure(record, kind, "light") for kind in KINDS),
        positions.table_figure(table, tokens, "light"),
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Haus", "Haus"),
        ("", "␣"),
        ("  ", "␣␣"),
        ("a\u200bb", "a‹U+200B›b"),
        ("\u00adx", "‹U+00AD›x"),
        ("nb\u00a0s", "nb‹U+00A0›s"),
        ("right\u202eleft", "right‹U+202E›left"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("❤\ufe0f", "❤\ufe0f"),
        ("\ufe0f", "‹U+FE0F›"),
        ("\ud83d", "?"),
        ("a b", "a b"),
    ],
)
def test_a_label_shows_what_cannot_be_seen(text, shown):
    assert style.label(word(text)) == shown


def test_ticks_are_cut_before_they_are_escaped():
    assert style.tick("<" * 30, 5) == "&lt;" * 4 + "…"
    assert style.tick("&lt;$") == "&amp;lt;&#36;"
    assert style.tick("שלום") == "\u2066שלום\u2069"


def test_only_repeated_words_are_numbered():
    tokens = [word(text) for text in ("in", "dem", "in")]
    assert style.labels(tokens, 1) == ["in₁", "dem", "in₃"]
    assert style.labels(tokens, 0) == ["in₀", "dem", "in₂"]


def test_scales_are_the_palettes():
    """Against the published stops of the palette (0, .2 … 1), to one step in 255 and rounding."""
    stops = {
        "light": ("f3f6fa", "a8cbfb", "6b9eea", "4172c2", "24498f", "0b245b"),
        "dark": ("181b21", "20406d", "266ab4", "509be0", "95cbf8", "e5f8ff"),
    }
    for theme, expected in stops.items():
        scale = style.sequential(theme)
        at = [t for t, _ in scale]
        colours = np.array([[int(v) for v in c[4:-1].split(",")] for _, c in scale])
        for t, colour in zip(np.linspace(0, 1, 6), expected, strict=True):
            mixed = [np.interp(t, at, colours[:, channel]) for channel in range(3)]
            assert np.abs(np.subtract(mixed, list(bytes.fromhex(colour)))).max() <= 2
        lower, middle, upper = (
            [int(v) for v in style.diverging(theme)[i][1][4:-1].split(",")] for i in (0, 16, 32)
        )
        assert max(middle) - min(middle) <= 1  # zero has no hue
        assert lower[0] > lower[2] and upper[2] > upper[0]  # orange below, blue above


def open_view(record: TranslationRecord | None) -> AppTest:
    view = AppTest.from_file(str(VIEW), default_timeout=30)
    if record is not None:
        view.session_state["latest_record"] = record
    return view.run()


def test_the_page_without_a_sentence_says_what_to_do():
    view = open_view(None)
    assert not view.exception and not view.error
    assert "Translate a sentence" in view.caption[0].value
    assert not view.get("plotly_chart")


def test_the_page_draws_what_is_chosen(record):
    view = open_view(record)
    assert not view.exception

    def chart(place: int) -> dict:
        return json.loads(view.get("plotly_chart")[place].proto.spec)

    assert chart(0)["layout"]["title"]["text"].startswith("Decoder mask: 36 of 64")
    view.segmented_control(key="mask_kind").set_value("cross").run()
    assert chart(0)["layout"]["title"]["text"].startswith("Cross mask: 56 of 56")
    assert values(chart(1)) == pytest.approx(record.source_positions)
    view.segmented_control(key="position_side").set_value("target").run()
    assert values(chart(1)) == pytest.approx(record.target_positions)
    assert len(view.get("plotly_chart")) == 4 and not view.exception


def values(spec: dict) -> np.ndarray:
    """The numbers of a sent heat map, out of plotly's base64."""
    z = next(trace for trace in spec["data"] if trace["type"] == "heatmap")["z"]
    shape = [int(n) for n in z["shape"].split(",")]
    return np.frombuffer(base64.b64decode(z["bdata"]), z["dtype"]).reshape(shape)


def test_hostile_words_show_as_they_were_typed(serve, local_page, tmp_path):
    """In the browser: as tick labels and in the hover, with no link and no other element made."""
    make_record(HOSTILE, HOSTILE).save(tmp_path / "record.npz")
    script = tmp_path / "page.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import runpy, streamlit as st\n"
        "from core.record import TranslationRecord\n"
        f"found = TranslationRecord.load({str(tmp_path / 'record.npz')!r})\n"
        "st.session_state['latest_record'] = found\n"
        f"runpy.run_path({str(VIEW)!r})\n"
    )
    page = local_page
    page.goto(serve(script))
    chart = page.locator(".st-key-mask")
    chart.locator(".ytick text").first.wait_for(timeout=30_000)
    shown = [
        text.strip("\u2066\u2069") for text in chart.locator(".ytick text").all_text_contents()
    ]
    expected = [style.label(word(text)) for text in ("<bos>", *HOSTILE)]
    assert shown == [t if len(t) <= 16 else t[:15] + "…" for t in expected]

    for row, text in enumerate(expected[1:], start=1):
        chart.locator(".nsewdrag").first.scroll_into_view_if_needed()
        box = chart.locator(".nsewdrag").first.bounding_box()
        cell = box["height"] / len(expected)
        page.mouse.move(box["x"] + cell * 0.5, box["y"] + cell * (row + 0.4))
        page.mouse.move(box["x"] + cell * 0.5, box["y"] + cell * (row + 0.5))
        chart.locator(".hovertext", has_text="fed in to predict").wait_for(timeout=5_000)
        page.wait_for_timeout(150)
        hover = (
            chart.locator(".hovertext").text_content().replace("\u2066", "").replace("\u2069", "")
        )
        assert hover.startswith(f"{text}, fed in to predict "), hover
        assert "may look at" in hover and "<bos>" in hover
    assert page.locator(".stPlotlyChart svg a, .stPlotlyChart svg img, .MathJax").count() == 0
