"""The command lines as programs use them: JSON out, line for line, one line when it fails."""

import json
import subprocess
import sys

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
    "seconds",
]


def command(*arguments: object, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)], input=text.encode(), capture_output=True
    )


def test_evaluate_writes_the_agreed_keys(checkpoint_folder, data, tmp_path):
    arguments = ["--checkpoint", checkpoint_folder, "--json", tmp_path / "scores.json"]
    source, reference = data / "multi30k/val.de", data / "multi30k/val.en"
    arguments += ["--src", source, "--ref", reference, "--beam", 2]
    evaluate.run(evaluate.parser().parse_args(list(map(str, arguments))))
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert list(scores) == KEYS
    assert (scores["sentences"], scores["beam"]) == (6, 2)
    texts, expected = source.read_text().splitlines(), reference.read_text().splitlines()
    outputs = Translator.load(checkpoint_folder).translate(texts, DecodeConfig(beam=2))
    bleu = sacrebleu.corpus_bleu([t.text for t in outputs], [expected])
    assert scores["sacrebleu"] == round(bleu.score, 2)
    by_name = ["--checkpoint", checkpoint_folder, "--corpus", "multi30k", "--data", data]
    by_name += ["--beam", 2, "--json", tmp_path / "again.json"]
    evaluate.run(evaluate.parser().parse_args(list(map(str, by_name))))
    again = json.loads((tmp_path / "again.json").read_text())
    assert {**again, "seconds": 0} == {**scores, "seconds": 0}


def test_lower_cased_sources_are_scored_as_if_they_stood_in_a_file(
    checkpoint_folder, data, tmp_path
):
    lines = {"de": [], "en": []}
    for language, found in lines.items():
        text = (data / f"multi30k/val.{language}").read_text().splitlines()
        assert all(line.endswith(".") for line in text)
        found += [line.removesuffix(".") for line in text]
    (tmp_path / "src").write_text("\n".join(lines["de"]).lower() + "\n")
    (tmp_path / "ref").write_text("\n".join(lines["en"]) + "\n")
    scores = []
    for text in (
        ["--src", tmp_path / "src", "--ref", tmp_path / "ref"],
        ["--corpus", "multi30k", "--data", data, "--small-letters"],
    ):
        arguments = ["--checkpoint", checkpoint_folder, "--json", tmp_path / "scores.json", *text]
        evaluate.run(evaluate.parser().parse_args(list(map(str, arguments))))
        scores.append(json.loads((tmp_path / "scores.json").read_text()) | {"seconds": 0})
    sources = {"sources": "lower-cased, without their last mark"}
    assert scores[1] == scores[0] | sources


def test_several_sentences_at_once_are_scored_as_if_they_stood_on_one_line(
    checkpoint_folder, data, tmp_path
):
    for language in ("de", "en"):
        text = (data / f"multi30k/val.{language}").read_text().splitlines()
        assert len(text) == 6
        (tmp_path / language).write_text(" ".join(text[:4]) + "\n" + " ".join(text[4:]) + "\n")
    scores = []
    for text in (
        ["--src", tmp_path / "de", "--ref", tmp_path / "en"],
        ["--corpus", "multi30k", "--data", data, "--joined", 4],
    ):
        arguments = ["--checkpoint", checkpoint_folder, "--json", tmp_path / "scores.json", *text]
        evaluate.run(evaluate.parser().parse_args(list(map(str, arguments))))
        scores.append(json.loads((tmp_path / "scores.json").read_text()) | {"seconds": 0})
    assert scores[1] == scores[0] | {"sources": "4 at once"} and scores[1]["sentences"] == 2


