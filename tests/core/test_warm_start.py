"""A start from a trained checkpoint: vocabulary, weights, and what the card says of them."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from core import train
from core.checkpoint.folder import load, read_card
from core.data.corpora import read_pairs
from core.training.distributed import Processes
from core.training.job import Options, _prepare
from core.training.model_card import commands
from core.training.warm_start import tokenizers_of
from tests import small
from tests.core.conftest import run_train

DE_EN, EN_DE = ("de", "en"), ("en", "de")


@pytest.fixture(scope="module")
def words_folder(data, tmp_path_factory):
    """A checkpoint with a vocabulary a side."""
    folder = tmp_path_factory.mktemp("words") / "words-de-en"
    run_train("--data", data, "--out", folder, recipe="smoke-words")
    return folder


@pytest.mark.parametrize("direction", ["de-en", "en-de"])
def test_a_start_is_the_checkpoints_vocabulary_and_weights(
    data, checkpoint_folder, tmp_path, direction
):
    arguments = ["--recipe", "smoke", "--direction", direction, "--data", str(data)]
    arguments += ["--out", str(tmp_path / "new"), "--start-from", str(checkpoint_folder)]
    job = _prepare(Options(**vars(train.parser().parse_args(arguments))), "cpu", Processes())
    start = load(checkpoint_folder)
    weights = job.model.state_dict()
    assert all(torch.equal(weights[k], v) for k, v in start.model.state_dict().items())
    assert job.data.tokenizers[0].to_json() == start.source_tokenizer.to_json()
    side = direction.startswith("en")
    assert job.data.tokenizers[0].decode(job.data.train[0][0]) == small.SENTENCES[0][side]


def test_two_vocabularies_cannot_be_turned_round(words_folder):
    start = load(words_folder)
    assert tokenizers_of(start, DE_EN) == (start.source_tokenizer, start.target_tokenizer)
    with pytest.raises(ValueError, match="de-en with two vocabularies: start en-de from"):
        tokenizers_of(start, EN_DE)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--recipe", "tiny"], "has d_model 16, and the recipe 128: choose the recipe"),
        (["--model", "baseline"], "has architecture scratch, and the recipe baseline"),
    ],
)
def test_a_start_of_another_shape_is_refused(data, checkpoint_folder, tmp_path, given, message):
    given = [*given, "--data", data, "--out", tmp_path / "s", "--start-from", checkpoint_folder]
    with pytest.raises(ValueError, match=message):
        run_train(*given)
    assert not (tmp_path / "s").exists()


def test_the_command_says_from_whom_a_network_learned(data, checkpoint_folder, tmp_path):
    other = tmp_path / "other-de-en"
    shutil.copytree(checkpoint_folder, other)
    out = tmp_path / "s"
    trained = ["--start-from", checkpoint_folder, "--teachers", f"{checkpoint_folder},{other}"]
    further = ["--joined", 0.25, "--joined-up-to", 4, "--typed", 0.5]
    run_train("--data", data, "--out", out, "--direction", "en-de", *further, *trained)
    card = read_card(out)
    assert card.training["start"] == "scratch-de-en"
    assert card.training["teachers"] == ["scratch-de-en", "other-de-en"]
    text = (out / "MODEL_CARD.md").read_text()
    assert "started from the weights of `scratch-de-en`" in text
    assert "its translations by `scratch-de-en` and `other-de-en`" in text
    assert (
        "A random 25% of the pairs are shown once more, each concatenated to one to 3 others."
        in text
    )
    assert "A random 50% of the pairs are shown once more, with the source as people" in text
    first, second, own = text.split("```")[1].strip().splitlines()
    assert first.endswith("--direction de-en --seed 1 --out scratch-de-en")
    assert second == first.replace("scratch-de-en", "other-de-en")
    assert own.endswith(
        "--start-from scratch-de-en --teachers scratch-de-en,other-de-en "
        "--joined 0.25 --typed 0.5 --joined-up-to 4 --out s"
    )
    made = [f.read_text().splitlines() for f in (out / "translations").iterdir()]
    assert [len(lines) for lines in made] == [
        len(read_pairs("multi30k", "train", *DE_EN, data))
    ] * 2
    assert json.loads((out / "metrics.json").read_text())["final"]["multi30k"]


def test_a_stranger_whose_training_is_not_told_is_only_begun_with(checkpoint_folder):
    told = read_card(checkpoint_folder)
    for training in ({}, {"recipe": "x", "config": {}}, {"before": ["python -m core.train"]}):
        lines = commands(replace(told, training=training))
        assert lines == training.get("before", [])


def test_a_run_is_not_resumed_from_another_start(data, checkpoint_folder, tmp_path):
    run_train("--data", data, "--out", tmp_path / "s", "--max-steps", 4)
    again = ["--data", data, "--out", tmp_path / "s", "--resume"]
    with pytest.raises(ValueError, match="another run, whose start is None and not"):
        run_train(*again, "--start-from", checkpoint_folder)
