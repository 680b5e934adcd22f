"""Networks with language codes or a task in words, in the app: lists, links, marks, notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser
from streamlit.testing.v1 import AppTest

from app.components.explorer.payload import payload
from app.lessons.texts import text
from app.state import folders
from core.analysis.quality_warnings import least_certain, quality_warnings
from core.checkpoint.folder import load, save
from core.model.build import build
from core.record.record import TranslationRecord
from core.translator import Translator
from tests import small, tokenizer_folders
from tests.app.conftest import clear_caches
from tests.app.foreign_models import IMPORTED
from tests.app.mounted import Mounted
from tests.app.rendered import Rendered, read, render, unpacked
from tests.app.test_notebook import run
from tests.app.test_notebook import saved as saved  # a fixture

ARABIC, CHINESE = "القطة تنام على السجادة", "猫在地毯上睡觉。"
CODES = {"codes": ("deu_Latn", "eng_Latn")}
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {"nllb": ("m2m100", CODES), "t5": ("t5", {})}


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """Return a folder of an untrained network with language codes, and of one with a prefix."""
    root = tmp_path_factory.mktemp("models")
    for name, (family, options) in NETWORKS.items():
        files = tokenizer_folders.write(tmp_path_factory.mktemp(name), name)
        tokenizer = tokenizer_folders.read(files, name, **options).tokenizer
        sizes = {"source_vocab_size": tokenizer.size, "target_vocab_size": tokenizer.size}
        torch.manual_seed(3)
        config = small.config(**sizes, share_embeddings=True, max_length=120)
        network = build("scratch", config).eval()
        about = {"imported": {**IMPORTED, "family": family, "source": name}}
        folder = root / f"{name}-de-en"
        save(folder, network, "scratch", ("de", "en"), (tokenizer, tokenizer), about, {})
    return root


@pytest.fixture
def shown(root, monkeypatch) -> Iterator[Callable[..., Rendered]]:
    """Return `render` with the folder's networks; `model` is one of them."""
    monkeypatch.setenv(folders.VARIABLE, str(root))
    clear_caches()

    def opened(model: str, page: str = "", **more: Any) -> Rendered:
        return render(page, "take_away", direction="de-en", model=model, search="greedy", **more)

    yield opened
    clear_caches()


@pytest.fixture(scope="module")
def chosen(root) -> Translator:
    return Translator.load(root / "nllb-de-en", "cpu").between("zho_Hans", "ace_Arab")


@pytest.fixture(scope="module")
def record(chosen) -> TranslationRecord:
    return chosen.inspect(CHINESE, beam=1)


def sent_by(page: Rendered) -> dict[str, Any]:
    return unpacked(page.payload("explorer"))[0]


def prefix_of(page: Rendered) -> str | None:
    return page.app.text_input(key="prefix").value


def links(page: Rendered) -> dict[str, str | None]:
    return page.payloads["address_page"][0]["values"]


def test_a_link_chooses_languages_which_every_pass_reads_and_writes(shown, record):
    link = {"from_language": "zho_Hans", "to_language": "ace_Arab", "source": CHINESE}
    page = shown("nllb", **link)
    assert page.texts("from_language", "raw_value") == ["Chinese (zho_Hans)"]
    assert page.texts("to_language", "raw_value") == ["Achinese (ace_Arab)"]
    assert page.texts("to_language", "option") == [
        "Achinese (ace_Arab)",
        "Chinese (zho_Hans)",
        "Chinese (zho_Hant)",
        "English (eng_Latn)",
        "German (deu_Latn)",
    ]
    sent = sent_by(page)
    assert (sent["source_language"], sent["target_language"]) == ("Chinese", "Achinese")
    for side in ("source", "target_out"):
        tokens = getattr(record, side)
        assert [one["id"] for one in sent[side]] == [token.id for token in tokens]
        assert sent[side][0]["special"] is True
    assert [sent[side][0]["text"] for side in ("source", "target_out")] == ["zho_Hans", "ace_Arab"]
    assert links(page) | link == links(page) and not page.texts("link_note")
    tree = shown("nllb", "steps", **link).payload("beam_tree")
    assert str(record.target_out[0].id) in tree["tokens"]


def test_without_a_choice_a_network_keeps_its_own_languages(shown, root):
    page = shown("nllb", source="Ein Hund.")
    own = Translator.load(root / "nllb-de-en", "cpu").inspect("Ein Hund.", beam=1)
    assert page.texts("from_language", "raw_value") == ["German (deu_Latn)"]
    sent = sent_by(page)
    assert [one["id"] for one in sent["target_out"]] == [token.id for token in own.target_out]
    assert (links(page)["from_language"], links(page)["to_language"]) == ("deu_Latn", "eng_Latn")
    assert page.texts("example_0")

    def choose(app: AppTest) -> None:
        app.selectbox(key="to_language").set_value("deu_Latn").run()
        app.selectbox(key="from_language").set_value("eng_Latn").run()

    page = shown("nllb", source="A dog.", act=choose)
    sent = sent_by(page)
    assert (sent["source_language"], sent["target_language"]) == ("English", "German")
    assert links(page)["to_language"] == "deu_Latn" and page.texts("example_0")


@pytest.mark.parametrize(
    ("model", "name", "instead"),
    [("nllb", "to_language", "English (eng_Latn)"), ("t5", "from_language", "German")],
)
def test_an_unknown_code_in_a_link_is_named_with_what_is_shown(shown, model, name, instead):
    page = shown(model, source="Ein Hund.", **{name: "xx_Yyyy"})
    (said,) = page.texts("link_note", "caption")
    assert said.replace("\\", "") == (
        f"This link's {name.replace('_', ' ')} “xx_Yyyy” is not available here: {instead} is shown "
        "instead."
    )


