"""Certainty: quantiles of mean probabilities, their file, and the command that writes it."""

import dataclasses
import json
import math

import numpy as np
import pytest

from core import analyse
from core.checkpoint.certainty import FILE, PERCENT, Certainty, mean_probability, read_certainty
from core.checkpoint.folder import load
from core.config import DecodeConfig
from core.data.other_kinds import KINDS
from core.experiments.certainty import SEARCHES, mean_probabilities
from core.translator import Translator
from tests import small

SHA256 = "ab" * 32


def certainty(values=tuple(np.linspace(0.2, 1, 201))) -> Certainty:
    return Certainty.of(SHA256, {"one": 150, "two": 51}, {"greedy": list(values)})


def test_a_translation_is_uncertain_below_the_second_percentile():
    values = np.linspace(0.2, 1, 201)
    found = certainty(values)
    assert found.sentences == 201
    for probability in (0.0, 0.199, 0.2, 0.205, 0.2161, 0.5, 1.0):
        said = found.less_than(probability, "greedy")
        more = math.floor(100 * (values > probability).mean())
        assert said == (more if more >= 100 - PERCENT else None)
    assert found.less_than(0.0, "beam 5") is None


def test_the_mean_is_over_tokens_and_includes_the_end(checkpoint_folder):
    translator = Translator.load(checkpoint_folder, "cpu")
    texts = [source for source, _ in small.SENTENCES]
    for decode in (DecodeConfig(beam=1), DecodeConfig(beam=3)):
        found = mean_probabilities(load(checkpoint_folder), texts, decode, "cpu")
        for text, probability in zip(texts, found, strict=True):
            record = translator.inspect(text, decode=decode)
            assert probability == pytest.approx(np.exp(record.log_probs.mean()), rel=1e-4)
            ends = mean_probability(record.log_prob, len(record.target_out))
            assert ends == pytest.approx(probability, rel=1e-4)


def broken(file, what):
    values = json.loads(file.read_text())
    match what:
        case "missing":
            file.unlink()
            return
        case "unsorted":
            values["searches"]["greedy"][0] = 0.9
        case "short":
            values["searches"]["greedy"].pop()
        case "above 1":
            values["searches"]["greedy"][100] = 1.5
        case "no corpus":
            values["corpora"] = {}
        case "text":
            file.write_text("{")
            return
    file.write_text(json.dumps(values))


def test_a_file_is_read_as_it_was_written_and_only_for_its_weights(tmp_path):
    found = certainty()
    found.save(tmp_path / FILE)
    assert read_certainty(tmp_path, SHA256) == found
    assert read_certainty(tmp_path, "cd" * 32) is None


@pytest.mark.parametrize("what", ["missing", "unsorted", "short", "above 1", "no corpus", "text"])
def test_an_unusable_file_counts_as_none(tmp_path, what):
    certainty().save(tmp_path / FILE)
    broken(tmp_path / FILE, what)
    assert read_certainty(tmp_path, SHA256) is None


def test_the_command_measures_a_file_and_replaces_nothing_unasked(checkpoint_folder, tmp_path):
    lines = [source for source, _ in small.SENTENCES] * 20
    (tmp_path / "s.de").write_text("\n".join(lines) + "\n")
    out = tmp_path / FILE

    def run(*more):
        given = ["certainty", "--checkpoint", checkpoint_folder, "--src", tmp_path / "s.de"]
        given += ["--out", out, "--json", tmp_path / "found.json", *more]
        parsed = analyse.parser().parse_args(list(map(str, given)))
        parsed.run(parsed)

    run()
    checkpoint = load(checkpoint_folder)
    found = read_certainty(tmp_path, checkpoint.card.weights_sha256)
    assert found is not None and found.corpora == {"the sentences of s.de": 96}
    said = json.loads((tmp_path / "found.json").read_text())
    assert said["sentences"] == 96 and list(said["uncertain"]) == [s.label for s in SEARCHES]
    for decode in SEARCHES:
        for name, pairs in KINDS.items():
            texts = [german for german, _ in pairs]
            values = mean_probabilities(checkpoint, texts, decode, "cpu")
            flagged = sum(v < found.searches[decode.label][PERCENT] for v in values)
            counted = said["uncertain"][decode.label][f"{name} (other)"]
            assert counted == {"uncertain": flagged, "of": 10}
        assert said["uncertain"][decode.label]["the sentences of s.de"]["of"] == 24
    with pytest.raises(ValueError, match="exists already"):
        run()
    dataclasses.replace(found, weights_sha256=SHA256).save(out)
    run("--force")
    assert read_certainty(tmp_path, checkpoint.card.weights_sha256) == found
