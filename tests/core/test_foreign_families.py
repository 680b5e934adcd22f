"""Networks of T5, BART, mBART, M2M100 and FSMT give transformers' numbers after conversion."""

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from transformers import AutoTokenizer, M2M100ForConditionalGeneration, NllbTokenizer
from transformers.models.t5.modeling_t5 import T5Attention

from core.config import DecodeConfig
from core.foreign import comparison, importing, library
from core.foreign.family import Options
from core.foreign.importing import Result, import_network
from core.foreign.vocabularies import sentencepiece
from core.model.parts import buckets_of
from core.model.transformer import Transformer
from core.search import beam as searches
from core.search.beam import beam, greedy
from core.text.tokenizer import EOS, encode_source
from core.translator import Translator
from tests.core.library_networks import NETWORKS, codes, network, saved, sizes_of, trained
from tests.generated_language import language
from tests.tokenizer_folders import CODES, LINES, ROLES, write


def convert(folder: Path, name: str) -> Result:
    """Convert a folder into mine-de-en beside it, and compare it with the library."""
    out = folder.parent / "mine-de-en"
    return import_network(NETWORKS[name][0], folder, out, Options(("de", "en"), **codes(name)))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_random_network_gives_the_originals_numbers(name, tmp_path):
    result = convert(saved(tmp_path / "theirs", name), name)
    compared = {one.what: one for one in result.imported.compared}
    for what in ("attention maps", "logits", "log-probabilities", "logits of single steps"):
        assert compared[f"{what}, float64"].max_abs_diff < 1e-12
        assert compared[f"{what}, float32"].max_abs_diff < 1e-4
    for what in ("greedy ids, float64", "greedy ids, float32"):
        assert compared[what].max_abs_diff == 0
    assert any(what.startswith("tokens of") for what in compared)
    record = Translator.load(tmp_path / "mine-de-en").inspect("Zwei Hunde spielen.")
    assert [check.name for check in record.checks if not check.passed] == []


@pytest.mark.parametrize("name", sorted({*NETWORKS} - {"fsmt"}))  # which would save rounded sines
def test_half_precision_is_compared_in_float64(name, tmp_path, monkeypatch):
    """Neither network is converted as a whole, nor are the library's sines rounded."""
    folder = saved(tmp_path / "theirs", name)
    network(name, sizes_of(folder, name)).from_pretrained(folder).half().save_pretrained(folder)
    for kind in ("double", "float"):
        monkeypatch.setattr(Transformer, kind, None)
    monkeypatch.setattr(library, "BLOCK", 16)
    compared = {one.what: one.max_abs_diff for one in convert(folder, name).imported.compared}
    for what in ("attention maps", "logits", "log-probabilities", "logits of single steps"):
        assert compared[f"{what}, float64"] < 1e-12
        assert compared[f"{what}, float32"] < 1e-4


def test_a_large_network_is_compared_without_kernels(tmp_path, monkeypatch):
    monkeypatch.setattr(importing, "LARGE", 0)
    monkeypatch.setattr(comparison, "accelerate", None)
    result = convert(saved(tmp_path / "theirs", "bart"), "bart")
    assert any(one.what == "logits, float32" for one in result.imported.compared)
    assert [note for note in result.imported.not_proven if "kernels were not compared" in note]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("count", "farthest"), [(32, 128), (8, 9), (64, 300)])
def test_buckets_are_the_librarys(count, farthest, causal):
    distance = torch.arange(-400, 401)
    theirs = T5Attention._relative_position_bucket(distance, not causal, count, farthest)
    assert torch.equal(buckets_of(distance, count, farthest, causal), theirs)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("t5 1.1", {"d_model": 48, "d_kv": 12, "d_ff": 96, "num_layers": 2}),
        ("bart", {"d_model": 48, "max_position_embeddings": 80, "encoder_layers": 2}),
    ],
)
def test_a_trained_network_writes_the_originals_ids(name, sizes, tmp_path):
    """Beam search without a length penalty follows one rule in both, so its ids are compared too.

    Two translations may be equally good, up to rounding: then either is right.
    """
    theirs, lines = trained(tmp_path / "theirs", name, 20, **sizes)
    convert(tmp_path / "theirs", name)
    assert agreement(theirs, tmp_path, lines[:8])["greedy"] == 8


