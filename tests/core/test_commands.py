"""What `evaluate` scores and reports."""

import json
from typing import Any

import pytest
import sacrebleu

from core import evaluate
from core.checkpoint.folder import load
from core.config import DecodeConfig
from core.data import names
from core.data.corpora import read_pairs
from core.search.beam import Hypothesis
from core.training import scoring
from core.translator import Translator

KEYS = [
    "checkpoint",
    "sentences",
    "beam",
    "sacrebleu",
    "signature",
    "bleu_lc_tok",
    "chrf",
    "loss_per_token",
    "bits_per_char",
]


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
    assert list(found) == KEYS
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
        if options == ["--joined", 4]:
            text = [" ".join(text[:4]), " ".join(text[4:])]
        else:
            text = [line.removesuffix(".") for line in text]
            text = [line.lower() for line in text] if language == "de" else text
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
    assert list(found) == [*KEYS, "names_copied", "numbers_copied", "capitals_right"]
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


def test_a_pair_that_is_too_long_is_named(scores, tmp_path):
    (tmp_path / "a").write_text("Hund\n" + "Hund " * 300 + "\n")
    (tmp_path / "b").write_text("dog\ndog\n")
    with pytest.raises(ValueError, match=r"pair 2 has \d+ tokens with <eos>: the limit is 256"):
        scores("--src", tmp_path / "a", "--ref", tmp_path / "b")


@pytest.mark.parametrize(
    ("source", "reference", "message"),
    [
        ("", "", "there are no sentence pairs to score"),
        ("Hund\nHund\n", "\n  \n", "the references of all 2 pairs are empty"),
        (" \n", "A dog.\n", "the sources of all 1 pairs are empty"),
    ],
)
def test_nothing_to_score_gives_one_line_and_an_exit_code(
    checkpoint_folder, tmp_path, monkeypatch, capsys, source, reference, message
):
    (tmp_path / "a").write_text(source)
    (tmp_path / "b").write_text(reference)
    text = ["--src", tmp_path / "a", "--ref", tmp_path / "b", "--json", tmp_path / "scores.json"]
    command_line = ["evaluate", "--checkpoint", checkpoint_folder, *text]
    monkeypatch.setattr("sys.argv", list(map(str, command_line)))
    with pytest.raises(SystemExit) as stopped:
        evaluate.main(evaluate.parser(), evaluate.run)
    # If the exit code is a string, Python prints it to stderr and exits with 1.
    error = stopped.value.code
    assert error.startswith(f"error: {message}") and "\n" not in error
    assert capsys.readouterr().err == "" and not (tmp_path / "scores.json").exists()
