"""Imported networks in the offline page: words, searches and maps equal Python's, one as a file."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
import torch
from playwright.sync_api import BrowserContext, Page, expect

from app.export import offline, site
from app.export.rounding import rounded_checkpoint
from app.export.weights import as_text, tokenizer_of_page
from app.lessons.texts import text
from core.checkpoint.folder import read_card, save
from core.config import ModelConfig
from core.experiments.head_effects import head_effects
from core.foreign.family import NEVER
from core.model.build import build
from core.text.pieces import PieceTokenizer
from core.text.tokenizer import BOS, PAD, Frame, Tokenizer
from core.text.words import WordTokenizer
from core.translator import Translator
from tests.app.conftest import opened_offline
from tests.app.foreign_models import IMPORTED, SENTENCES
from tests.app.test_offline_page import part, unpacked
from tests.app.test_offline_tokenizers import same, same_decoding
from tests.offline_equality import OfflineNetwork, compare

FAMILIES: dict[str, dict[str, Any]] = {
    "friendshipkim": {},
    "tutorial": {"num_decoder_layers": 3},
    "hyunwoongko": {
        "mask_score": -10_000.0,
        "layer_norm_eps": 1e-12,
        "scale_embeddings": False,
        "final_norm": False,
    },
    "marian": {"activation": "silu", "final_norm": False, "decoder_heads": 4},
    "pegasus": {"norm_first": True},
    "t5": {
        "norm_first": True,
        "position_table": "none",
        "relative_buckets": 8,
        "relative_distance": 9,
        "scale_scores": False,
    },
}
TIED = {"share_embeddings": True, "tie_classifier": True, "tied_bias": True}
PIECES = ("marian", "pegasus", "t5")
LINES = (
    "Don't, he's: (e.g. foo@bar.com) and https://a.org/b?c=d, www.x.de/y!",
    'He said: "We\'ll pay $5.50/kg, i.e. 3km…" z.B. d.h. usw. :-) ;-( xD',
    "Ich hab's gesehen, 10°C. U.S.A. a.m. 10 a.m. Ph.D. o.Ä. 's 'tis y'all",
    "‘a’ “b” „c“ «d» x--y x-y C++ #t @u 日本 語 🙂 <eos> &amp; 1.000,5 m² (U.S.)! : ) ...",
)


def tokenizer(family: str, language: str) -> Tokenizer:
    """Return a vocabulary as the family has it, of a few words or pieces."""
    if family not in PIECES:
        return WordTokenizer.train(SENTENCES[language], language, 1, family == "hyunwoongko")
    letters = sorted(set("".join(SENTENCES["de"] + SENTENCES["fr"])) - {" "})
    words = [f"▁{word}" for text in SENTENCES[language] for word in text.split()]
    pieces = list(dict.fromkeys([*letters, "▁", *words]))
    scores = [-3.0 - len(piece) / 2 - at / 100 for at, piece in enumerate(pieces)]
    if family != "t5":
        return PieceTokenizer(pieces, scores)
    codes = {"de": 9, "fr": 7, "en": 12}  # as mBART has them; and a prefix
    shown = [None if id in codes.values() else score for id, score in enumerate(scores, start=4)]
    frame = Frame(first=(9,), forced=(7,), languages=codes, prefix="liest ")
    return PieceTokenizer(pieces, shown, frame=frame)


def write(folder: Path, family: str, target: str = "en") -> Path:
    """Save a random network whose hypotheses differ, with weights that float16 holds."""
    tokenizers = tokenizer(family, "de"), tokenizer(family, target)
    joint = family in PIECES
    if joint:
        tokenizers = tokenizers[0], tokenizers[0]
    sizes: dict[str, Any] = {
        "d_model": 16, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 2,
        "dim_feedforward": 24, "max_length": 40,
    }  # fmt: skip
    config = ModelConfig(
        source_vocab_size=tokenizers[0].size,
        target_vocab_size=tokenizers[1].size,
        **sizes | (TIED if joint else {}) | FAMILIES[family],
    )
    torch.manual_seed(len(family))
    network = build("scratch", config).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            scale = 0.5 if parameter.dim() == 1 else 1.4 * parameter.shape[-1] ** -0.5
            parameter.add_(torch.randn_like(parameter) * scale)
            if name.endswith("tied_bias"):
                parameter[PAD], parameter[BOS] = NEVER, 9.0  # likely, but no search writes <bos>
            parameter.copy_(parameter.half())
    imported = {"imported": IMPORTED | {"family": family}}
    save(folder, network, "scratch", ("de", target), tokenizers, imported, {})
    return folder


def sentences(count: int) -> list[str]:
    """Return random sentences of known and unknown words."""
    draw = random.Random(1)
    words = [word for text in SENTENCES["de"] for word in text.split()]
    words += ["Katze", "(z.B.", "Hunde,", "»Buch«", "☃", "geht's", "Ärger", "ﬁn"]
    return [" ".join(draw.choices(words, k=draw.randrange(1, 9))) for _ in range(count)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    place = tmp_path_factory.mktemp("imported")
    yield {family: write(place / f"{family}-de-en", family) for family in FAMILIES}


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_translates_as_in_python(computing_page: Page, folders, family, int8):
    with rounded_checkpoint(folders[family], int8) as folder:
        translator = Translator.load(folder, device="cpu")
        page = OfflineNetwork(computing_page, folders[family], int8)
        report = compare(translator, page, sentences(4 if int8 else 12), beam=4)
        found = page.inspect("Der Mann liest .", beam=4)
        scores = {round(one["score"], 3) for one in found["hypotheses"]}
    assert report.passed and not report.different, report
    assert len(scores) > 1
    assert all(check["passed"] for check in found["checks"])
    if family == "marian":  # the sides differ in heads
        record = translator.inspect("Der Mann liest .")
        expected, effects = head_effects(translator, record), page.effects(record.source_text)
        for kind, changes in expected.changes.items():
            assert np.allclose(effects[kind], changes.ravel(), atol=1e-4)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("language", ["de", "en"])
def test_words_are_split_and_joined_as_in_python(computing_page: Page, language, lower):
    """Lines are made of spaCy's own exceptions, affixes and numbers, in any order."""
    draw = random.Random(lower)
    exceptions = [word for word in spacy.blank(language).tokenizer.rules if word.strip()]
    affixes = [*"()[]{}\"'“”„’.,:;!?-–…/%$€°+*&#_<>~|19", "km", "..", "--", "n't", "'s", "@", "語"]
    lines = [
        "".join(draw.choices([*exceptions, *affixes, *[" "] * 400], k=draw.randrange(1, 14)))
        for _ in range(300)
    ] + list(LINES)
    words = WordTokenizer.train(lines[::2] + list(LINES), language, 1, lower)
    same(computing_page, words.to_json(), lines)
    same_decoding(computing_page, words.to_json())


