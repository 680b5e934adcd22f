"""Checkpoint folders: what was saved is loaded, and whatever is wrong is one clear line."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from core.checkpoint import CheckpointError, list_cards, load, read_card
from core.files import sha256, write_json
from tests.core.conftest import run_train


@pytest.fixture
def folder(checkpoint_folder, tmp_path):
    """A copy that a test may damage."""
    return shutil.copytree(checkpoint_folder, tmp_path / "scratch-de-en")


def resign(folder, **changes) -> None:
    """Make config.json agree with the files again, so that only the content can be at fault."""
    config = json.loads((folder / "config.json").read_text())
    config.update(changes)
    for name in config["files"]:
        content = (folder / name).read_bytes()
        config["files"][name] = {"bytes": len(content), "sha256": sha256(content)}
    write_json(folder / "config.json", config)


def refuse(folder, *words: str) -> None:
    """Loading fails with one line that holds these words and says what to do."""
    with pytest.raises(CheckpointError) as caught:
        load(folder)
    message = str(caught.value)
    assert "\n" not in message and "make train" in message
    for word in words:
        assert word in message, message


def test_the_same_logits_before_and_after(data, tmp_path, monkeypatch):
    """The network that was trained and the one that is loaded are the same function."""
    import core.train

    built = []

    def spy(*arguments):
        built.append(core.model.interface.build(*arguments))
        return built[-1]

    monkeypatch.setattr(core.train, "build", spy)
    run_train("--data", data, "--out", tmp_path / "x", "--max-steps", 4)
    loaded = load(tmp_path / "x").model
    source, target = torch.tensor([[5, 6, 7, 2]]), torch.tensor([[1, 8, 9]])
    assert torch.equal(loaded(source, target), built[0].eval()(source, target))
    assert not loaded.training


def test_cards_are_read_without_torch(checkpoint_folder):
    """The page's frame lists checkpoints before anything heavy is imported."""
    import subprocess
    import sys

    code = (
        "import sys; from pathlib import Path; from core.checkpoint import list_cards;"
        f"cards, _ = list_cards(Path({str(checkpoint_folder.parent)!r}));"
        "assert cards and 'torch' not in sys.modules and 'spacy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    refuse(folder, name, "missing")


def test_a_missing_folder_is_named(tmp_path):
    refuse(tmp_path / "nowhere", "nowhere", "missing")


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_one_flipped_bit_is_noticed(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    refuse(folder, name, "SHA-256")


def test_a_cut_file_is_noticed(folder):
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-7])
    refuse(folder, "model.safetensors", f"expected {len(content):,}")


def change_weights(folder, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    resign(folder)


def test_values_that_are_no_numbers_are_refused(folder):
    change_weights(folder, lambda t: t["encoder_norm.weight"].fill_(float("nan")))
    refuse(folder, "encoder_norm.weight", "finite")


def test_missing_and_unexpected_weights_are_named(folder):
    change_weights(folder, lambda t: t.update(extra=t.pop("encoder_norm.bias")))
    refuse(folder, "encoder_norm.bias", "extra")


def test_a_wrong_shape_is_named(folder):
    change_weights(folder, lambda t: t.update({"encoder_norm.bias": torch.zeros(3)}))
    refuse(folder, "encoder_norm.bias", "[3]", "[16]")


def test_a_pickle_under_a_safe_name_is_refused(folder):
    (folder / "model.safetensors").write_bytes(b"\x80\x04cos\nsystem\n.")
    resign(folder)
    refuse(folder)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"format": 2}', '{"format": 1}', '{"format": 1, "files": 3}']
)
def test_a_config_that_is_none_is_refused(folder, text):
    (folder / "config.json").write_text(text)
    refuse(folder, "config.json")


@pytest.mark.parametrize(
    "changes",
    [
        dict(files={"../model.safetensors": {}}),
        dict(parameters=10**12),
        dict(architecture="lstm"),
        dict(model={"d_model": 16}),
    ],
    ids=str,
)
def test_a_config_that_asks_for_something_else_is_refused(folder, changes):
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", {**config, **changes})
    refuse(folder)


def test_a_vocabulary_of_another_size_is_refused(folder):
    values = json.loads((folder / "tokenizer.json").read_text())
    last = max(values["vocabulary"], key=values["vocabulary"].get)
    values["merges"] = [m for m in values["merges"] if "".join(m) != last]
    del values["vocabulary"][last]
    write_json(folder / "tokenizer.json", values)
    resign(folder)
    refuse(folder, "vocabularies")


def test_good_folders_are_listed_beside_bad_ones(folder):
    (folder.parent / "broken").mkdir()
    cards, problems = list_cards(folder.parent)
    assert [card.folder.name for card in cards] == ["scratch-de-en"]
    assert len(problems) == 1 and "broken" in problems[0]
    assert read_card(folder).parameters == sum(p.numel() for p in load(folder).model.parameters())
