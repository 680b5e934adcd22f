"""Exports of a record: the standalone page and the tables."""

import copy
import csv
import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Page, expect

from app.components.assets import joined
from app.export import show
from app.export.arrays import as_text, csv_zip, weights_table
from app.export.page import page as export_page
from core.record.record import TranslationRecord
from core.translator import Translator
from tests.app.explorer_parts import choose

ARRAYS = ("encoder", "decoder", "cross", "source_positions", "target_positions")
ROOT = Path(__file__).parents[2]
HOSTILE = "Ein </script><script>document.title='taken'</script> Hund, $x$ & \"Katze\"."


@pytest.fixture(scope="module")
def record() -> TranslationRecord:
    return Translator.load(ROOT / "checkpoints/scratch-de-en", "cpu").inspect(HOSTILE)


@pytest.mark.parametrize("framed", [False, True])
def test_the_exported_page_works_offline(record, tmp_path, page: Page, framed):
    file = tmp_path / "record.html"
    show(record).save(file)
    assert "default-src 'none'" in file.read_text(encoding="utf-8")
    if framed:
        file.write_text(f"<!doctype html>{show(record)._repr_html_()}", encoding="utf-8")
    requested, errors = [], []
    page.on("request", lambda request: requested.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.context.set_offline(True)
    page.goto(file.as_uri())
    place = page.frame_locator("iframe") if framed else page
    explorer = place.locator(".explorer")
    explorer.and_(place.locator("[data-painted]")).wait_for()
    assert explorer.get_attribute("data-sentence") == record.id
    place.locator("canvas[data-role=map]").focus()
    page.keyboard.press("ArrowRight")
    expect(explorer).to_have_attribute("data-weight", re.compile(r"\d"))
    shown = explorer.evaluate("root => ({...root.dataset})")
    cell = tuple(int(shown[axis]) for axis in ("layer", "head", "query", "key"))
    assert float(shown["weight"]) == pytest.approx(record.cross[cell], abs=5e-5)
    offered = explorer.locator("[data-part=quantity] option")
    assert offered.all_text_contents() == ["weights", "rollout"]
    choose(explorer, "quantity", "rollout")
    expect(explorer).to_have_attribute("data-quantity", "rollout")
    expect(explorer.locator(".waiting")).to_have_count(0)
    assert [url for url in requested if not url.startswith(("file:", "about:"))] == []
    assert errors == []
    assert page.title() != "taken"


def test_forced_colours_keep_the_selection_visible(record, tmp_path, page: Page):
    """Forced colours remove backgrounds, so a border marks the selection."""
    file = tmp_path / "record.html"
    file.write_text(export_page(record), encoding="utf-8")
    page.emulate_media(forced_colors="active")
    page.goto(file.as_uri())
    kinds = page.locator(".explorer[data-painted] [data-part=kinds] button")
    chosen, other = (
        kinds.nth(place).evaluate(
            "button => [button.ariaPressed, getComputedStyle(button).borderTopWidth]"
        )
        for place in (2, 0)
    )
    assert (chosen, other) == (["true", "2px"], ["false", "0px"])


CELLS = ("a,b", 'say "a"', "two\nlines", "two\r\nlines", "=1+1", "+1", "-t", "@x", "=", "a=b", "")


def test_every_text_of_a_saved_table_stays_one_cell_and_no_formula(page: Page):
    """Escape the texts of a component's table, so that spreadsheets see no formula in them."""
    script = joined(ROOT / "app/components/shared/csv.js")
    saved = page.evaluate(
        f"texts => {{ {script}\n return csvOf([texts.map(quoted), [1, -0.5]]).text(); }}",
        list(CELLS),
    )
    texts, numbers = csv.reader(io.StringIO(saved.removeprefix("\ufeff"), newline=""))
    assert texts == [as_text(text) for text in CELLS] and numbers == ["1", "-0.5"]
    assert [text for text in texts if text[:1] in tuple("=+-@")] == ["="]


def test_about_holds_no_formula(record):
    names = {"model": "=cmd", "source_language": "+A", "translation": "-1,2\n“3”"}
    odd = copy.copy(record)
    for name, value in names.items():
        object.__setattr__(odd, name, value)
    with zipfile.ZipFile(io.BytesIO(csv_zip(odd))) as archive:
        about = dict(csv.reader(io.StringIO(archive.read("about.csv").decode("utf-8-sig"))))
    assert about["model"] == "'=cmd" and about["direction"].startswith("'+A to ")
    assert about["translation"] == "'-1,2\n“3”"


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_a_table_of_weights_equals_the_map(record, kind):
    table = weights_table(record, kind)
    weights = record.maps(kind)
    again = np.full(weights.shape, np.nan, np.float32)
    again[table.layer, table["head"], table["query"], table.key] = table.weight
    assert np.array_equal(again, weights)
    assert not table.weight[~table.may_attend].any()
    rows = record.source if kind == "encoder" else record.target_in
    assert [as_text(rows[i].text) for i in table["query"]] == list(table.query_token)
    produced = [""] * len(rows) if kind == "encoder" else [t.text for t in record.target_out]
    assert [as_text(produced[i]) for i in table["query"]] == list(table.produced_token)
    columns = record.target_in if kind == "decoder" else record.source
    assert [as_text(columns[i].text) for i in table["key"]] == list(table.key_token)
    unmasked = table["key"] <= table["query"] if kind == "decoder" else [True] * len(table)
    assert list(table.may_attend) == list(unmasked)


def test_the_zip_holds_every_array(record):
    with zipfile.ZipFile(io.BytesIO(csv_zip(record))) as archive:
        for name in archive.namelist():  # spreadsheets need the byte-order mark
            content = archive.read(name)
            assert content.startswith(b"\xef\xbb\xbf") and content.count(b"\xef\xbb\xbf") == 1
        tables = {
            name: pd.read_csv(archive.open(name), keep_default_na=False)
            for name in archive.namelist()
        }
    assert list(tables["about.csv"].columns) == ["name", "value"], "the mark is not read as text"
    assert set(tables) == {f"{name}.csv" for name in (*ARRAYS, "about", "tokens", "steps")}
    # Numbers round-trip.
    assert np.array_equal(tables["cross.csv"].weight.astype(np.float32), record.cross.ravel())
    about = dict(zip(*tables["about.csv"].T.to_numpy(), strict=True))
    assert about["model"] == record.model and about["record"] == record.id
    assert about["weights_sha256"] == record.weights_sha256
    assert (about["direction"], about["source"]) == ("German to English", record.source_text)
    assert about["precision"] == "32-bit numbers as recorded"
    for name in ("source_positions", "target_positions"):
        assert np.allclose(tables[f"{name}.csv"], getattr(record, name), atol=1e-6)
    assert record.source_positions.shape != record.target_positions.shape
    steps = [tuple(row) for row in tables["steps.csv"].itertuples(index=False)]
    assert steps == [
        (
            step,
            as_text(record.target_out[step].text),
            pytest.approx(record.log_probs[step], abs=1e-6),
            rank,
            as_text(token.text),
            pytest.approx(record.alternative_log_probs[step, rank], abs=1e-6),
        )
        for step, row in enumerate(record.alternatives)
        for rank, token in enumerate(row)
    ]
    assert list(tables["steps.csv"]) == [
        *("step", "token", "log_prob", "rank", "alternative", "alternative_log_prob")
    ]
    tokens = [tuple(row) for row in tables["tokens.csv"].itertuples(index=False)]
    assert tokens == [
        (side, place, token.id, as_text(token.piece), as_text(token.text))
        for side in ("source", "target_in", "target_out")
        for place, token in enumerate(getattr(record, side))
    ]
