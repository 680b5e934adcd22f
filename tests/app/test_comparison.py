"""The page "Scratch and baseline": figures hold the records' numbers, and its claims are true."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import struct
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import streamlit as st
from playwright.sync_api import expect
from streamlit.testing.v1 import AppTest

from app.components.map_row.payload import payload
from app.figures import comparison
from app.state import models, results
from app.state.models import Implementation
from app.views.comparison import maps
from core.analysis.difference import KINDS, SAME, largest_difference
from core.analysis.matching import match_heads
from core.checkpoint.folder import read_card
from core.config import DecodeConfig
from core.record.record import TranslationRecord
from core.translator import Translator
from tests.app.test_figures import HOSTILE, make_record, strings
from tests.core.conftest import SPLITS, run_train
from tests.small import SENTENCES

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "app/main.py"
SHIPPED = ROOT / "checkpoints/scratch-de-en"
SENTENCE = "Zwei junge Männer spielen im Park Fußball."


@pytest.fixture(scope="module", autouse=True)
def nothing_cached():
    """Leave no record behind: another test may damage a copy of the same checkpoint."""
    yield
    st.cache_resource.clear()
    st.cache_data.clear()


@pytest.fixture(scope="module")
def records(translator) -> tuple[TranslationRecord, TranslationRecord]:
    """The shipped model and its twin on one sentence and one target."""
    target = translator.inspect(SENTENCE).translation
    return translator.inspect(SENTENCE, target), translator.other_implementation().inspect(
        SENTENCE, target
    )


@pytest.fixture(scope="module")
def two_folders(tmp_path_factory) -> Path:
    """A folder with two tiny checkpoints of one direction that learned apart from each other."""
    data = tmp_path_factory.mktemp("data")
    (data / "multi30k").mkdir()
    for split in SPLITS:
        lines = SENTENCES * (20 if split == "train" else 1)
        for side, language in enumerate(("de", "en")):
            text = "".join(pair[side] + "\n" for pair in lines)
            (data / "multi30k" / f"{split}.{language}").write_text(text, encoding="utf-8")
    folder = tmp_path_factory.mktemp("checkpoints")
    for model, seed in (("scratch", 1), ("baseline", 2)):
        out = folder / f"{model}-de-en"
        run_train("--data", data, "--out", out, "--model", model, "--seed", seed)
    return folder


def heat(figure) -> np.ndarray:
    return next(trace for trace in figure.data if trace.type == "heatmap")


def unpack(packed: bytes) -> dict:
    (length,) = struct.unpack_from("<I", packed)
    header = json.loads(packed[4 : 4 + length])
    for name, value in header.items():
        if isinstance(value, dict) and value.keys() == {"at", "length"}:
            start = 4 + length + value["at"]
            header[name] = packed[start : start + value["length"]]
    return header


def sent(app: AppTest) -> tuple[dict, np.ndarray, np.ndarray]:
    """The row of maps as the browser gets it: its values, and both models' [L, H, query, key]."""
    (row,) = [c for c in app.get("bidi_component") if c.proto.component_name == "headlight.map_row"]
    data = unpack(row.proto.bytes)
    shape = (
        len(data["layers"]),
        data["heads"],
        len(data["queries"]["tokens"]),
        len(data["keys"]["tokens"]),
    )
    first, second = (
        np.frombuffer(data[f"values_{place}"], "<f4").reshape(shape) for place in (0, 1)
    )
    return data, first, second


@pytest.mark.parametrize("kind", KINDS)
def test_the_row_holds_both_records_maps(records, kind):
    """Values, words of queries and keys, mask, and a difference on either scale."""
    first, second = records
    pair = tuple(Implementation(read_card(SHIPPED), other) for other in (False, True))
    drawn = maps.row(pair, records, kind, False, None)
    assert np.array_equal(drawn.maps[0].values, first.maps(kind))
    assert np.array_equal(drawn.maps[1].values, second.maps(kind))
    assert (drawn.maps[2].first, drawn.maps[2].second, drawn.maps[2].scale.limit) == (0, 1, 1.0)
    assert np.array_equal(drawn.mask, first.mask(kind))
    produced, read = (first.target_out, "English token being produced"), (first.source, "German")
    queries = (first.source, "German token") if kind == "encoder" else produced
    keys = (first.target_in, "English token") if kind == "decoder" else (first.source, read[1])
    assert (drawn.queries.tokens, drawn.queries.words) == queries
    assert drawn.keys.tokens == keys[0] and drawn.keys.words.startswith(keys[1])
    assert [drawn.queries.numbers[0], drawn.keys.numbers[0]] == [1, 0 if kind == "decoder" else 1]
    own = maps.row(pair, records, kind, True, None).maps[2].scale.limit
    largest = np.abs(first.maps(kind).astype(np.float64) - second.maps(kind)).max((2, 3))
    assert np.array_equal(own, np.where(largest > 0, largest, 1))
    payload(drawn)  # nothing leaves its scale


