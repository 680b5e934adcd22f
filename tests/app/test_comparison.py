"""The page "Scratch and baseline": links, buttons, timing and failures."""

from __future__ import annotations

import dataclasses
import re
import shutil
from contextlib import contextmanager

import numpy as np
import pytest
import streamlit as st

from app.state import models, results
from app.state.models import Implementation
from app.views.comparison import maps, side_by_side
from core.analysis.difference import KINDS
from core.analysis.matching import Matching
from core.checkpoint.folder import read_card
from core.config import DecodeConfig
from core.parity import checklist
from tests.app.page_checks import ROOT, map_row, translator
from tests.app.rendered import Rendered, read, render
from tests.app.test_masks_positions import save_small_model

SHIPPED = ROOT / "checkpoints/scratch-de-en"
SENTENCE = "Zwei junge Männer spielen im Park Fußball."


@pytest.fixture(scope="module", autouse=True)
def nothing_cached():
    """Leave no record behind: another test may damage a copy of the same checkpoint."""
    yield
    st.cache_resource.clear()
    st.cache_data.clear()


def text_of(page: Rendered) -> str:
    return "\n".join(page.texts())


@pytest.mark.parametrize("kind", KINDS)
def test_the_difference_on_its_own_scale_ends_at_its_largest_value(kind):
    scratch = translator("scratch-de-en")
    target = scratch.inspect(SENTENCE).translation
    records = (
        scratch.inspect(SENTENCE, target),
        scratch.other_implementation().inspect(SENTENCE, target),
    )
    card = read_card(SHIPPED)
    pair = Implementation(card, False), Implementation(card, True)
    first, second = (record.maps(kind).astype(np.float64) for record in records)
    largest = np.abs(first - second).max((2, 3))
    drawn = maps.map_row_of(pair, records, kind, True, None)
    assert np.array_equal(drawn.maps[2].scale.limit, np.where(largest > 0, largest, 1))
    assert maps.map_row_of(pair, records, kind, False, None).maps[2].scale.limit == 1
    assert np.array_equal(drawn.mask, records[0].mask(kind))


@pytest.mark.parametrize(
    ("link", "opened"),
    [
        ({}, (2, 0, 0)),
        ({"compare_layer": "0", "compare_head": "3", "compare_kind": "encoder"}, (0, 3, 1)),
        ({"compare_layer": "9", "compare_head": "x"}, (2, 0, 1)),
    ],
)
def test_a_link_selects_a_head(link, opened):
    header, _ = map_row(render("comparison", "open_details", **link), "compared_maps")
    assert tuple(header["opened"][name] for name in ("layer", "head", "turn")) == opened
    assert header["site"].lower() == link.get("compare_kind", "cross")


@pytest.mark.parametrize(("query", "ratio"), [({"model": "baseline"}, "4.00"), ({}, "0.25")])
def test_the_ratio_of_speeds_is_that_of_the_scratch_code(monkeypatch, query, ratio):
    monkeypatch.setattr(results, "decoding_seconds", lambda *_: (2.0, 0.5))
    page = render(
        "comparison",
        "open_details",
        act=lambda app: app.button(key="measure_speed").click().run(),
        **query,
    )
    names = ["The first, the scratch code", "The second, torch.nn.Transformer"]
    if query:
        names = ["The first, torch.nn.Transformer", "The second, the scratch code"]
    (said,) = page.texts("speed", "markdown")
    assert f"{names[0]}: **2000.0 ms**" in said and f"{names[1]}: **500.0 ms**" in said
    scratch = next(name for name in names if "scratch" in name)
    assert f"{scratch}, is **{ratio} times** as fast" in said


def test_layers_of_encoder_and_decoder_are_told_apart(monkeypatch):
    shown = []
    monkeypatch.setattr(side_by_side.st, "dataframe", lambda rows, **_: shown.append(rows))
    card = read_card(SHIPPED)
    model = dataclasses.replace(card.model, num_encoder_layers=6, num_decoder_layers=3, num_heads=2)
    other = Implementation(dataclasses.replace(card, model=model), True)
    one = translator("scratch-de-en").inspect(SENTENCE)
    side_by_side.show_facts((Implementation(card, False), other), [one, one], (one, one))
    (rows,) = shown
    at = rows[""].index("layers, heads, d_model")
    assert (rows["first"][at], rows["second"][at]) == ("4 + 4, 4, 192", "6 + 3, 2, 192")


def test_the_least_similar_pair_of_matched_heads_is_named(monkeypatch):
    alike = np.diag(np.linspace(0.62, 0.97, 16))[::-1, ::-1]
    matching = Matching(4, 4, tuple(range(16)), np.ascontiguousarray(alike))
    monkeypatch.setattr(results, "matched_heads", lambda *_: dict.fromkeys(KINDS, matching))
    render("comparison", "open_details", source=SENTENCE).claim(
        "All 16 heads are matched to themselves; the least similar pair shares 62\u00a0% of its "
        "attention."
    )


