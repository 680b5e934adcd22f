"""The sidebar shows the checkpoint's scores and sizes, and hints state only facts."""

from __future__ import annotations

import json
import re

import pytest

from app.examples import EXAMPLES, opening
from app.views import GROUPS, VIEWS
from app.views.tour.finders import find
from tests.app.page_checks import ROOT, record
from tests.app.rendered import render, unpacked

MODELS = {
    "scratch": "From scratch",
    "baseline": "Baseline: torch.nn.Transformer",
    "captions": "From scratch, captions only",
}
CORPORA = {"multi30k": "captions of photographs", "tatoeba": "short everyday sentences"}
TEXTS = {
    "de": ("Ein Hund.", "German", "English"),
    "en": ("A dog.", "English", "German"),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("direction", ["de-en", "en-de"])
def test_the_model_note_matches_the_checkpoint(direction, model):
    page = render("masks", direction=direction, model=model, source=TEXTS[direction[:2]][0])
    folder = ROOT / f"checkpoints/{model}-{direction}"
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model"]
    final = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["final"]
    scores = ", ".join(
        f"{score['sacrebleu']:.1f} ({CORPORA[corpus]}, beam 5)" for corpus, score in final.items()
    )
    (said,) = page.texts("model", "help")
    assert (
        f"Validation BLEU, on sentences outside its training data: {scores}. Expect errors on "
        "other kinds of text."
    ) in said
    page.claim_matching(
        rf"CPU, {config['num_encoder_layers']} \+ {config['num_decoder_layers']} layers, "
        rf"{config['num_heads']} heads, d_model {config['d_model']}, \d+\.\d million weights",
        "model_note",
    )
    assert page.texts("model", "raw_value") == [MODELS[model]]
    _, source, target = TEXTS[direction[:2]]
    assert page.texts("direction", "raw_value") == [f"{source} → {target}"]
    assert sorted(page.texts("model", "option")) == sorted(MODELS.values())


@pytest.mark.parametrize("direction", ["de-en", "en-de"])
def test_an_example_leads_to_its_sentence(direction):
    page = render("masks", direction=direction, source=TEXTS[direction[:2]][0])
    for i, example in enumerate(EXAMPLES):
        assert page.texts(f"example_{i}", "label") == [example.title(direction)]
        assert page.texts(f"example_{i}", "help") == [example.hint(direction)]
    assert page.texts("examples", "caption") == ["Examples"]
    page.app.button(key="example_2").click().run()
    text = page.app.text_area(key="source").value
    assert "Straßenmusiker" in text if direction == "de-en" else "street musician" in text


@pytest.mark.parametrize("example", EXAMPLES, ids=[e.titles[0] for e in EXAMPLES])
def test_a_hint_states_only_facts_about_the_sentence(example):
    """Networks differ, so hints ask; what they state is true of the sentence itself."""
    statements = {
        "Fußball comes last": example.de.split()[-1] == "Fußball.",
        "soccer comes in the middle": "soccer" in example.en.split()[3:-1],
        "After wenn, the verb comes last": example.de.startswith("Wenn es morgen regnet,"),
        "rains is the third word": example.en.split()[2:3] == ["rains"],
        "bereitet … zu is one verb": "bereitet" in example.de and example.de.endswith("zu."),
        "is preparing is one verb": "is preparing" in example.en,
        "Characters outside the vocabulary are marked.": True,
        "Bank comes twice: once it gives work, once a seat": example.de.count("Bank") == 2,
        "German has one word for bank and bench": "bank" in example.en and "bench" in example.en,
    }
    for hint, text in zip(example.look_for, (example.de, example.en), strict=True):
        claim, _, _ = hint.rpartition(". ")
        if claim or not hint.endswith("?"):
            assert statements[claim or hint], hint
        assert hint.endswith("?") or hint == "Characters outside the vocabulary are marked."
        for word in re.findall(r"Straßenmusiker|street musician|Fußball|soccer|rains", hint):
            assert word in text


@pytest.mark.parametrize("direction", ["de-en", "en-de"])
def test_an_example_opens_with_the_head_and_the_word_that_show_it(direction):
    """The rule of its row finds them in the network's own record, whatever a link chose before."""
    shown = 0
    for i, example in enumerate(EXAMPLES):
        rule = dict(zip(("de-en", "en-de"), example.find, strict=True))[direction]
        seen = record(example.text(direction), f"scratch-{direction}")
        if not rule:
            assert opening(seen) is None
            continue
        found = find(rule, seen)
        chosen = {"kind": "encoder", "layer": "0", "head": "0", "source": "Ein Hund."}
        chosen["edits"] = "off.cross.0.0"
        page = render(
            "",
            direction=direction,
            act=lambda app, i=i: app.button(key=f"example_{i}").click().run(),
            **chosen,
        )
        view = unpacked(page.payload("explorer"))[0]["view"]
        assert view == {
            "kind": "cross", "layer": found.head.layer, "head": found.head.head,
            "q": found.query, "turn": 1,
        }  # fmt: skip
        edits = page.payload("address_edits")
        assert edits["values"] == {"edits": None}, "they belong to the sentence before"
        assert edits["entry"] is None, "one step back returns to both"
        shown += 1
    assert shown >= len(EXAMPLES) - 1
    assert opening(record("Ein Hund.")) is None


def test_an_example_that_a_network_does_not_show_opens_as_usual():
    rains = next(e for e in EXAMPLES if "regnet" in e.de)
    with pytest.raises(LookupError):
        find(rains.find[0], record(rains.de, "captions-de-en"))
    assert opening(record(rains.de, "captions-de-en")) is None


def test_the_tour_offers_no_examples_and_keeps_the_visitors_sentence():
    """The tour's stops have their own sentences, so example buttons would have no effect."""
    tour = render("tour", source="Ein Hund.")
    assert "examples" not in {item.where for item in tour.items}
    assert not [item for item in tour.items if item.where.startswith("example_")]
    sent = tour.payload("address_page")["values"]
    assert sent["source"] == "Ein Hund."  # for the pages after it
    assert (sent["direction"], sent["model"]) == ("de-en", "scratch")
    other = render("masks", source="Ein Hund.")
    assert other.payload("address_page")["values"]["source"] == "Ein Hund."
    assert other.texts("examples", "caption")[0] == "Examples"


def test_every_page_is_in_a_group_with_a_line():
    groups = render("masks", source="Ein Hund.").payload("navigation")["groups"]
    assert [(group["name"], group["line"]) for group in groups] == list(GROUPS.items())
    listed = [tuple(page) for group in groups for page in group["pages"]]
    assert listed == [(view.path, view.title) for view in VIEWS.values()]
    assert all(group["pages"] for group in groups)
