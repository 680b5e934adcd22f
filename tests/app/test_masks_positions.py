"""Masks and Positions with unusual input, learned positions, and closed sections."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from app.examples import EXAMPLES
from app.look.markdown import plain
from app.state import models, results
from core.checkpoint import folder as checkpoint
from core.model.build import build
from core.model.positions import sinusoids
from core.record.edits import OFF, Edits
from tests import small
from tests.app.page_checks import ROOT, percent, record, titles, traces, translator
from tests.app.rendered import Rendered, array, render

SENTENCE = "Zwei junge Männer spielen im Park Fußball."
NO_POSITIONS = Edits(source_positions=OFF, target_positions=OFF)


def save_small_model(folder: Path, **config: object) -> None:
    """Save an untrained model with the bundled vocabulary."""
    torch.manual_seed(0)
    bundled = checkpoint.load(ROOT / "checkpoints/scratch-de-en")
    sizes = {
        side: getattr(bundled.card.model, side)
        for side in ("source_vocab_size", "target_vocab_size")
    }
    model = build("scratch", small.config(**sizes, **config))
    tokenizers = bundled.source_tokenizer, bundled.target_tokenizer
    training = {"config": {"max_pair_tokens": 100}}
    checkpoint.save(folder, model, "scratch", ("de", "en"), tokenizers, training, {})


def errors(page: Rendered) -> list[str]:
    return [error.value for error in page.app.error]


def table(figure: dict) -> np.ndarray:
    return array(traces(figure, type="heatmap")[0]["z"])


def test_typed_ids_give_the_published_matrices():
    page = render("masks", source=SENTENCE, mask_input="ids")
    assert not errors(page)
    expected = np.tri(7, dtype=bool)
    expected[:, 5:] = False
    cells = table(page.figure("mask_combined")).astype(float)
    assert np.array_equal(np.isfinite(cells), expected)
    shapes = next(t for t in page.tables["open_batch"] if "as stored" in t)
    held = ["[2, 1, 1, 9]", "[2, 1, 1, 9]", "[2, 1, 1, 7]", "[7, 7]", "[2, 1, 7, 7]"]
    assert list(shapes["as stored"]) == held
    box = page.app.text_area(key="mask_source_ids")
    box.set_value("[1, two]").run()
    line = "row 1 is not a list of ids: write numbers, such as [1, 5, 0]"
    assert errors(page) == [plain(line)]
    box.set_value("1 99999").run()
    assert "id 99999 is not in the source vocabulary" in errors(page)[0]


@pytest.mark.parametrize("name", ["masks", "positions"])
@pytest.mark.parametrize("text", ["Hund", "<b>$x$</b> *a* [l](javascript:alert(1))"])
def test_short_and_odd_texts_open_without_errors(name, text):
    page = render(name, "open_causal", "open_word", "open_what_if", "open_scores", source=text)
    assert not errors(page) and text in page.texts("lesson_sentence")[0]


def test_a_batch_that_is_too_large_is_rejected_before_translation(monkeypatch):
    page = render("masks", "open_batch", source=SENTENCE)
    (key,) = [box.key for box in page.app.text_area if box.key.startswith("mask_batch_")]
    lines = "\n".join(f"Ein Hund und {n} Katzen." for n in range(200))
    inspect, inspected = results.inspect, []

    def recording(card, source, *arguments, **options):
        inspected.append(source)
        return inspect(card, source, *arguments, **options)

    monkeypatch.setattr(results, "inspect", recording)
    page.app.text_area(key=key).set_value(lines).run()
    assert errors(page) == ["200 sentences are too many: the limit is 6, remove some lines"]
    assert set(inspected) == {SENTENCE}
    assert page.app.text_area(key=key).value == lines


def test_the_default_edit_changes_the_default_translation(translator):
    source = EXAMPLES[0].de
    page = render("positions", "open_what_if", source=source)
    off = Edits(source_positions=OFF, target_positions=OFF)
    edited = translator.inspect(source, None, off).translation
    assert edited != record(source).translation
    page.claim(f"edited:  {edited}")


def test_a_sentence_longer_than_any_in_training():
    """Even for k = 0 some positions are new, so there is no dashed line and no mean left of it."""
    text = " ".join(["ein Hund"] * 50)  # as many tokens as a page accepts
    page = render("positions", "open_beyond", source=text, search="greedy")
    long = record(text, beam=1)
    own = max(len(long.source), len(long.target_out))
    assert own > max(translator("scratch-de-en").card.training["longest"])
    shown = array(page.figure("extrapolation")["data"][0]["y"])
    page.claim(
        f"With {own} tokens, this sentence or its translation has more positions than any in "
        "training. The mean "
        f"probability of its translation's tokens is {percent(shown[0])} for k = 0 and "
        f"{percent(shown[1:].mean())} for larger k."
    )
    assert not any("nan" in text or "dashed line" in text for text in page.texts())


def test_a_learned_table_is_shown_next_to_the_sinusoids(tmp_path, monkeypatch):
    folder = tmp_path / "scratch-de-en"
    save_small_model(folder, learned_positions=True, norm_first=True, max_length=40)
    monkeypatch.setattr(models, "CHECKPOINTS", tmp_path)
    models._listed.clear()
    try:
        page = render("positions", "open_rotation", "open_learned", "open_beyond", source=SENTENCE)
        learned = checkpoint.load(folder).model.embeddings.source_positions.weight
        figures = page.figure("table_learned"), page.figure("table_waves")
        assert [titles(figure)[0] for figure in figures] == [
            "Learned, scratch-de-en",
            "Sinusoids, by the formula",
        ]
        assert np.array_equal(table(figures[0]), learned.detach().numpy())
        waves = sinusoids(*learned.shape).float().numpy()
        assert np.allclose(table(figures[1]), waves, atol=1e-6)
        assert not errors(page)
        text = "\n".join(page.texts())
        assert "there is no formula" in text and "table has no rows for positions beyond" in text
        shifted = {"position_change": "shifted", "position_shift": "500"}
        page = render(
            "positions", "open_rotation", "open_learned", "open_what_if", source=SENTENCE, **shifted
        )
        (error,) = errors(page)
        assert "was never learned: this model's table holds 0 to 39" in error
    finally:
        models._listed.clear()


def test_without_a_learned_table_the_page_says_so():
    page = render("positions", "open_rotation", "open_learned", source=SENTENCE)
    assert "No checkpoint here has learned positions" in "\n".join(page.texts())


@pytest.mark.parametrize(
    ("name", "link", "opened"),
    [
        ("masks", {}, []),
        ("masks", {"hidden_word": "1"}, ["hidden_word"]),
        ("positions", {}, []),
        ("positions", {"position_change": "doubled"}, ["position_change", "position_change_side"]),
    ],
)
def test_a_section_is_computed_when_it_is_opened(name, link, opened, monkeypatch):
    """A link to a choice in a section opens the section; otherwise it stays closed."""
    functions, inspect, run = [], results.inspect, results.run

    def running(model, function, *arguments):
        functions.append(function)
        return run(model, function, *arguments)

    def inspecting(*arguments, **options):
        asked = None, NO_POSITIONS, Edits(causal_mask=False)  # what the questions need
        if options.get("edits") not in asked:
            functions.append("edits")
        return inspect(*arguments, **options)

    monkeypatch.setattr(results, "run", running)
    monkeypatch.setattr(results, "inspect", inspecting)
    page = render(name, **link)
    inside = ("hidden_word", "position_change", "position_change_side", "parts_kind")
    widgets = [*page.app.selectbox, *page.app.get("segmented_control"), *page.app.button_group]
    assert [key for key in inside if key in {w.key for w in widgets}] == opened
    quick = {"masks": {"batch_masks"}, "positions": {"position_encodings", "embedded"}}[name]
    slow = {getattr(function, "__name__", function) for function in functions} - quick - {"scores"}
    assert slow == ({"edits"} if opened else set())
