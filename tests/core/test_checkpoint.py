"""Checkpoint folders: what was saved is loaded, and whatever is wrong is one clear line."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from core.checkpoint.folder import CheckpointError, list_cards, load, read_card
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
    assert "\n" not in message and f"git checkout -- {folder}" in message
    for word in words:
        assert word in message, message


def test_the_same_logits_before_and_after(data, tmp_path, monkeypatch):
    """The network that was trained and the one that is loaded are the same function."""
    import core.training.job

    built = []

    def spy(*arguments):
        built.append(core.model.build.build(*arguments))
        return built[-1]

    monkeypatch.setattr(core.training.job, "build", spy)
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
        "import sys; from pathlib import Path; from core.checkpoint.folder import list_cards;"
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
        dict(files={"model.safetensors": {}, "tokenizer.json": {}}),
        dict(files={"model.safetensors": None, "tokenizer.json": None}),
        dict(tokenizers={"source": "tokenizer.json"}),
        dict(architecture="lstm"),
        dict(architecture=[]),
        dict(model={"d_model": 16}),
        dict(model=[]),
        dict(training=None),
    ],
    ids=str,
)
def test_a_config_that_asks_for_something_else_is_refused(folder, changes):
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", {**config, **changes})
    refuse(folder)
    assert list_cards(folder.parent)[0] == []


def change_model(folder, **changes) -> None:
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", {**config, "model": {**config["model"], **changes}})


@pytest.mark.parametrize(
    "changes",
    [
        dict(num_heads=0),
        dict(max_length=400_000),
        dict(num_encoder_layers=100_000),
        dict(dropout=1),
        dict(layer_norm_eps=float("nan")),
    ],
    ids=str,
)
def test_a_network_out_of_range_is_refused_by_name(folder, changes):
    config = json.loads((folder / "config.json").read_text())
    config["model"] |= changes
    (folder / "config.json").write_text(json.dumps(config))  # NaN too
    refuse(folder, *changes, "out of range")


def test_parameters_are_counted_and_not_believed(folder, monkeypatch):
    """Neither too many that are claimed to be few, nor few that are claimed to be more."""
    true = read_card(folder).parameters
    change_model(folder, dim_feedforward=100_000)
    refuse(folder, "parameters", f"not the {true:,} that it claims")
    change_model(folder, dim_feedforward=32)
    write_config(folder, parameters=true + 1)
    refuse(folder, f"a network of {true:,} parameters")
    write_config(folder, parameters=true)
    monkeypatch.setattr("core.checkpoint.folder._MAX_PARAMETERS", true - 1)
    refuse(folder, f"{true:,} parameters, the limit is {true - 1:,}")


def write_config(folder, **changes) -> None:
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", {**config, **changes})


def test_a_file_is_not_read_that_is_larger_than_the_network_needs(folder, monkeypatch):
    weights = folder / "model.safetensors"
    with weights.open("r+b") as stream:
        stream.truncate(1 << 30)  # a hole: it takes no room
    config = json.loads((folder / "config.json").read_text())
    config["files"]["model.safetensors"]["bytes"] = 1 << 30
    write_json(folder / "config.json", config)
    monkeypatch.setattr("core.checkpoint.folder.sha256", None)  # nothing is hashed
    refuse(folder, "model.safetensors", "the limit for this network")


@pytest.mark.parametrize("language", ["fr", "", {}, None, 3])
def test_a_language_that_nobody_knows_is_refused(folder, language):
    """The app has no examples for it, and a record would have no name for it."""
    write_config(folder, source_language=language)
    for read in (read_card, load):
        with pytest.raises(CheckpointError, match="use a checkpoint between de and en"):
            read(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b"[" * 100_000),
        ("metrics.json", b"[" * 100_000),
        ("metrics.json", b"[]"),
        ("metrics.json", b'{"final": []}'),
        ("metrics.json", b"\xff"),
        ("metrics.json", b" " * (9 << 20)),
    ],
    ids=lambda value: value if isinstance(value, str) else value[:12],
)
def test_a_file_that_cannot_be_read_is_named(folder, name, content):
    (folder / name).write_bytes(content)
    refuse(folder, name)


def test_no_folder_keeps_the_others_from_being_listed(folder, monkeypatch):
    """Whatever is raised by one, expected or not."""
    shutil.copytree(folder, folder.parent / "another")
    change_model(folder.parent / "another", num_heads=0)
    cards, problems = list_cards(folder.parent)
    assert [card.folder.name for card in cards] == ["scratch-de-en"]
    assert len(problems) == 1 and "num_heads 0 is out of range" in problems[0]

    def read(folder):
        if folder.name == "another":
            raise ZeroDivisionError("modulo by\nzero")
        return read_card(folder)

    monkeypatch.setattr("core.checkpoint.folder.read_card", read)
    cards, problems = list_cards(folder.parent)
    assert [card.folder.name for card in cards] == ["scratch-de-en"]
    assert len(problems) == 1 and "ZeroDivisionError: modulo by zero" in problems[0]


def test_what_a_stranger_wrote_reaches_a_terminal_as_text(folder):
    change_weights(folder, lambda t: t.update({"\x1b]0;hello\x07": torch.zeros(1)}))
    with pytest.raises(CheckpointError) as caught:
        load(folder)
    assert str(caught.value).isprintable()


def test_a_vocabulary_of_another_size_is_refused(folder):
    values = json.loads((folder / "tokenizer.json").read_text())
    last = max(values["vocabulary"], key=values["vocabulary"].get)
    values["merges"] = [m for m in values["merges"] if "".join(m) != last]
    del values["vocabulary"][last]
    write_json(folder / "tokenizer.json", values)
    resign(folder)
    refuse(folder, "vocabularies")


def test_a_vocabulary_with_a_gap_in_its_ids_is_refused(folder):
    """A network may write any id that it has a row for: none may be without a token."""
    values = json.loads((folder / "tokenizer.json").read_text())
    last = max(values["vocabulary"], key=values["vocabulary"].get)
    values["vocabulary"][last] += 1
    write_json(folder / "tokenizer.json", values)
    resign(folder)
    refuse(folder, "without a gap")


def test_good_folders_are_listed_beside_bad_ones(folder):
    (folder.parent / "broken").mkdir()
    cards, problems = list_cards(folder.parent)
    assert [card.folder.name for card in cards] == ["scratch-de-en"]
    assert len(problems) == 1 and "broken" in problems[0]
    assert read_card(folder).parameters == sum(p.numel() for p in load(folder).model.parameters())