def test_each_head_stands_beside_the_one_that_is_matched_to_it(records):
    first, second = records
    turned = dataclasses.replace(second, cross=second.cross[::-1, ::-1].copy())
    matching = match_heads([first.cross], [turned.cross])
    pair = tuple(Implementation(read_card(SHIPPED), other) for other in (False, True))
    drawn = maps.row(pair, (first, turned), "cross", False, matching)
    assert np.array_equal(drawn.maps[1].values, second.cross)
    layers, heads = first.cross.shape[:2]
    assert drawn.maps[1].note[0][1] == f"layer {layers}, head {heads - 1}"


def test_scores_and_curves_are_the_numbers(records, translator):
    first, _ = records
    figure = comparison.scores_figure(first, -3.0, "First", "light")
    assert np.array_equal(figure.data[0].y, first.log_probs)
    assert figure.layout.yaxis.range[0] < -3 and figure.layout.yaxis.range[1] == 0
    curve = translator.card.metrics["curve"]
    drawn = comparison.curves_figure({"a": curve}, "dark").data
    assert list(drawn[0].y) == [point["val_loss"] for point in curve]
    assert list(drawn[1].y) == [point["train_loss"] for point in curve]
    assert list(drawn[0].x) == [point["step"] for point in curve]
    both = comparison.curves_figure({"one": curve, "other": curve}, "dark").data
    assert [trace.name.split(":")[0] for trace in both] == ["one", "one", "other", "other"]
    assert all("%{fullData.name}" in trace.hovertemplate for trace in both)  # whose curve it is


def test_matched_heads_are_ringed_where_they_are(records):
    first, second = records
    turned = second.cross[::-1, ::-1].copy()
    matching = match_heads([first.cross], [turned])
    figure = comparison.matching_figure(matching, "cross", "light")
    assert np.array_equal(heat(figure).z, matching.similarity)
    rings = [trace for trace in figure.data if trace.type == "scatter" and trace.x[0] is not None]
    N = len(matching.partner)
    assert all(list(ring.x) == list(range(N))[::-1] for ring in rings) and len(rings) == 2
    assert all(list(ring.y) == list(range(N)) for ring in rings)
    assert (
        f"0 of {N} are matched to the head of the same number" in figure.layout.title.subtitle.text
    )


def test_words_reach_plotly_escaped():
    hostile = make_record(HOSTILE, HOSTILE)
    figures = [
        comparison.scores_figure(hostile, -1.0, "<b>$</b>", "light"),
        comparison.curves_figure({"<b>$": []}, "light"),
    ]
    for figure in figures:
        for text in strings(json.loads(figure.to_json())):
            assert "$" not in text, text
            assert "<" not in text.replace("<br>", ""), text


def open_page(monkeypatch, folder: Path, **state: object) -> AppTest:
    """The page on a folder of checkpoints, without a browser."""
    monkeypatch.setattr(models, "CHECKPOINTS", folder)
    models._listed.clear()
    app = AppTest.from_file(str(MAIN), default_timeout=120).run()
    for key, value in state.items():
        app.session_state[key] = value
    app.switch_page("views/comparison/page.py").run()
    models._listed.clear()
    assert not app.exception, app.exception
    return app


def texts(app: AppTest) -> str:
    return "\n".join(e.value for kind in ("markdown", "text", "caption") for e in app.get(kind))


