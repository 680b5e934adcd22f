"""Checkpoint folders: saving, loading, listing, and one-line errors."""

import json
import math
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from safetensors.torch import save as bytes_of

from core.analysis.quality_warnings import quality_warnings
from core.checkpoint.add_checksum import add_checksum
from core.checkpoint.folder import CheckpointError, list_cards, load, read_card, save_metrics
from core.config import DecodeConfig
from core.data.corpora import read_pairs
from core.files import json_bytes
from core.model.transformer import Transformer
from core.translator import Translator
from tests.core import strange_folders
from tests.core.conftest import run_train


@pytest.fixture
def folder(checkpoint_folder, tmp_path):
    """A copy that a test may damage."""
    return shutil.copytree(checkpoint_folder, tmp_path / "scratch-de-en")


def test_saving_and_loading_keeps_the_logits(data, tmp_path, monkeypatch):
    """The loaded network is equivalent to the trained one."""
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
    """The app lists checkpoints before it imports torch."""
    code = (
        "import sys; from pathlib import Path; from core.checkpoint.folder import list_cards;"
        f"cards, _ = list_cards(Path({str(checkpoint_folder.parent)!r}));"
        "assert cards and 'torch' not in sys.modules and 'spacy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unexpected_error_inside_the_loader_is_one_line(folder, monkeypatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError("modulo by\nzero \x1b[2J")

    monkeypatch.setattr("core.checkpoint.folder._build", fail)
    with pytest.raises(CheckpointError, match=r"\(ZeroDivisionError: modulo by zero \[2J\)"):
        load(folder)


@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
def test_weights_may_have_any_plain_file_name_and_either_precision(tmp_path, architecture):
    folder = strange_folders.good(tmp_path / "x-de-en", architecture)
    name = "model-0a1b2c.safetensors"
    (folder / "model.safetensors").rename(folder / name)
    strange_folders.renamed(name)(folder)
    whole = load(folder).model.state_dict()
    halves = {key: value.half() for key, value in load_file(folder / name).items()}
    (folder / name).write_bytes(bytes_of(halves))
    strange_folders.sign(folder)
    for key, value in load(folder).model.state_dict().items():
        expected = whole[key].half().float() if key in halves else whole[key]
        assert torch.equal(value, expected), key


def test_the_hash_of_the_configuration_is_of_its_values(folder):
    """The hash does not depend on the file's layout."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(dict(reversed(config.items()))))
    assert load(folder).card.config_sha256 == config["sha256"]
    (folder / "config.json").write_text(json.dumps(config | {"more": 1}))
    with pytest.raises(CheckpointError, match="values do not match its own SHA-256"):
        load(folder)


def test_the_suggested_command_adds_the_checksum_to_an_older_folder(folder):
    config = json.loads((folder / "config.json").read_text())
    older = {name: value for name, value in config.items() if name != "sha256"}
    (folder / "config.json").write_bytes(json_bytes(older))
    cards, (problem,) = list_cards(folder.parent)
    assert not cards and "has no SHA-256 of its own" in problem
    command = shlex.split(re.search("`python (.*)`", problem)[1])
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    assert config["sha256"][:16] in done.stdout
    assert json.loads((folder / "config.json").read_text()) == config
    assert load(folder).card.parameters == config["parameters"]


def test_a_damaged_folder_gets_no_checksum(folder):
    change = strange_folders.flipped("tokenizer.json", 0.5)
    change(folder)
    before = (folder / "config.json").read_bytes()
    with pytest.raises(CheckpointError, match="SHA-256 differs"):
        add_checksum(folder)
    assert (folder / "config.json").read_bytes() == before


def test_a_hypothesis_that_is_not_finite_is_refused(folder, monkeypatch):
    """Loading decodes a test sentence. NaN is injected, because no valid weights produce it."""
    normal = Transformer.classify
    monkeypatch.setattr(Transformer, "classify", lambda self, x: normal(self, x) * float("nan"))
    with pytest.raises(CheckpointError, match="a test sentence has the log-probability nan"):
        load(folder)


@pytest.mark.parametrize("size", [65_504.0, -65_504.0])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
def test_the_largest_allowed_weights_give_finite_hypotheses(
    tmp_path, architecture, norm_first, size
):
    """All weights have the largest allowed magnitude and a random sign."""
    folder = strange_folders.good(tmp_path / "x-de-en", architecture)
    weights = load_file(folder / "model.safetensors")
    torch.manual_seed(1)
    for value in weights.values():
        value.copy_(size * (1 - 2 * torch.randint(2, value.shape)))
    (folder / "model.safetensors").write_bytes(bytes_of(weights))
    strange_folders.sign(folder)
    strange_folders.network(norm_first=norm_first)(folder)
    translator = Translator.load(folder, "cpu")
    for beam in (1, 5):
        (found,) = translator.translate(["Ein Hund."], DecodeConfig(beam=beam))
        assert math.isfinite(found.log_prob)
    assert translator.inspect("Ein Hund.").log_probs.size


def test_languages_without_a_corpus_are_shown_by_name(folder):
    strange_folders.config(source_language="fr", target_language="yue")(folder)
    (card,), problems = list_cards(folder.parent)
    assert card.direction == "fr-yue" and not problems
    translator = Translator.load(folder, "cpu")
    assert "French → Yue Chinese" in repr(translator)
    record = translator.inspect("Ein Hund.")
    assert (record.source_language, record.target_language) == ("French", "Yue Chinese")
    assert translator.recheck(record).checks == record.checks
    assert quality_warnings(record).language is None
    with pytest.raises(ValueError, match="between German and English, not from French to Yue"):
        read_pairs("multi30k", "val", card.source_language, card.target_language)


BROKEN_METRICS = {
    "not JSON": b"\xff",
    "large": b" " * ((64 << 10) + 1),
    "a name twice": b'{"final": {}, "final": {}}',
    "a score above the limit": b'{"final": {"a": {"sacrebleu": 1.1e15}}}',
    "a name for a terminal": b'{"final": {"\\u001b[2J": {"sacrebleu": 1}}}',
    "many": json.dumps({"final": {str(i): {"sacrebleu": 1} for i in range(200)}}).encode(),
}


@pytest.mark.parametrize("what", [*BROKEN_METRICS, *strange_folders.NOT_FILES])
def test_broken_metrics_cost_only_the_scores(folder, what):
    if what in BROKEN_METRICS:
        (folder / "metrics.json").write_bytes(BROKEN_METRICS[what])
    else:
        strange_folders.replaced("metrics.json", strange_folders.NOT_FILES[what])(folder)
    (card,), problems = list_cards(folder.parent)
    assert card.metrics == {} and not problems
    assert card.note.startswith("No scores: ") and "metrics.json" in card.note
    assert card.note.isprintable()
    assert load(folder).card.note == card.note


@pytest.mark.parametrize("best", [0, 1, 500, 999])
def test_a_curve_that_is_too_long_for_its_file_is_thinned(folder, best):
    (row, *_), final = read_card(folder).metrics["curve"], read_card(folder).metrics["final"]
    curve = [row | {"step": 227 * epoch, "val_loss": 2.0} for epoch in range(1, 1001)]
    curve[best]["val_loss"] = 1.0
    save_metrics(folder, {"curve": curve, "final": final})
    card = read_card(folder)
    assert card.note == "" and card.metrics["final"] == final
    kept = card.metrics["curve"]
    assert 200 < len(kept) < 1000 and kept == [row for row in curve if row in kept]
    assert curve[best] in kept and kept[-1] == curve[-1]
    save_metrics(folder, {"curve": curve[:100], "final": final})
    assert read_card(folder).metrics["curve"] == curve[:100]


def test_a_broken_folder_does_not_hide_the_others(folder, monkeypatch):
    shutil.copytree(folder, folder.parent / "another")
    strange_folders.network(num_heads=0)(folder.parent / "another")
    is_dir = type(folder).is_dir

    def listed(says: str) -> None:
        cards, (problem,) = list_cards(folder.parent)
        assert [card.folder.name for card in cards] == ["scratch-de-en"] and says in problem

    def raising(error: Exception, normal):
        def read(folder):
            if folder.name == "another":
                raise error
            return normal(folder)

        return read

    listed("num_heads is 0, not a whole number from 1 to 128")
    with monkeypatch.context() as patched:
        denied = PermissionError(13, "Permission denied")
        patched.setattr(type(folder), "is_dir", raising(denied, is_dir))
        listed("Permission denied")
    broken = raising(ZeroDivisionError("modulo by\nzero"), read_card)
    monkeypatch.setattr("core.checkpoint.folder.read_card", broken)
    listed("ZeroDivisionError: modulo by zero")


@pytest.mark.parametrize("name", ["\x1b[2Jx-de-en", "x" * 101, "a\nb-de-en", "\udcff-de-en"])
def test_folder_names_must_be_short_and_printable(folder, name):
    shutil.copytree(folder, folder.parent / name)
    cards, (problem,) = list_cards(folder.parent)
    assert [card.folder.name for card in cards] == ["scratch-de-en"]
    assert problem.isprintable() and problem.endswith("rename the folder")
