"""The two lessons say and draw what the model's tensors hold; what they cannot do is one line."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from app.examples import EXAMPLES
from app.look.markdown import plain
from app.state import models, results
from core.checkpoint import folder as checkpoint
from core.config import DecodeConfig
from core.model.build import build
from core.model.masks import target_mask
from core.model.positions import sinusoids
from core.record.edits import OFF, Edits
from core.text.tokenizer import PAD
from tests import small

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "Zwei junge Männer spielen im Park Fußball."
SECTIONS = (
    *("open_causal", "open_padding", "open_word"),
    *("open_beyond", "open_order", "open_what_if", "open_scores"),
)


def open_page(name: str, sentence: str = SENTENCE, **state: Any) -> AppTest:
    """A lesson with every section open."""
    page = AppTest.from_file(str(ROOT / f"app/views/{name}/page.py"), default_timeout=120)
    for section in SECTIONS:
        page.session_state[section] = True
    for key, value in {"source": sentence, "direction": "de-en", "model": "scratch"}.items():
        page.session_state[key] = value
    for key, value in state.items():
        page.session_state[key] = value
    page.run()
    assert not page.exception, page.exception
    return page


def charts(page: AppTest) -> dict[str, dict]:
    """The figures that were sent, by their titles."""
    specs = [json.loads(chart.proto.spec) for chart in page.get("plotly_chart")]
    return {spec["layout"]["title"]["text"]: spec for spec in specs}


def array(value: Any) -> np.ndarray:
    """A sent array, out of plotly's base64."""
    if not isinstance(value, dict):
        return np.array(value)
    found = np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"])
    return found.reshape([int(n) for n in value.get("shape", str(len(found))).split(",")])


def numbers(spec: dict) -> np.ndarray:
    """The cells of the first heat map."""
    return array(next(t for t in spec["data"] if t["type"] == "heatmap")["z"])


def components(page: AppTest) -> dict[str, Any]:
    """What the canvas components were sent, by their keys."""
    return {mount.proto.id.split("-", 2)[-1]: mount.proto for mount in page.get("bidi_component")}


def map_row(page: AppTest, key: str) -> dict[str, Any]:
    """A row of maps as it was sent; each map's values [layer, head, query, key] under its name."""
    sent = components(page)[key].bytes
    (length,) = struct.unpack_from("<I", sent)
    row = json.loads(sent[4 : 4 + length])
    shape = len(row["layers"]), row["heads"], len(row["queries"]["tokens"])

    def blob(name: str) -> bytes:
        at = 4 + length + row[name]["at"]
        return sent[at : at + row[name]["length"]]

    mask = np.unpackbits(np.frombuffer(blob("mask"), np.uint8), count=shape[2] ** 2)
    found = {"mask": mask.reshape(shape[2], shape[2]).astype(bool), "row": row}
    for place, drawn in enumerate(row["maps"]):
        if "minus" not in drawn:
            values = np.frombuffer(blob(f"values_{place}"), "<f4")
            found[drawn["name"]] = values.reshape(*shape, shape[2])
    return found


def texts(page: AppTest) -> str:
    found = [*page.markdown, *page.caption, *page.text]
    return "\n".join(element.value for element in found)


@pytest.fixture(scope="module")
def masks_page() -> AppTest:
    return open_page("masks")


def test_the_masks_lesson_is_whole(masks_page):
    assert not masks_page.error
    titles = charts(masks_page)
    for title in ("Padding mask", "Causal mask", "Combined mask"):
        assert title in titles
    batches = components(masks_page)
    assert {"source_batch", "target_batch"} <= batches.keys()
    assert len(masks_page.latex) >= 5 and len(masks_page.subheader) == 5
    assert "Infinity" not in json.dumps(list(titles))


def test_the_batchs_masks_are_the_models(masks_page, translator):
    """The sentence that is shown first is the shortest: every reason occurs in it."""
    batch = [key for key in masks_page.session_state if key.startswith("mask_batch_")]
    lines = masks_page.session_state[batch[0]].splitlines()
    records = [translator.inspect(line) for line in lines]
    rows = [[t.id for t in record.target_in] for record in records]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    shown = int(np.argmin(list(map(len, rows))))
    mask = target_mask(ids, PAD)[shown, 0].numpy()
    spec = charts(masks_page)["Combined mask"]
    assert np.array_equal(np.isfinite(numbers(spec)), mask)
    assert not mask[:, -1].any() and mask[-1, 0]  # there is padding in it
    assert f"{mask.sum()} of {mask.size} cells" in spec["layout"]["title"]["subtitle"]["text"]