def test_the_page_compares_a_model_with_its_twin(monkeypatch, translator):
    app = open_page(monkeypatch, ROOT / "checkpoints")
    said = texts(app)
    assert "All weights agree within 1e-5" in said
    source = app.text_area(key="source").value
    target = translator.inspect(source).translation
    first = translator.inspect(source, target)
    second = translator.other_implementation().inspect(source, target)
    largest = largest_difference(first, second)
    place = f"{largest.kind}, layer {largest.layer + 1}, head {largest.head + 1}, "
    assert f"Largest: {place}" in said and target in said
    assert f"first {largest.first:.7f}, second {largest.second:.7f}" in said
    app.button(key="show_largest").click().run()
    data, one, other = sent(app)
    assert np.array_equal(one, first.maps(largest.kind))
    assert np.array_equal(other, second.maps(largest.kind))
    opened = data["opened"]
    assert (opened["layer"], opened["head"], opened["turn"]) == (largest.layer, largest.head, 1)
    there = one.astype(np.float64)[largest.layer, largest.head] - other[largest.layer, largest.head]
    assert np.abs(there).max() == abs(largest.difference) <= SAME
    assert not app.exception and not app.error
    heads = first.cross.shape[0] * first.cross.shape[1]
    assert f"All {heads} heads are matched to themselves" in texts(app)


@pytest.mark.parametrize(
    ("link", "opened"),
    [
        ({}, (2, 0, 0)),
        ({"compare_layer": "0", "compare_head": "3", "compare_kind": "encoder"}, (0, 3, 1)),
        ({"compare_layer": "9", "compare_head": "x"}, (2, 0, 1)),
    ],
)
def test_a_link_turns_the_maps_to_a_head(link, opened):
    app = AppTest.from_file(str(MAIN), default_timeout=120).run()
    app.query_params.update(link)
    app.switch_page("views/comparison/page.py").run()
    assert not app.exception and not app.error
    data, _, _ = sent(app)
    assert tuple(data["opened"][name] for name in ("layer", "head", "turn")) == opened
    assert data["site"].lower() == link.get("compare_kind", "cross")


def test_speed_is_measured_when_asked(monkeypatch):
    app = open_page(monkeypatch, ROOT / "checkpoints")
    assert " times** as" not in texts(app)
    app.button(key="measure_speed").click().run()
    said = re.search(
        r"The first, the scratch code: \*\*([\d.]+) ms\*\*. The second, torch.nn.Transformer: "
        r"\*\*([\d.]+) ms\*\*. The first, the scratch code, is \*\*([\d.]+) times",
        texts(app),
    )
    first, second, ratio = map(float, said.groups())
    assert ratio == pytest.approx(second / first, rel=0.02)


def test_the_clock_runs_only_while_the_model_is_held(monkeypatch, translator):
    """Waiting for another visitor's translation is no time of this model's."""
    noted = []

    class Noting:
        @contextmanager
        def exclusive_model(self, raise_if_cancelled):
            noted.append("held")
            yield
            noted.append("free")

        def translate(self, texts, decode):
            noted.append("translate")

    monkeypatch.setattr(results, "translator", lambda model: Noting())
    monkeypatch.setattr(results.time, "perf_counter", lambda: noted.append("clock") or 0.0)
    results.decoding_seconds((None, None), SENTENCE, DecodeConfig(), rounds=1)
    turns = noted[noted.index("held") :]  # before that is the wait in the line
    assert turns == ["held", "clock", "translate", "clock", "free"] * 4
    with translator.exclusive_model():  # who holds the network may translate with it
        assert translator.translate(["Ein Hund."])[0].text


def test_two_models_that_learned_apart_are_matched_first(monkeypatch, two_folders):
    app = open_page(
        monkeypatch, two_folders, first_model="scratch", second_model="baseline", direction="de-en"
    )
    said = texts(app)
    assert "These two learned apart" in said and "Matched heads have" in said
    assert "There is no second" not in said and "agree within" not in said
    assert not app.error and len(app.get("plotly_chart")) == 4
    # The second map is the matched head's, not the one of the same number.
    first, second = (Translator.load(two_folders / f"{m}-de-en") for m in ("scratch", "baseline"))
    source = app.text_area(key="source").value
    target = first.inspect(source).translation
    candidates = second.inspect(source, target).cross
    table = app.dataframe[0].value
    data, _, second_maps = sent(app)
    for layer, line in enumerate(data["maps"][1]["note"]):
        for head, note in enumerate(line):
            row = table[table["first"] == f"{layer + 1}.{head + 1}"]
            there = tuple(int(i) - 1 for i in row["second"].item().split("."))
            assert np.array_equal(second_maps[layer, head], candidates[there])
            assert note == f"layer {there[0] + 1}, head {there[1] + 1}"


