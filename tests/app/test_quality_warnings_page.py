"""The page names each reason for doubt and the least certain token."""

import json

import numpy as np
import pytest
from safetensors import safe_open

from app.views.shared import quality_warnings
from core.data.corpora import about
from core.record.edits import Edits
from tests.app.rendered import render, unpacked

SOURCE = "EIN MANN HAT 17 😀 HUNDE."


@pytest.fixture(scope="module")
def record(translator):
    return translator.inspect(SOURCE)


def test_reasons_and_the_least_certain_token_are_those_of_the_record(record):
    page = render("", "another_translation", source=SOURCE)
    (warning,) = page.texts("doubts", "warning") or page.texts("doubts", "alert")
    assert "in capitals" in warning and "no token for “😀”" in warning
    assert ("lacks “17”" in warning) == ("17" not in record.translation)
    assert "geometric mean" not in warning, "the measured certainty says more"
    place = int(np.argmin(record.log_probs))
    text = record.target_out[place].text
    (caption,) = (text for text in page.texts() if text.startswith("Least certain token"))
    assert text in caption.replace("\\", "")
    assert f"({100 * np.exp(record.log_probs[place]):.0f}\u00a0%)" in caption


def test_a_sentence_of_the_other_language_is_translated_from_it_on_request():
    page = render(source="The government is in the house.")
    page.app.button(key="reverse").click().run()
    assert page.app.session_state["direction"] == "en-de"
    assert page.app.session_state["source"] == "The government is in the house."
    assert not [button for button in page.app.button if button.key == "reverse"]


def test_the_tour_says_so_too(monkeypatch):
    monkeypatch.setattr(quality_warnings, "lines", lambda *_: [(1.1, "Less certain.")])
    assert ":material/warning: **Less certain.**" in render("tour", stop="4").texts("tour_text")


SURE, UNSURE, LEAST = (
    "Ein Hund läuft.",
    "Die Berufung ist innerhalb eines Monats nach Zustellung des Urteils einzulegen.",
    "Das Eigentum geht erst mit vollständiger Zahlung auf den Käufer über.",
)


@pytest.mark.parametrize("name", ["", "head", "steps", "tokens", "masks", "together", "comparison"])
@pytest.mark.parametrize("text", [SURE, UNSURE, LEAST])
def test_an_uncertain_translation_is_less_certain_than_the_networks_own_kind(
    translator, name, text
):
    card, seen = translator.card, translator.inspect(text)
    measured = json.loads((card.folder / "certainty.json").read_text())
    probability = np.exp(np.mean(seen.log_probs))
    quantiles = measured["searches"]["beam 5"]
    assert measured["weights_sha256"] == seen.weights_sha256
    page = render(name, source=text)
    said = [line for line in page.texts(kind="markdown") if "less certain here than" in line]
    assert bool(said) == (probability < quantiles[2]) == (text != SURE)
    for line in said:
        below = sum(quantile <= probability for quantile in quantiles)
        assert bool(below) == (text == UNSURE)
        count = f"{sum(measured['corpora'].values()):,}"
        assert (f"{100 - below} %" if below else f"each of {count}") in line
        assert about(measured["corpora"]) in line


def test_no_line_without_a_measurement_of_these_weights_or_of_a_search():
    page = render(source=UNSURE, target="Attention is all you need.")
    assert not any("Less certain" in line for line in page.texts(kind="markdown"))


@pytest.mark.parametrize("name", ["head", "steps", "tokens", "masks"])
def test_every_page_of_a_sentence_has_the_warning_of_translate(name):
    first, here = render(source=SOURCE), render(name, source=SOURCE)
    warning = first.texts("doubts", "warning")
    assert len(warning) == 1 and here.texts("doubts", "warning") == warning
    assert not render(name, source="Ein Hund läuft.").texts("doubts", "warning")


def test_a_plain_sentence_has_no_warning_and_removed_characters_are_named():
    page = render(source="Ein Hund\u00ad läuft.")
    assert not page.texts("doubts", "warning") + page.texts("doubts", "alert")
    assert any("(U+00AD)" in text for text in page.texts("doubts", "caption"))
    assert not any("U+" in text for text in render(source="Ein Hund.").texts("doubts", "caption"))


def test_the_page_says_what_the_average_of_a_head_is_over(translator):
    head = Edits(heads_mean=frozenset({("cross", 2, 0)})).to_text()
    seen = unpacked(render(source=SURE, edits=head).payload("explorer"))[0]["what_if"]
    with safe_open(translator.card.folder / "head_means.safetensors", "numpy") as file:
        metadata = file.metadata()
    assert seen["means"] == {
        "sentences": int(metadata["sentences"]),
        "corpus": metadata["corpus"],
    }
    off = Edits(heads_off=frozenset({("cross", 2, 0)})).to_text()
    seen = unpacked(render(source=SURE, edits=off).payload("explorer"))[0]["what_if"]
    assert seen["means"] is None