def test_typed_ids_give_the_blogs_matrices(translator):
    page = open_page("masks", mask_input="ids")
    assert not page.error
    expected = np.tri(7, dtype=bool)
    expected[:, 5:] = False
    spec = charts(page)["Combined mask"]
    assert np.array_equal(np.isfinite(numbers(spec)), expected)
    shapes = page.table[0].value
    assert list(shapes["as held"]) == [
        "[2, 1, 1, 9]",
        "[2, 1, 1, 9]",
        "[2, 1, 1, 7]",
        "[7, 7]",
        "[2, 1, 7, 7]",
    ]
    heads = translator.card.model.num_heads
    assert list(shapes["broadcast to"])[1:3] == [f"[2, {heads}, 7, 9]", f"[2, {heads}, 7, 7]"]
    page.text_area(key="mask_source_ids").set_value("[1, two]").run()
    assert [e.value for e in page.error] == [
        plain("row 1 is not a list of ids: write numbers, such as [1, 5, 0]")
    ]
    page.text_area(key="mask_source_ids").set_value("1 99999").run()
    assert "id 99999 is not in the source vocabulary" in page.error[0].value
    assert not page.exception


@pytest.mark.parametrize("page", ["masks", "positions"])
@pytest.mark.parametrize("text", ["Hund", "<b>$x$</b> *a* [l](javascript:alert(1))"])
def test_short_and_odd_texts(page, text):
    found = open_page(page, text)
    assert not found.error and text in found.text[0].value


def test_a_batch_too_large_is_refused_before_anything_is_translated(monkeypatch):
    page = open_page("masks")
    (box,) = [key for key in page.session_state if key.startswith("mask_batch_")]
    lines = [f"Ein Hund und {n} Katzen." for n in range(200)]
    inspect, asked = results.inspect, []

    def noting(card, source, *arguments, **how):
        asked.append(source)
        return inspect(card, source, *arguments, **how)

    monkeypatch.setattr(results, "inspect", noting)
    page.text_area(key=box).set_value("\n".join(lines)).run()
    assert [e.value for e in page.error] == [
        "200 sentences are too many: the limit is 6, remove some lines"
    ]
    assert set(asked) == {SENTENCE}  # the other sections' own
    assert page.text_area(key=box).value == "\n".join(lines)
    assert not page.exception and len(page.subheader) == 5


def test_a_text_too_long_is_one_line():
    page = open_page("positions", "Hund " * 101)
    assert [e.value for e in page.error] == [
        "504 characters are too many: the limit is 500, try one sentence at a time"
    ]


@pytest.fixture(scope="module")
def positions_page() -> AppTest:
    return open_page("positions")


def test_the_positions_lesson_is_whole(positions_page, translator):
    assert not positions_page.error
    titles = charts(positions_page)
    record = translator.inspect(SENTENCE)
    table = numbers(titles["What is added to each token"])
    assert np.array_equal(table, record.source_positions)
    assert np.allclose(table, sinusoids(*table.shape).numpy(), atol=1e-6)
    assert len(positions_page.subheader) == 9 and len(positions_page.latex) >= 9
    assert "No checkpoint here has learned its positions" in texts(positions_page)


def test_the_first_change_is_one_that_shows(translator):
    """On the sentence that the app opens with."""
    source = EXAMPLES[0].de
    page = open_page("positions", source)
    trained = translator.inspect(source).translation
    off = Edits(source_positions=OFF, target_positions=OFF)
    without = translator.inspect(source, None, off).translation
    assert without != trained
    assert f"edited:  {without}" in [t.value for t in page.text]


def test_a_sentence_longer_than_any_in_training(translator):
    """No place of it was reached: there is no mean to print, and no line to look beside."""
    text = " ".join(["ein Hund"] * 50)  # as many tokens as a page takes
    page = open_page("positions", text, search="greedy")
    record = translator.inspect(text, decode=DecodeConfig(beam=1))
    own = max(len(record.source), len(record.target_out))
    assert own > max(translator.card.training["longest"])
    spec = charts(page)["The same sentence, further and further up the table"]
    drawn = array(spec["data"][0]["y"])
    said = texts(page)
    assert f"With {own} tokens this sentence has more positions than any in training" in said
    assert (
        f"{100 * drawn[0]:.0f}\u00a0% as it is, {100 * drawn[1:].mean():.0f}\u00a0% further up."
        in said
    )
    assert "nan" not in said and "dashed line" not in said