def test_different_shapes_are_one_line_and_the_rest_of_the_page_stays(
    monkeypatch, two_folders, tmp_path
):
    shutil.copytree(SHIPPED, tmp_path / "scratch-de-en")
    shutil.copytree(two_folders / "baseline-de-en", tmp_path / "baseline-de-en")
    app = open_page(
        monkeypatch, tmp_path, first_model="scratch", second_model="baseline", direction="de-en"
    )
    (error,) = app.error
    assert "cannot be subtracted" in error.value and "\n" not in error.value
    assert [e.value for e in app.subheader][-1] == "The same weights under two names"


def test_a_wrong_twin_is_called_wrong(monkeypatch):
    """Were the two implementations to disagree, the page would say so and name the cell."""
    inspect = results.inspect

    def faulty(model, source, target=None, **how):
        record = inspect(model, source, target, **how)
        if not getattr(model, "other", False) or target is None:
            return record
        cross = record.cross.copy()
        row = cross[2, 1, 3]
        row[row.argsort()[-2:]] -= 1e-4, 2e-4
        row[row.argmin()] += 3e-4
        return dataclasses.replace(record, cross=cross)

    monkeypatch.setattr(results, "inspect", faulty)
    results._store.clear()
    app = open_page(monkeypatch, ROOT / "checkpoints")
    results._store.clear()  # what was made from the faulty maps
    assert any("more than the 1e-5 that rounding explains" in e.value for e in app.error)
    assert "Largest: cross, layer 3, head 2, producing" in texts(app)
    assert "(row 4)" in texts(app)


def test_the_page_in_a_browser(local_page, serve):
    """As a student would: open, read the difference, run the checklist, see every tick."""
    local_page.goto(f"{serve(MAIN)}/comparison?direction=en-de")  # the smaller networks
    main = local_page.locator("[data-testid=stMain]")
    expect(main.get_by_text("All weights agree within 1e-5")).to_be_visible(timeout=60_000)
    expect(main.locator(".st-key-largest")).to_contain_text("Largest: ")
    for key in ("matched_heads", "curves"):
        expect(main.locator(f".st-key-{key} .main-svg").first).to_be_visible(timeout=30_000)
    maps = main.locator(".st-key-compared_maps section.map-row")
    expect(maps).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=30_000)
    maps.get_by_role("radio", name="layer 1").click()
    maps.get_by_role("radio", name="head 3").click()
    expect(maps.locator(".title")).to_have_text("Cross, layer 1, head 3")
    expect(local_page).to_have_url(re.compile("compare_layer=0&compare_head=2"))
    largest = re.search(r"layer (\d+), head (\d+)", main.locator(".st-key-largest").text_content())
    main.locator(".st-key-show_largest button").click()
    expect(maps).to_have_attribute("data-layer", str(int(largest[1]) - 1))
    expect(maps).to_have_attribute("data-head", str(int(largest[2]) - 1))
    maps.get_by_role("radio", name="head 1").click()
    local_page.reload()
    expect(maps).to_have_attribute("data-layer", str(int(largest[1]) - 1), timeout=60_000)
    expect(maps).to_have_attribute("data-head", "0")
    main.locator(".st-key-run_checks button").click()
    verdict = main.locator(".st-key-checks")
    expect(verdict).to_contain_text(
        "lines hold. They compare the two on 3 sentence pairs", timeout=120_000
    )
    count = int(re.search(r"All (\d+) lines", verdict.text_content()).group(1))
    ticks = verdict.locator("tbody tr").filter(has_text="✓")
    expect(ticks).to_have_count(count)
    assert count >= 40
    local_page.get_by_role("link", name="Masks").click()
    local_page.get_by_role("link", name="Scratch and baseline").click()
    expect(verdict).to_contain_text("lines hold", timeout=30_000)  # kept for the visit
    expect(local_page.locator("[data-testid=stException]")).to_have_count(0)