def test_what_the_page_cannot_run_is_refused_in_one_line(tmp_path, folders):
    french = WordTokenizer.train(SENTENCES["fr"], "fr", 1)
    with pytest.raises(ValueError, match="the page splits words of de and en only, not of fr"):
        tokenizer_of_page(french.to_json())


def test_a_page_above_the_limit_is_refused_with_its_size(folders, monkeypatch):
    monkeypatch.setattr(offline, "LIMIT", 9_000)
    folder = folders["marian"]
    with pytest.raises(ValueError, match=r"million weights make a page of about .* MB.*INT8=1"):
        offline.read_networks([folder], int8=False)
    with pytest.raises(ValueError, match="give one direction, or save a record as a page"):
        offline.read_networks([folder, folder], int8=True)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 5_000])
def test_weights_as_text_are_those_of_pythons_base_85(length):
    content = np.random.default_rng(length).bytes(length)
    text = as_text(content)
    assert unpacked(text) == content
    assert "<" not in text and text.isascii()


def test_an_imported_folder_becomes_a_page_and_a_site(
    offline_context: BrowserContext, tmp_path, capsys
):
    """As both READMEs say; its languages are named by their codes, its author by the folder."""
    folder = write(tmp_path / "opus-de-fr", "t5", "fr")
    size = f"{read_card(folder).parameters:,} weights"  # too few for millions
    given = ["--checkpoint", str(folder), "--out"]
    offline.run(offline.parser().parse_args([*given, str(tmp_path / "opus.html")]))
    site.run(site.parser().parse_args([*given, str(tmp_path / "site")]))
    assert "opus-de-fr" in capsys.readouterr().out
    credit = "Imported from opus-mt-ar-en (t5). Author: Language Group <b>X</b>. Licence: CC-BY"
    address = (tmp_path / "opus.html").as_uri() + "#source=Der+Mann+liest+.&beam=4"
    with opened_offline(offline_context, address, tmp_path.as_uri()) as page:
        expect(page.locator(".explorer[data-painted]")).to_be_visible()
        expect(part(page, "about")).to_contain_text(credit)
        expect(part(page, "about")).to_contain_text("German → French")
        expect(part(page, "about")).to_contain_text(f", {size}, 2 + 2 layers, 2 heads")
        with rounded_checkpoint(folder, int8=False) as rounded:
            translator = Translator.load(rounded, device="cpu")
        own = translator.inspect("Der Mann liest .", beam=4)
        expect(part(page, "translation")).to_have_text(own.translation)
        listed = page.locator(".explorer [data-part=checks]")
        expect(listed).to_contain_text("Language Group <b>X</b>")
        row = page.locator(".explorer .sentences, .explorer").first
        expect(row).to_contain_text("French")
        part(page, "to").select_option(label="English (en)")
        other = translator.between("de", "en").inspect("Der Mann liest .", beam=4)
        expect(row).to_contain_text("English")
        ids = page.evaluate("headlight.translate('Der Mann liest .').then(({ ids }) => ids)")
        assert ids == [token.id for token in other.target_out] and ids[0] == 12
        assert "from_language=de&to_language=en" in page.url
        page.get_by_role("button", name="Lesson: positions").click()
        said = page.locator("[data-page=lesson] [data-part=sections]")
        expect(said).to_contain_text(text("positions", "about-bias"))
        expect(said.locator("canvas, h3")).to_have_count(0)
        page.get_by_role("button", name="Lesson: masks").first.click()
        expect(said).to_contain_text("softmax(QK\u1d40 + B + M)")
    index = (tmp_path / "site/index.html").read_text(encoding="utf-8")
    assert "German → French" in index and "headlight-de-fr.html" in index and size in index
