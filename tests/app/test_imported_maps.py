"""Maps from other tools in the explorer, in saved pages, tables and pictures, and as files."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import Browser
from streamlit.testing.v1 import AppTest

from app.components.explorer.payload import payload
from app.export.arrays import csv_zip
from app.export.page import first_view, page, show
from app.state.address import initial_view
from core.analysis.rollout import rollout
from core.kinds import KINDS
from core.record.record import TranslationRecord
from tests.app.mounted import Mounted

MAIN = Path(__file__).resolve().parents[2] / "app/main.py"
SOURCE = ["▁Ein", "▁H", "und", "▁lacht", "</s>"]
TARGET = ["▁A", "▁dog", "▁laugh", "s", ".", "</s>"]
S, T = len(SOURCE), len(TARGET)
SHAPES = {"encoder": (3, 4, S, S), "decoder": (2, 1, T, T), "cross": (5, 2, T, S)}


def maps_of(*kinds: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    maps = {}
    for kind, shape in SHAPES.items():
        raw = rng.random(shape) ** 3 + 0.01
        raw = np.tril(raw) if kind == "decoder" else raw
        maps[kind] = (raw / raw.sum(-1, keepdims=True)).astype(np.float32)
    return {kind: maps[kind] for kind in kinds or KINDS}


def imported(*kinds: str) -> TranslationRecord:
    return TranslationRecord.from_arrays(SOURCE, TARGET, **maps_of(*kinds), model="toy")


def sent(record: TranslationRecord, **named) -> dict:
    return payload(record, first_view(record), checked="here", **named)


@pytest.fixture(scope="module")
def at(browser: Browser) -> Iterator[Mounted]:
    context = browser.new_context(viewport={"width": 1000, "height": 1000})
    yield Mounted(context.new_page())
    context.close()


def press(part: str, name: str, value: str) -> tuple:
    return ("press", f"[data-part={part}] [data-{name}='{value}']")


def kind(name: str) -> tuple:
    return press("kinds", "kind-option", name)


def head(layer: int, head: int) -> tuple:
    return ("press", f".thumbnail[data-l='{layer}'][data-h='{head}']:not(.missing)")


@pytest.mark.parametrize("name", KINDS)
def test_every_head_of_every_kind_shows_its_own_weights(at, name):
    at.show(sent(imported()))
    layers, heads, queries, keys = SHAPES[name]
    listed = at.does(kind(name))["heads"]
    both = [(layer, h) for layer in range(layers + 1) for h in (*range(heads), 4)]  # 4: all heads
    assert [tuple(one[:2]) for one in listed] == both
    maps = maps_of()[name].astype(np.float64)
    for layer in range(layers):
        for h in range(heads):
            cells = [(queries - 1, 0), (queries - 1, keys - 2)]
            for query, key in cells:
                state = at.does(head(layer, h), ("over", query, key))["data"]
                assert (state["kind"], state["layer"], state["head"]) == (name, str(layer), str(h))
                assert state["weight"] == f"{maps[layer, h, query, key]:.4f}"
    for place, mean in (((layers, 4), maps.mean((0, 1))), ((1, 4), maps[1].mean(0))):
        state = at.does(head(*place), ("over", queries - 1, 1))["data"]
        assert state["head"] == "mean"
        assert state["weight"] == f"{mean[queries - 1, 1]:.4f}"


def test_heads_are_counted_kept_and_sorted_within_their_kind(at):
    at.show(sent(imported()))
    names = {name: at.does(kind(name))["heads"][-1][2] for name in KINDS}
    for name, (layers, heads, _, _) in SHAPES.items():
        assert f"of all {layers * heads} heads" in names[name]
    at.does(kind("cross"), head(2, 4))
    assert "mean of 2 heads" in at.does()["parts"]["statistics-title"]
    assert "one of the 10 cross-attention heads" in at.does()["parts"]["statistics-note"]
    for steps, layer, chosen in (
        ((kind("encoder"), head(2, 3), kind("cross")), "2", "1"),
        ((kind("decoder"),), "1", "0"),
        ((kind("cross"), head(0, 4), kind("encoder")), "0", "mean"),
    ):
        state = at.does(*steps)["data"]
        assert (state["layer"], state["head"]) == (layer, chosen)
    entropy = -(maps_of()["cross"] * np.log2(maps_of()["cross"])).sum(-1).mean(-1)
    state = at.does(kind("cross"), ("set", "[data-part=sort]", "spread"))
    order = [tuple(one[:2]) for one in state["heads"] if one[0] < 5 and one[1] < 4]
    assert order == sorted(np.ndindex(5, 2), key=lambda place: -entropy[place])


def test_rollout_is_shown_for_each_kind(at):
    record = imported()
    expected = rollout(record)
    at.show(sent(record, quantities={"rollout": expected}))
    for name, (layers, _, queries, _) in SHAPES.items():
        at.does(kind(name), ("set", "[data-part=quantity]", "rollout"))
        listed = at.does()["heads"]
        assert [one[0] for one in listed] == [*range(layers)]
        state = at.does(head(layers - 1, 4), ("over", queries - 1, 1))["data"]
        assert state["weight"] == f"{expected[name][-1, 0, queries - 1, 1]:.4f}"
        at.does(("set", "[data-part=quantity]", "weights"))


@pytest.mark.parametrize("kinds", [("cross",), ("encoder",), ("decoder", "encoder")])
def test_missing_kinds_cannot_be_chosen(at, kinds):
    record = imported(*kinds)
    at.show(sent(record))
    first = next(name for name in ("cross", "decoder", "encoder") if name in kinds)
    assert initial_view(record)["kind"] == first_view(record)["kind"] == first
    state = at.does()
    assert state["data"]["kind"] == first
    buttons = at.page.evaluate(
        "[...root().querySelector('[data-part=kinds]').children]"
        ".filter((at) => !at.hidden).map((at) => at.dataset.kindOption)"
    )
    assert sorted(buttons) == sorted(kinds)
    for number in "123":
        assert at.does(("key", number))["data"]["kind"] in kinds
    at.show(sent(imported()))
    at.does(kind("cross"))
    at.show(sent(record), again=True)  # the kind that was shown may be gone
    assert at.does()["data"]["kind"] in kinds


def test_what_needs_the_weights_is_not_offered_and_says_why(at):
    at.show(sent(imported(), quantities={"rollout": rollout(imported())}))
    state = at.does(("over", 1, 1))
    parts = state["parts"]
    assert parts["target-note"] == "maps from arrays"
    assert "no probabilities, scores, norms or edits, and nothing was recomputed" in parts["claim"]
    assert parts["badge"] == "Pictures checked: 2 of 2, 6 need the weights"
    assert parts["checks"].count("Needs the weights") == 6
    assert "Recomputed outside the model" in parts["checks"]
    assert state["data"]["checks"] == "2/2"
    assert parts["score"] == "" and not any(token["bar"] for token in state["target"])
    assert "probability" not in state["first"] + state["second"]
    options = at.page.evaluate("[...root().querySelector('[data-part=quantity]').options].length")
    assert options == 2, "weights and rollout"


def test_special_tokens_of_other_tools_are_not_explained_as_ours(at):
    for start, end in (("<pad>", "</s>"), ("<bos>", "<eos>")):
        target = [*TARGET[:-1], end]
        record = TranslationRecord.from_arrays(SOURCE, target, **maps_of(), start=start)
        at.show(sent(record))
        first, *_, last = at.does()["target"]
        assert (first["form"], last["form"]) == (start, end)
        explained = [token["title"].startswith(token["form"]) for token in (first, last)]
        assert explained == [start == "<bos>"] * 2
        assert "end of sentence" not in first["title"]


def test_the_csv_and_the_picture_hold_the_chosen_map(at):
    at.show(sent(imported()))
    at.does(kind("cross"), head(4, 1))
    rows = list(csv.reader(io.StringIO(at.saves("map-csv").lstrip("\ufeff"))))
    about, *lines = rows
    assert "maps from arrays" in about[0]
    assert "Layer 5, head 2" in about[0] and "; toy, Source to Target, maps from" in about[0]
    numbers = np.array([[float(cell) for cell in line[1:]] for line in lines])
    assert np.allclose(numbers, maps_of()["cross"][4, 1], atol=1e-6)
    assert "Layer 5, head 2" in at.saves("map-svg")
    overview = at.saves("overview-svg")  # one caption per head and per mean
    assert re.findall(r">(\d|all)\.(\d|all)\s{2}", overview) == [
        (layer, h) for layer in (*"12345", "all") for h in (*"12", "all")
    ]


def test_a_model_without_a_name_leaves_no_gap(at):
    record = TranslationRecord.from_arrays(SOURCE, TARGET, **maps_of())
    at.show(sent(record))
    assert "; Source to Target, maps from arrays; record" in at.saves("map-csv")
    assert "Shown with Headlight: Source to Target (maps from arrays)" in page(record)
    assert "5 → 6 tokens, maps from arrays" in record._repr_html_()
    text = page(imported("decoder"))
    assert "Shown with Headlight: toy Source to Target (maps from arrays)" in text
    assert "weights ;" not in text and "Made with Headlight" not in text


def test_the_tables_hold_every_weight_and_what_was_not_checked():
    with zipfile.ZipFile(io.BytesIO(csv_zip(imported("encoder", "cross")))) as opened:
        tables = {
            name: list(csv.reader(io.StringIO(opened.read(name).decode("utf-8-sig"))))
            for name in opened.namelist()
        }
    assert sorted(tables) == ["about.csv", "cross.csv", "encoder.csv", "tokens.csv"]
    about = dict(tables["about.csv"][1:])
    assert about["search"] == "maps from arrays" and about["kinds without maps"] == "decoder"
    assert about["checks"] == "passed: Every row sums to 1"
    assert about["not checked for lack of the weights"].count(";") == 5
    _, *rows = tables["cross.csv"]
    assert len(rows) == 5 * 2 * T * S
    maps = maps_of()["cross"]
    for layer, h, query, key, *_, weight, _ in rows:
        assert np.float32(weight) == maps[int(layer), int(h), int(query), int(key)]


def test_a_saved_record_is_opened_and_checked_in_the_app():
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    app.session_state["take_away"] = True
    app.run()
    content = imported("encoder", "cross").to_bytes()
    app.file_uploader(key="open_record").set_value(("x.npz", content, "")).run()
    assert not app.exception and not app.error
    assert app.subheader[-1].value == "Opened: x.npz"
    assert "toy, maps from arrays" in app.text[-1].value


def test_the_guides_example_of_arrays_runs(tmp_path, monkeypatch, capsys):
    text = (MAIN.parents[1] / "core/foreign/README.md").read_text(encoding="utf-8")
    (example,) = (
        one for one in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S) if "arrays" in one
    )
    monkeypatch.chdir(tmp_path)
    exec(example, names := {})
    record = names["record"]
    assert [t.text for t in record.target_in] == ["<s>", "A", "dog", "sleep", "s"]
    np.testing.assert_array_equal(record.cross, names["cross"].astype(np.float32))
    assert TranslationRecord.load(tmp_path / "maps.npz") == record
    printed = capsys.readouterr().out
    assert "Every row sums to 1 passed" in printed and "Log-probabilities recomputed" in printed
    exports = (MAIN.parent / "export/README.md").read_text(encoding="utf-8")
    exec(*re.findall(r"^```python\n(.*?)^```$", exports, re.M | re.S), {})
    assert "Ein Hund schläft" in (tmp_path / "maps.html").read_text(encoding="utf-8")


def test_a_record_is_saved_as_what_the_file_is_called(tmp_path):
    record = imported()
    for name in ("maps.html", "maps.HTM", "maps.svg"):
        show(record).save(tmp_path / name)
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text.startswith("<svg" if name.endswith("svg") else "<!")
    drawn = ElementTree.parse(tmp_path / "maps.svg").getroot()
    titles = [e.text for e in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[1:] == [f"{weight:.4f}" for weight in record.cross[0, 0].ravel()]
    for name in ("maps.png", "maps.pdf", "maps.npz", "maps.svg.gz", "maps", ".svg"):
        with pytest.raises(ValueError, match=r"does not end with .html .* or .svg") as caught:
            show(record).save(tmp_path / name)
        assert "\n" not in str(caught.value) and not (tmp_path / name).exists()


def test_several_records_are_not_shown_at_once():
    for several in ([imported(), imported()], (imported(),), None):
        with pytest.raises(TypeError, match="show takes one record, not"):
            show(several)