@pytest.mark.parametrize("change", ["shuffled", "shifted", "doubled", "stretched"])
def test_every_change_has_its_answer(positions_page, translator, change):
    state = {"position_change": change, "position_change_side": "both", "parts_kind": "decoder"}
    page = open_page("positions", order_positions="on", **state)
    assert not page.error
    row = map_row(page, "position_maps")
    assert np.abs(row["Edited"] - row["As trained"]).max() > 1e-3
    row = map_row(page, "order_maps")  # with positions, order means something
    assert np.abs(row["The map, reordered"] - row["The map of the new order"]).max() > 1e-3
    length = len(translator.inspect(SENTENCE).target_in)
    assert np.array_equal(map_row(page, "score_parts")["mask"], np.tri(length, dtype=bool))


@pytest.fixture
def learned_folder(tmp_path, translator) -> Path:
    """A checkpoint whose network has a learned table, beside the shipped vocabulary."""
    torch.manual_seed(0)
    shape = small.config(
        learned_positions=True,
        norm_first=True,
        source_vocab_size=translator.card.model.source_vocab_size,
        target_vocab_size=translator.card.model.target_vocab_size,
        max_length=40,
    )
    loaded = checkpoint.load(ROOT / "checkpoints/scratch-de-en")
    tokenizers = loaded.source_tokenizer, loaded.target_tokenizer
    training = {"config": {"max_pair_tokens": 100}}
    folder = tmp_path / "scratch-de-en"
    model = build("scratch", shape)
    checkpoint.save(folder, model, "scratch", ("de", "en"), tokenizers, training, {})
    return tmp_path


def test_a_learned_table_stands_beside_the_waves(learned_folder, monkeypatch):
    monkeypatch.setattr(models, "CHECKPOINTS", learned_folder)
    models._listed.clear()
    try:
        page = open_page("positions")
        titles = charts(page)
        model = checkpoint.load(learned_folder / "scratch-de-en").model
        table = model.embeddings.source_positions.weight.detach().numpy()
        assert np.array_equal(numbers(titles["Learned, scratch-de-en"]), table)
        waves = sinusoids(*table.shape).float().numpy()
        assert np.allclose(numbers(titles["Sinusoids, by the formula"]), waves, atol=1e-6)
        assert not page.error
        words = texts(page)
        assert "there is no formula" in words
        assert "A learned table ends before that" in words
        state = {"position_change": "shifted", "position_shift": 500}
        page = open_page("positions", **state)
        (error,) = page.error
        assert "was never learned: this model's table ends at 39" in error.value
    finally:
        models._listed.clear()


@pytest.mark.parametrize(
    ("name", "link", "opened"),
    [
        ("masks", {}, []),
        ("masks", {"hidden_word": "1"}, ["hidden_word"]),
        ("positions", {}, []),
        ("positions", {"position_change": "doubled"}, ["position_change", "position_change_side"]),
    ],
)
def test_a_section_is_worked_out_when_it_is_opened(name, link, opened, monkeypatch):
    """By the reader, or by a link to a choice in it; until then nothing is run for it."""
    functions, inspect, run = [], results.inspect, results.run

    def noting(model, function, *arguments):
        functions.append(function)
        return run(model, function, *arguments)

    def inspecting(*arguments, **how):
        if how.get("edits"):
            functions.append("edits")
        return inspect(*arguments, **how)

    monkeypatch.setattr(results, "run", noting)
    monkeypatch.setattr(results, "inspect", inspecting)
    page = AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=120)
    page.run()
    page.query_params.update(link)
    page.switch_page(f"views/{name}/page.py").run()
    assert not page.exception
    inside = ("hidden_word", "position_change", "position_change_side", "parts_kind")
    keys = {w.key for kind in ("selectbox", "segmented_control") for w in page.get(kind)}
    assert [key for key in inside if key in keys] == opened
    light = {"masks": {"batch_masks"}, "positions": {"table", "embedded"}}[name]
    heavy = {function.split(":")[-1] for function in functions} - light
    assert heavy == ({"edits"} if opened else set()) | ({"scores"} & heavy)