def test_a_forced_language_has_the_librarys_score(tmp_path):
    """Both count it as certain."""
    folder = saved(tmp_path / "theirs", "m2m100")
    convert(folder, "m2m100")
    mine = Translator.load(tmp_path / "mine-de-en")
    theirs = M2M100ForConditionalGeneration.from_pretrained(folder).eval()
    ids = [token.id for token in encode_source(mine._source, "Zwei Hunde spielen.")] + [EOS]
    options, size = Options(("de", "en"), **codes("m2m100")), theirs.config.vocab_size
    table = sentencepiece("m2m100", folder, options, size, ROLES["m2m100"]).rows.tolist()
    (forced,) = mine._forced
    config = DecodeConfig(beam=3, length_penalty=0.0)
    found = searches.search(mine._model, torch.tensor([ids]), config, (forced,))[0][0]
    written = theirs.generate(
        torch.tensor([[table[id] for id in ids]]),
        **{"num_beams": 3, "length_penalty": 0.0, "max_new_tokens": len(found.ids)},
        **{"forced_bos_token_id": table[forced], "bad_words_ids": [[1]], "do_sample": False},
        **{"return_dict_in_generate": True, "output_scores": True},
    )
    assert written.sequences[0, 1:].tolist() == [table[id] for id in found.ids]
    assert found.score == pytest.approx(written.sequences_scores[0].item(), abs=1e-4)


def agreement(theirs: Any, folder: Path, lines: list[str]) -> dict[str, int]:
    """Count the lines whose greedy and beam ids are the library's."""
    mine = Translator.load(folder / "mine-de-en")
    plan_rows = rows(theirs, mine)
    counts = {"greedy": 0, "beam": 0}
    settings: dict[str, Any] = {
        "max_new_tokens": 60,
        "do_sample": False,
        "forced_bos_token_id": None,
    }
    settings |= {"length_penalty": 0.0, "early_stopping": False}
    c = theirs.config  # this project's search never writes <pad> and <bos>
    never = {c.pad_token_id, c.decoder_start_token_id} - {c.eos_token_id}
    settings["bad_words_ids"] = [[id] for id in never]
    for line in lines:
        ids = [token.id for token in encode_source(mine._source, line)] + [EOS]
        source, given = torch.tensor([ids]), torch.tensor([[plan_rows[i] for i in ids]])
        for search, beams in (("greedy", 1), ("beam", 4)):
            config = DecodeConfig(beam=beams, length_penalty=0.0)
            found = greedy(mine._model, source) if beams == 1 else beam(mine._model, source, config)
            with torch.inference_mode():
                written = theirs.generate(given, num_beams=beams, **settings)[0, 1:].tolist()
            ours = [plan_rows[id] for id in found[0][0].ids]
            both = min(len(ours), len(written))  # the two have other limits
            counts[search] += ours[:both] == written[:both]
    return counts


def rows(theirs: Any, mine: Translator) -> list[int]:
    """Return the library's id for each of our ids, found by comparing embeddings."""
    table = theirs.get_input_embeddings().weight.detach()
    ours = mine._model.embeddings.source_table.weight
    distances = torch.cdist(ours, table)
    found = distances.argmin(-1).tolist()
    start, end = theirs.config.decoder_start_token_id, theirs.config.eos_token_id
    found[:3] = [theirs.config.pad_token_id, start, end]
    assert len(set(found[3:])) == len(found) - 3
    return found


def test_nllbs_tokenizer_gives_the_librarys_ids(tmp_path):
    """Languages included, on the library's own folder of a small tokenizer and generated text."""
    model = write(tmp_path / "model", "nllb")
    NllbTokenizer.from_pretrained(
        model, extra_special_tokens=list(CODES), src_lang="deu_Latn", tgt_lang="zho_Hant"
    ).save_pretrained(tmp_path / "saved")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "saved")
    options = Options(("fr", "fr"), any_codes=True)
    ours = sentencepiece("m2m100", tmp_path / "saved", options, len(theirs), ROLES["nllb"])
    lines = [source for (source, _), _ in language().pairs(200)] + list(LINES[-5:])
    for line in lines:
        ids = [int(ours.rows[token.id]) for token in encode_source(ours.tokenizer, line)]
        assert ids == theirs(line)["input_ids"][:-1]
    forced = theirs.convert_tokens_to_ids("zho_Hant")
    assert [int(ours.rows[id]) for id in ours.tokenizer.frame.forced] == [forced]