def test_the_generated_set_says_what_was_copied(checkpoint_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("core.data.names.SIZE", 8)
    monkeypatch.setattr(
        "core.training.scoring.translate_ids",
        lambda model, rows, *_, **__: [[Hypothesis(tuple(row), 0.0, 0.0)] for row in rows],
    )
    arguments = ["--checkpoint", checkpoint_folder, "--corpus", "names", "--split", "test"]
    arguments += ["--json", tmp_path / "scores.json"]
    evaluate.run(evaluate.parser().parse_args(list(map(str, arguments))))
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert list(scores) == [*KEYS, "names_copied", "numbers_copied", "capitals_right"]
    tokenizer = load(checkpoint_folder).source_tokenizer
    pairs = read_pairs("names", "test", "de", "en")
    given_back = [tokenizer.decode([t.id for t in tokenizer.encode(s)]) for s, _ in pairs]
    assert scores.items() >= names.copied(pairs, given_back).items()
    assert scores["sentences"] == 8 and 0 < scores["names_copied"] < 1


def test_tokens_are_lowered_normalised_and_cut_as_in_the_published_references():
    lines = ["Eine Frau sagt: „Trader Joe's“ – U-Bahn!", "An MVP's 4' sign reads \"x & y\"."]
    german, english = (
        scoring.lc_norm_tok(lines[i : i + 1], code) for i, code in enumerate(("de", "en"))
    )
    assert german == ["eine frau sagt : &quot; trader joe &apos; s &quot; - u-bahn !"]
    assert english == ["an mvp &apos;s 4 &apos; sign reads &quot; x &amp; y . &quot;"]


def test_a_pair_longer_than_the_positions_is_named(checkpoint_folder, tmp_path):
    (tmp_path / "a").write_text("Hund\n" + "Hund " * 300 + "\n")
    (tmp_path / "b").write_text("dog\ndog\n")
    arguments = [
        "--checkpoint",
        checkpoint_folder,
        "--src",
        tmp_path / "a",
        "--ref",
        tmp_path / "b",
    ]
    with pytest.raises(ValueError, match=r"pair 2 has \d+ tokens with <eos>: the limit is 256"):
        evaluate.run(evaluate.parser().parse_args(list(map(str, arguments))))


@pytest.mark.parametrize(
    ("source", "reference", "message"),
    [
        ("", "", "there are no sentence pairs to score"),
        ("Hund\nHund\n", "\n  \n", "the references of all 2 pairs are empty"),
    ],
)
def test_nothing_to_score_is_one_line_and_an_exit_code(
    checkpoint_folder, tmp_path, monkeypatch, capsys, source, reference, message
):
    (tmp_path / "a").write_text(source)
    (tmp_path / "b").write_text(reference)
    text = ["--src", tmp_path / "a", "--ref", tmp_path / "b", "--json", tmp_path / "scores.json"]
    command_line = ["evaluate", "--checkpoint", checkpoint_folder, *text]
    monkeypatch.setattr("sys.argv", list(map(str, command_line)))
    with pytest.raises(SystemExit) as stopped:
        evaluate.main(evaluate.parser(), evaluate.run)
    # A text as the exit code: Python prints it to stderr and leaves with 1.
    error = stopped.value.code
    assert error.startswith(f"error: {message}") and "\n" not in error
    assert capsys.readouterr().err == "" and not (tmp_path / "scores.json").exists()


def test_translate_is_line_for_line(checkpoint_folder):
    lines = ["Ein Hund.", "", "Eine Frau\u2028liest ein Buch.", "Ein Mann."]
    done = command(
        "core.translate", "--checkpoint", checkpoint_folder, text="\n".join(lines) + "\n"
    )
    assert done.returncode == 0, done.stderr
    written = done.stdout.decode().removesuffix("\n").split("\n")
    expected = Translator.load(checkpoint_folder).translate(lines)
    assert written == [t.text for t in expected]


def test_all_sentences_are_counted_as_they_are_done(checkpoint_folder):
    counts: list[int] = []
    lines = ["Ein Hund.", "", "Eine Frau liest ein Buch.", "Ein Mann."]
    Translator.load(checkpoint_folder).translate(lines, batch_tokens=12, on_progress=counts.append)
    assert sum(counts) == len(lines) and len(counts) > 2


def test_no_lines_give_no_lines(checkpoint_folder):
    done = command("core.translate", "--checkpoint", checkpoint_folder)
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["core.translate", "--checkpoint", "nowhere"], "nowhere/config.json is missing"),
        (["core.evaluate", "--checkpoint", "nowhere"], "nowhere/config.json is missing"),
        (
            ["core.train", "--recipe", "smoke", "--data", "nowhere", "--out", "x"],
            "nowhere/multi30k/train.de.gz does not exist",
        ),
    ],
)
def test_failures_are_one_line_and_an_exit_code(arguments, message):
    done = command(*arguments)
    assert done.returncode == 1
    error = done.stderr.decode()
    assert error.startswith("error: ") and error.count("\n") == 1 and message in error
