"""Networks with language codes or a task in words: what is put in front, and who may change it."""

import copy
import io
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from core import evaluate, translate
from core.analysis.alignment import Gold
from core.atlas.corpus import corpus
from core.checkpoint.folder import load, save
from core.config import DecodeConfig
from core.data.batches import encode_pairs
from core.model.build import build
from core.search.beam import search
from core.text.line import source_words
from core.text.tokenizer import BOS, EOS
from core.translator import Translator
from tests import small
from tests.tokenizer_folders import read
from tests.tokenizer_folders import write as write_tokenizer

PREFIX = "translate German to English: "


def network(folder: Path, family: str) -> Path:
    """Save an untrained network with the tokenizer of a family."""
    tokenizer = read(write_tokenizer(folder / family, family), family).tokenizer
    sizes = {"source_vocab_size": tokenizer.size, "target_vocab_size": tokenizer.size}
    torch.manual_seed(2)
    model = build("scratch", small.config(**sizes, share_embeddings=True, max_length=40)).eval()
    out = folder / f"{family}-de-en"
    save(out, model, "scratch", ("de", "en"), (tokenizer, tokenizer), {}, {})
    return out


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("networks")
    return {family: network(place, family) for family in ("mbart", "t5")}


@pytest.fixture(scope="module")
def many(folders) -> Translator:
    return Translator.load(folders["mbart"], "cpu")


@pytest.mark.parametrize("beam", [1, 4])
def test_every_translation_begins_with_the_forced_language(many, beam):
    chosen = many.between("fr_XX", "he_IL")
    frame = chosen.checkpoint.target_tokenizer.frame
    french, hebrew = frame.languages["fr_XX"], frame.languages["he_IL"]
    texts = [small.SENTENCES[n][0] for n in (0, 2, 5)]
    found = chosen.translate(texts, beam=beam)
    assert all(h.ids[0] == hebrew for one in found for h in one.hypotheses)
    assert any(one.text for one in found) and not any("he_IL" in one.text for one in found)
    for record, one in zip(chosen.inspect_many(texts, beam=beam), found, strict=True):
        assert (record.source[0].id, record.source[0].special) == (french, True)
        assert (record.target_out[0].id, record.target_out[0].special) == (hebrew, True)
        assert [h.ids for h in record.hypotheses] == [h.ids for h in one.hypotheses]
        assert all(check.passed for check in record.checks)
        assert chosen.recheck(record).checks == record.checks
    record = chosen.inspect(texts[0], beam=beam)
    assert [h.ids for h in record.hypotheses] == [h.ids for h in found[0].hypotheses]
    assert (record.source_language, record.target_language) == ("French", "Hebrew")
    tree = chosen.search_tree(texts[0], decode=DecodeConfig(beam=beam))
    assert [h.ids for h in tree.tree.hypotheses] == [h.ids for h in found[0].hypotheses]
    assert [n.log_prob for n in tree.tree.nodes if n.step == 1] == [0.0]  # certain, so not counted
    (first, *rest), best = record.log_probs, record.hypotheses[0]
    assert first < 0 and best.log_prob == pytest.approx(sum(rest), abs=1e-4)
    assert tree.tree.hypotheses[0].log_prob == pytest.approx(best.log_prob, abs=1e-4)
    assert {h.ids[0] for h in many.translate(texts[0]).hypotheses} == {frame.languages["en_XX"]}


def test_a_given_target_begins_with_its_language(many):
    record = many.inspect("Ein Hund.", "A dog.")
    english = many.checkpoint.target_tokenizer.frame.languages["en_XX"]
    assert record.target_out[0].id == english and record.target_in[1].id == english
    assert record.translation == "A dog." and all(check.passed for check in record.checks)
    plain = many.checkpoint.target_tokenizer.encode("A dog.")
    assert [t.id for t in record.target_out] == [english, *(t.id for t in plain), EOS]
    assert many.continuation("A dog.") == tuple(t.id for t in plain[1:])  # without the lone ▁
    ((source, target),) = encode_pairs(
        [("Ein Hund.", "A dog.")], *[many.checkpoint.target_tokenizer] * 2
    )
    assert source == [t.id for t in record.source] and target[0] == english


@pytest.mark.parametrize("beam", [1, 3])
def test_the_search_after_a_forced_token_is_that_of_its_continuation(beam):
    """With a model that has read the forced token, only the likely continuations remain."""
    model, source = small.sharp(3), torch.tensor([small.source_row(6)])
    found = search(model, source, DecodeConfig(beam=beam, length_penalty=0.0), (7, 9))[0]
    for hypothesis in found:
        fed = torch.tensor([[BOS, *hypothesis.ids[:-1]]])
        log_probs = model(source, fed).log_softmax(-1)[0]
        total = log_probs.gather(1, torch.tensor(hypothesis.ids)[:, None])[2:].sum().item()
        assert hypothesis.ids[:2] == (7, 9)
        assert hypothesis.log_prob == pytest.approx(total, abs=1e-4)
    if beam == 1:
        assert all(
            id == log_probs[at].index_fill(0, torch.tensor([0, 1]), -torch.inf).argmax()
            for at, id in enumerate(found[0].ids)
            if at > 1
        )