def test_the_prefix_is_part_of_the_source_and_of_the_link(shown, root):
    t5 = Translator.load(root / "t5-de-en", "cpu")
    page = shown("t5", source="Ein Hund.")
    assert prefix_of(page) == t5.prefix and links(page)["prefix"] == t5.prefix
    linked = shown("t5", source="Ein Hund.", prefix="read: ")
    cleared = read(linked.app.text_input(key="prefix").set_value("").run())
    for now, prefix in ((page, t5.prefix), (linked, "read: "), (cleared, "")):
        tokens = t5.between(prefix=prefix).inspect("Ein Hund.", beam=1).source
        sent = sent_by(now)["source"]
        assert [one["id"] for one in sent] == [token.id for token in tokens], prefix
    assert links(linked)["prefix"] == "read: "
    again = shown("t5", source="Ein Hund.", prefix=str(links(cleared)["prefix"]))
    assert prefix_of(again) == ""
    other = shown("nllb", source="Ein Hund.").app
    assert all(box.key != "prefix" for box in other.text_input)


def test_the_notebook_makes_the_pass_of_the_chosen_languages(shown, saved, root, monkeypatch):
    monkeypatch.setattr("core.load", lambda folder: Translator.load(folder, "cpu"))
    page = shown("nllb", source=CHINESE, from_language="zho_Hans", to_language="ace_Arab")
    made = run(saved)["record"]
    assert made.tokens("target")[0] == "ace_Arab"
    assert made.id == sent_by(page)["sentence"]


def test_doubts_do_not_count_the_forced_token(record):
    assert record.forced == 1
    log_probs = np.full_like(record.log_probs, np.log(0.9))
    log_probs[0] = -1e6
    log_probs[2] = np.log(0.8)
    sure = replace(record, log_probs=log_probs)
    assert quality_warnings(sure).probability is None
    place, probability = least_certain(sure) or (0, 0.0)
    assert place == 2 and probability == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("text", "forced"),
    [("en_XX", 1), ("<s>", 1), ("<extra_id_0>", 0), ("<unused_7>", 0), ("<eos>", 0), ("<unk>", 0)],
)
def test_only_a_language_or_the_start_is_forced(browser: Browser, record, text, forced):
    """mT5 writes <extra_id_0> first, by its own choice."""
    first = replace(record.target_out[0], text=text, piece=text)
    other = replace(record, target_out=(first, *record.target_out[1:]))
    assert other.forced == forced
    at = Mounted(browser.new_page())
    at.show(payload(other, {"kind": "cross", "layer": 0, "head": 0}))
    note = at.page.locator("[data-part=target-note]").inner_text()
    assert ("is forced" in note) == forced


def test_the_forced_token_is_marked_as_not_chosen(browser: Browser, record, chosen):
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    at = Mounted(context.new_page())
    at.show(payload(record, {"kind": "cross", "layer": 0, "head": 0}))
    note = at.page.locator("[data-part=target-note]")
    assert note.inner_text() == "\u2068ace_Arab\u2069 is forced, not chosen by the model"
    tokens = at.page.locator("[data-part=target] .token")
    bars = [tokens.nth(n).locator(".probability").count() for n in range(3)]
    assert bars == [0, 0, 1]
    assert tokens.nth(1).get_attribute("aria-label") == (
        "\u2068ace_Arab\u2069, step 1, forced, not chosen by the model"
    )
    at.does(("set", "[data-part=step]", "1", "input"))
    assert at.page.locator("[data-part=step-looked-at]").inner_text() == "at step 1 (forced)"
    at.show(payload(chosen.inspect("猫。", ARABIC), {"kind": "cross", "layer": 0, "head": 0}))
    assert note.inner_text() == "given, not written by the model"
    boxes = [box.bounding_box()["x"] for box in tokens.all()]
    assert boxes == sorted(boxes, reverse=True)
    context.close()


def test_positions_speaks_of_a_network_without_a_table(root, shown):
    """As T5: a bias by distance, and nothing added to the embeddings."""
    files = root / "t5-de-en"
    tokenizer = load(files).source_tokenizer
    sizes = {"source_vocab_size": tokenizer.size, "target_vocab_size": tokenizer.size}
    biased = dict.fromkeys(("scale_scores", "qkv_bias", "linear_bias"), False)
    biased |= {"relative_buckets": 8, "relative_distance": 9}
    for name, more in (("bias", biased), ("nothing", {})):
        config = small.config(**sizes, share_embeddings=True, position_table="none", **more)
        made = build("scratch", config).eval()
        save(root / f"{name}-de-en", made, "scratch", ("de", "en"), (tokenizer,) * 2, {}, {})
        clear_caches()
        page = shown(name, "positions", source="Ein Hund.")
        said = " ".join(page.texts())
        assert text("positions", f"about-{name}") in said
        assert ("Inside a head" in said) == (name == "bias")
        figure = page.payload("figure_one")
        assert figure["inView"] == text("figure_one", f"positions-{name}")
        assert not any("positions" in block["id"] for block in figure["blocks"])
    masks, head = (shown("bias", page, source="Ein Hund.") for page in ("masks", "head"))
    (formula,) = masks.texts(kind="latex")
    assert "sqrt" not in formula and "+ B + M" in formula and text("masks", "bias") in masks.texts()
    assert not any("+ b_" in one or "b^O" in one for one in head.texts(kind="latex"))
    bugs = shown("bias", "bugs", source="Ein Hund.")
    assert text("bugs", "fewer") in bugs.texts() and len(bugs.payload("asked_bug")["options"]) == 6
    tokens = shown("t5", "tokens", source="Ein Hund.").payload("tokens_sentence")
    assert len(tokens["units"]) == 4 + 2  # translate German to English:
