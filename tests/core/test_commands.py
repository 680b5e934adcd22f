"""What `evaluate` scores and reports."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch

from core import evaluate
from core.checkpoint.folder import load
from core.config import DecodeConfig
from core.data import names
from core.data.corpora import read_pairs
from core.search.beam import Hypothesis
from core.text.tokenizer import BOS, EOS
from core.training import scoring
from core.translator import Translator

KEYS = (
    "checkpoint sentences beam sacrebleu signature bleu_lc_tok exact_match chrf loss_per_token "
    "bits_per_char"
)


@pytest.fixture
def scores(checkpoint_folder, tmp_path):
    """Return a function that runs `evaluate` and returns its JSON without the time taken."""

    def run(*arguments: object) -> dict[str, Any]:
        file = tmp_path / "scores.json"
        options = ["--checkpoint", checkpoint_folder, "--json", file, *arguments]
        evaluate.run(evaluate.parser().parse_args(list(map(str, options))))
        found = json.loads(file.read_text())
        assert found.pop("seconds") >= 0
        return found

    return run


def test_evaluate_writes_the_agreed_keys(checkpoint_folder, data, scores):
    source, reference = data / "multi30k/val.de", data / "multi30k/val.en"
    found = scores("--src", source, "--ref", reference, "--beam", 2)
    assert list(found) == KEYS.split()
    assert (found["sentences"], found["beam"]) == (6, 2)
    texts, expected = source.read_text().splitlines(), reference.read_text().splitlines()
    outputs = Translator.load(checkpoint_folder).translate(texts, DecodeConfig(beam=2))
    bleu = sacrebleu.corpus_bleu([t.text for t in outputs], [expected])
    assert found["sacrebleu"] == round(bleu.score, 2)
    assert scores("--corpus", "multi30k", "--data", data, "--beam", 2) == found


@pytest.mark.parametrize(
    ("options", "sources"),
    [
        (["--small-letters"], "lower-cased, without final punctuation"),
        (["--joined", 4], "4 concatenated"),
    ],
)
def test_changed_sources_score_like_a_file_of_them(data, tmp_path, scores, options, sources):
    for language in ("de", "en"):
        text = (data / f"multi30k/val.{language}").read_text().splitlines()
        assert len(text) == 6 and all(line.endswith(".") for line in text)
        small = [line.removesuffix(".") for line in text]
        if "--joined" in options:
            text = [" ".join(text[:4]), " ".join(text[4:])]
        else:
            text = [line.lower() for line in small] if language == "de" else small
        (tmp_path / language).write_text("\n".join(text) + "\n")
    expected = scores("--src", tmp_path / "de", "--ref", tmp_path / "en")
    found = scores("--corpus", "multi30k", "--data", data, *options)
    assert found == expected | {"sources": sources}


def test_the_generated_set_reports_what_was_copied(checkpoint_folder, scores, monkeypatch):
    monkeypatch.setattr("core.data.names.SIZE", 8)
    monkeypatch.setattr(
        "core.training.scoring.translate_ids",
        lambda model, rows, *_, **__: [[Hypothesis(tuple(row), 0.0, 0.0)] for row in rows],
    )
    found = scores("--corpus", "names", "--split", "test")
    assert list(found) == [*KEYS.split(), "names_copied", "numbers_copied", "capitals_right"]
    tokenizer = load(checkpoint_folder).source_tokenizer
    pairs = read_pairs("names", "test", "de", "en")
    copies = [tokenizer.decode([t.id for t in tokenizer.encode(s)]) for s, _ in pairs]
    assert found.items() >= names.copied(pairs, copies).items()
    assert found["sentences"] == 8 and 0 < found["names_copied"] < 1


def test_lower_cased_tokens_match_the_published_references():
    lines = ["Eine Frau sagt: „Trader Joe's“ – U-Bahn!", "An MVP's 4' sign reads \"x & y\"."]
    german, english = (
        scoring.lc_norm_tok(lines[i : i + 1], code) for i, code in enumerate(("de", "en"))
    )
    assert german == ["eine frau sagt : &quot; trader joe &apos; s &quot; - u-bahn !"]
    assert english == ["an mvp &apos;s 4 &apos; sign reads &quot; x &amp; y . &quot;"]


@pytest.mark.parametrize(
    ("source", "reference", "message"),
    [
        ("", "", "there are no sentence pairs to score"),
        ("Hund\nHund\n", "\n  \n", "the references of all 2 pairs are empty"),
        (" \n", "A dog.\n", "the sources of all 1 pairs are empty"),
        ("Hund\n" + "Hund " * 300 + "\n", "dog\ndog\n", "pair 2 has "),
    ],
)
def test_what_cannot_be_scored_gives_one_line(
    checkpoint_folder, tmp_path, lines, source, reference, message
):
    (tmp_path / "a").write_text(source)
    (tmp_path / "b").write_text(reference)
    text = ["--src", tmp_path / "a", "--ref", tmp_path / "b", "--json", tmp_path / "scores.json"]
    code, _, error = lines(evaluate, "--checkpoint", checkpoint_folder, *text)
    assert code == 1 and error.startswith(f"error: {message}") and error.count("\n") == 1
    assert not (tmp_path / "scores.json").exists()


FOLDER = Path(__file__).parents[2] / "checkpoints/captions-de-en"
# References differ from any translation in words, case and length, so that BLEU and chrF change if
# their arguments are swapped.
PAIRS = [
    ("Ein Hund läuft durch den Schnee.", "A Dog runs through deep snow today."),
    ("Zwei Kinder spielen am Strand.", "Two children play on a beach."),
    ("Eine Frau liest ein Buch.", "The woman is reading."),
    ("Ein Mann mit Hut steht vor einem Haus.", "In front of a house stands a man with a hat."),
]
SOURCES, REFERENCES = (list(side) for side in zip(*PAIRS, strict=True))


@pytest.fixture(scope="module")
def scored():
    return scoring.evaluate(load(FOLDER), PAIRS, DecodeConfig(beam=2), "cpu")


@pytest.fixture(scope="module")
def outputs():
    found = Translator.load(FOLDER, "cpu").translate(SOURCES, DecodeConfig(beam=2))
    return [translation.text for translation in found]


def test_bleu_and_chrf_are_sacrebleus(scored, outputs):
    for name, measure in (("sacrebleu", sacrebleu.corpus_bleu), ("chrf", sacrebleu.corpus_chrf)):
        assert scored[name] == round(measure(outputs, [REFERENCES]).score, 2)
        assert scored[name] != round(measure(REFERENCES, [outputs]).score, 2)
    assert scored["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_the_lower_cased_bleu_is_of_words_and_marks(scored, outputs):
    def cut(lines: list[str]) -> list[str]:
        return [" ".join(re.findall(r"\w+|[^\w\s]", line.lower())) for line in lines]

    bleu = sacrebleu.BLEU(tokenize="none", force=True)
    expected = bleu.corpus_score(cut(outputs), [cut(REFERENCES)]).score
    assert scored["bleu_lc_tok"] == round(expected, 2)
    assert scored["sacrebleu"] != scored["bleu_lc_tok"] < 100


def test_loss_and_bits_are_sums_of_log_probabilities(scored):
    checkpoint = load(FOLDER)
    total = tokens = 0
    for source, target in PAIRS:
        source_ids = [*(t.id for t in checkpoint.source_tokenizer.encode(source)), EOS]
        target_ids = [*(t.id for t in checkpoint.target_tokenizer.encode(target)), EOS]
        fed = torch.tensor([source_ids]), torch.tensor([[BOS, *target_ids[:-1]]])
        with torch.inference_mode():
            rows = checkpoint.model(*fed)[0].double().log_softmax(-1)
        total -= sum(rows[t, id].item() for t, id in enumerate(target_ids))
        tokens += len(target_ids)
    assert scored["loss_per_token"] == pytest.approx(total / tokens, abs=6e-5)
    characters = len("".join(REFERENCES))
    assert scored["bits_per_char"] == pytest.approx(total / characters / math.log(2), abs=6e-5)
    assert scored["sentences"] == 4 and scored["beam"] == 2