def test_a_translator_of_other_languages_shares_the_network_and_survives_copying(many):
    chosen = many.between(target="fr_XX")
    assert chosen.checkpoint.model is many.checkpoint.model and chosen._lock is many._lock
    for again in (copy.copy(chosen), pickle.loads(pickle.dumps(chosen))):
        assert (
            again.translate("Ein Hund.").hypotheses[0].ids[0]
            == (chosen.checkpoint.target_tokenizer.frame.languages["fr_XX"])
        )
    assert "fr_XX" in many.languages and chosen.between(source="fr_XX").card.spoken[:2] == (
        "fr_XX",
        "fr_XX",
    )


def test_the_task_is_put_in_front_once_and_can_be_changed(folders):
    t5 = Translator.load(folders["t5"], "cpu")
    assert t5.prefix == PREFIX and t5.languages == ()
    text = "Ein Hund läuft."
    record = t5.inspect(text)
    whole = t5.inspect(PREFIX + text)
    assert [t.id for t in record.source] == [t.id for t in whole.source]
    assert t5.between(prefix="").inspect(PREFIX + text).source == whole.source
    assert len(t5.between(prefix="").inspect(text).source) < len(record.source)
    assert all(check.passed for check in record.checks)
    tokenizer = t5.checkpoint.source_tokenizer
    words = source_words(tokenizer, text, record.source)
    pieces = ["".join(record.source[i].text for i in word) for word in words]
    assert pieces == ["Ein", "Hund", "läuft."]
    assert source_words(tokenizer, PREFIX + text, whole.source)[-3:] == words
    assert t5.translate(["", text])[0].text == ""


def test_commands_choose_languages(lines, folders, monkeypatch):
    def run(family, *options):
        stdin = SimpleNamespace(buffer=io.BytesIO(b"Ein Hund.\n"))
        monkeypatch.setattr(translate.sys, "stdin", stdin)
        monkeypatch.setattr(translate, "read_available", lambda stream: iter([list(stream)]))
        return lines(translate, "--checkpoint", folders[family], "--beam", 1, *options)

    translator = Translator.load(folders["mbart"], "cpu").between("fr_XX", "he_IL")
    code, out, error = run("mbart", "--from-lang", "fr_XX", "--to-lang", "he_IL")
    assert code == 0, error
    assert out.rstrip("\n") == translator.translate("Ein Hund.", beam=1).text
    t5 = Translator.load(folders["t5"], "cpu").between(prefix="x: ")
    assert run("t5", "--prefix", "x: ")[1].rstrip("\n") == t5.translate("Ein Hund.", beam=1).text
    code, out, error = run("mbart", "--to-lang", "de_AT")
    assert (code, out, error.count("\n")) == (1, "", 1)
    assert "no language 'de_AT': the nearest of its 52 codes are de_DE" in error
    code, out, error = run("t5", "--to-lang", "de_DE")
    assert code == 1 and "has no language codes: leave out 'de_DE'" in error


def test_evaluating_another_direction_scores_other_tokens(lines, folders, tmp_path):
    for side, text in (("de", "Ein Hund läuft.\n"), ("en", "A dog runs.\n")):
        (tmp_path / f"text.{side}").write_text(text)
    files = ("--src", tmp_path / "text.de", "--ref", tmp_path / "text.en")
    given = ("--checkpoint", folders["mbart"], "--device", "cpu", *files)
    code, out, error = lines(evaluate, *given)
    assert code == 0, error
    code, other, error = lines(evaluate, *given, "--from-lang", "fr_XX", "--to-lang", "he_IL")
    assert code == 0, error
    losses = [
        next(line for line in text.splitlines() if "loss_per_token" in line)
        for text in (out, other)
    ]
    assert losses[0] != losses[1]
    loaded = load(folders["mbart"], "cpu").between("fr_XX", "he_IL")
    assert (loaded.card.source_language, loaded.card.target_language) == ("fr", "he")


@pytest.mark.parametrize("family", ["mbart", "t5"])
def test_a_corpus_is_read_as_a_translation_is(folders, family):
    """Statistics of given sentences see the ids that evaluation and training see."""
    checkpoint = load(folders[family])
    both = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    pairs = [("Ein Hund", "A dog"), ("Zwei", "Two"), ("ein Mann.", "a man.")]
    text = corpus(checkpoint, pairs, [Gold(frozenset({(0, 0)}), frozenset({(0, 0)}))] * 3)
    assert [sentence.ids for sentence in text.sentences] == list(encode_pairs(pairs, *both))
    for sentence, (source, target) in zip(text.sentences, pairs, strict=True):
        assert max(sentence.words[0]) == len(source.split(" ")) - 1
        first, second = sentence.leads
        of_source = zip(sentence.words[0], sentence.source[first:-1], strict=True)
        of_target = zip(sentence.words[1], sentence.target[second:-1], strict=True)
        read = ["".join(t.text for word, t in side if word == 0) for side in (of_source, of_target)]
        assert read == [source.split(" ")[0], target.split(" ")[0]]
    with pytest.raises(ValueError, match="no sentence pair to measure"):
        corpus(checkpoint, [("Ein Hund.", "")])