def test_only_the_time_with_the_model_is_measured(monkeypatch):
    """Waiting for another visitor's translation does not count."""
    events = []

    class Recording:
        @contextmanager
        def exclusive_model(self, raise_if_cancelled):
            events.append("held")
            yield
            events.append("free")

        def translate(self, texts, decode):
            events.append("translate")

    monkeypatch.setattr(results, "translator", lambda model: Recording())
    monkeypatch.setattr(results.time, "perf_counter", lambda: events.append("clock") or 0.0)
    results.decoding_seconds((None, None), SENTENCE, DecodeConfig(), rounds=1)
    rounds = events[events.index("held") :]  # skip the wait in the queue
    assert rounds == ["held", "clock", "translate", "clock", "free"] * 4
    scratch = translator("scratch-de-en")
    with scratch.exclusive_model():  # the lock is reentrant
        assert scratch.translate(["Ein Hund."])[0].text


def test_models_of_different_shapes_get_one_error_line(monkeypatch, tmp_path):
    shutil.copytree(SHIPPED, tmp_path / "scratch-de-en")
    save_small_model(tmp_path / "baseline-de-en")
    monkeypatch.setattr(models, "CHECKPOINTS", tmp_path)
    models._listed.clear()
    page = render("comparison", "open_details", first_model="scratch", second_model="baseline")
    models._listed.clear()
    error = page.app.error[-1]
    assert "cannot be subtracted" in error.value and "\n" not in error.value
    assert [e.value for e in page.app.subheader][-1] == "The same weights under two names"


def test_a_wrong_implementation_is_called_wrong(monkeypatch):
    """The page reports a difference beyond rounding and names the cell."""
    inspect = results.inspect

    def faulty(model, source, target=None, **options):
        record = inspect(model, source, target, **options)
        if not getattr(model, "other", False) or options.get("target_ids") is None:
            return record
        cross = record.cross.copy()
        row = cross[2, 1, 3]
        row[row.argsort()[-2:]] -= 1e-4, 2e-4
        row[row.argmin()] += 3e-4
        return dataclasses.replace(record, cross=cross)

    monkeypatch.setattr(results, "inspect", faulty)
    results._store.clear()
    page = render("comparison", "open_details")
    results._store.clear()  # drop results computed from the faulty maps
    assert any("more than the 1e-5 that rounding explains" in e.value for e in page.app.error)
    assert "Largest: cross, layer 3, head 2, producing" in text_of(page)
    assert "(row 4)" in text_of(page)


@pytest.mark.parametrize(
    "pair",
    [
        ("scratch-twin", "scratch"),
        ("scratch-twin", "scratch-twin"),
        ("baseline", "captions-twin"),
    ],
)
def test_the_library_model_never_searches(pair, monkeypatch):
    """Without a KV cache, the search of a large network takes half a minute."""
    inspect, searched = results.inspect, set()

    def recorded(model, source, target=None, **options):
        record = inspect(model, source, target, **options)
        if record.decode is not None:
            searched.add((model.card.folder.name, model.architecture))
        return record

    monkeypatch.setattr(results, "inspect", recorded)
    first, second = pair
    page = render(
        "comparison",
        "open_details",
        source="Ein Hund läuft.",
        first_model=first,
        second_model=second,
    )
    folders = {f"{name.removesuffix('-twin')}-de-en" for name in pair}
    folders.add("scratch-de-en")  # the page's own network
    assert searched == {(folder, "scratch") for folder in folders}
    assert "teacher-forced on the tokens that the scratch code found" in text_of(page)


def test_buttons_show_the_largest_difference_and_run_the_checklist_again():
    """Only the first checks are run here; core's tests run all."""
    runs = []

    def press(app) -> None:
        app.button(key="show_largest").click().run()
        runs.append(read(app).texts("checks", "caption"))
        app.button(key="run_checks").click().run()

    page = render("comparison", "open_details", direction="en-de", act=press)
    (largest,) = page.texts("largest", "text")
    kind, layer, head = re.match(r"Largest: (\w+), layer (\d+), head (\d+)", largest).groups()
    header, _ = map_row(page, "compared_maps")
    opened = header["opened"]
    assert header["site"] == kind.capitalize()
    assert (opened["layer"], opened["head"]) == (int(layer) - 1, int(head) - 1)
    page.claim_matching(r"##### Is the code correct\? \*\*Yes: all 8 comparisons .*", "checks_head")
    assert len(page.table("all_checks")) == 8
    assert len({key[2] for key in results._store()._values if key[0] == "checklist"}) == 2


def test_an_interrupted_checklist_continues(monkeypatch):
    """Each line is compared once, though the first run stops after three."""
    every, compared = checklist.checklist, []

    def counted(checkpoint):
        for check in every(checkpoint):
            compared.append(check.name)
            yield check

    class Stopped(BaseException):
        pass

    def stop(lines, total) -> None:
        if len(lines) == 3:
            raise Stopped

    monkeypatch.setattr(checklist, "checklist", counted)
    card = read_card(SHIPPED)
    with pytest.raises(Stopped):
        results.run_checklist(card, "stopped", stop, lambda ahead: None)
    seen = []
    done = results.run_checklist(
        card, "stopped", lambda lines, total: seen.append((len(lines), total)), lambda ahead: None
    )
    names = [check.name for check in done.checks]
    assert names == compared and len(set(names)) == 8 and seen[0] == (4, 87)
