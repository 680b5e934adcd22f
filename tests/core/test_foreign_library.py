"""Networks that transformers made and saved give transformers' numbers after conversion."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

pytest.importorskip("transformers")

from transformers import (
    MarianConfig,
    MarianMTModel,
    PegasusConfig,
    PegasusForConditionalGeneration,
)

from core.checkpoint.folder import load
from core.foreign.family import Options
from core.foreign.importing import import_network
from core.foreign.reference import script
from tests.core.saved_folders import TEXTS, settings, tokenizers

CLASSES = {
    "marian": (MarianConfig, MarianMTModel),
    "pegasus": (PegasusConfig, PegasusForConditionalGeneration),
}


def saved(folder: Path, family: str, activation: str, **changes) -> Path:
    """Let transformers make and save a network whose parameters all differ from 0 and 1."""
    folder.mkdir()
    size = len(tokenizers(folder))
    values = settings(family, size, activation, **changes)
    del values["model_type"], values["architectures"]
    kind, model = CLASSES[family]
    torch.manual_seed(11)
    network = model(kind(**values)).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
        network.final_logits_bias.normal_()
    network.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("activation", ["relu", "swish"])
@pytest.mark.parametrize("family", CLASSES)
def test_a_random_network_gives_the_originals_numbers(family, activation, tmp_path):
    folder = saved(tmp_path / "theirs", family, activation)
    out = tmp_path / "mine-de-en"
    result = import_network(family, folder, out, Options(languages=("de", "en")))
    compared = {one.what: one for one in result.imported.compared}
    for what in ("attention maps", "logits", "log-probabilities", "logits of single steps"):
        assert compared[f"{what}, float64"].max_abs_diff < 1e-12
        assert compared[f"{what}, float32"].max_abs_diff < 1e-4
    for what in ("greedy ids, float64", "greedy ids, float32", "tokens of 200 source lines"):
        assert compared[what].max_abs_diff == 0
    assert result.imported.not_proven == ()
    agrees_with_the_library(out, folder, family)


@pytest.mark.parametrize("family", CLASSES)
def test_half_precision_rounds_no_sines(family, tmp_path):
    folder = saved(tmp_path / "theirs", family, "relu")
    file = folder / "model.safetensors"
    kept = {n: x.half() for n, x in load_file(file).items() if "embed_positions" not in n}
    save_file(kept, file, {"format": "pt"})
    result = import_network(family, folder, tmp_path / "mine-de-en", Options(("de", "en")))
    compared = {one.what: one.max_abs_diff for one in result.imported.compared}
    assert compared["logits, float64"] < 1e-12 and compared["positions"] < 1e-6


def agrees_with_the_library(out: Path, folder: Path, family: str) -> None:
    """Compare logits without the converter's comparison: ids are mapped here, by vocab.json."""
    pieces = json.loads((folder / "vocab.json").read_text())
    loaded = load(out)
    ours = [loaded.target_tokenizer.token(id).piece for id in range(loaded.target_tokenizer.size)]
    pad = pieces["<pad>"]
    special = {"<pad>": -1, "<bos>": pad, "<eos>": 0, "<unk>": 1}
    rows = [special.get(piece, pieces.get(piece)) for piece in ours]
    theirs = CLASSES[family][1].from_pretrained(folder).eval()
    draw = torch.Generator().manual_seed(2)
    source, target = (torch.randint(4, len(ours), (3, 9), generator=draw) for _ in range(2))
    source[:, -1], target[:, 0] = 2, 1
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor(rows)[source], decoder_input_ids=torch.tensor(rows)[target]
        ).logits
        got = loaded.model(source, target)
    assert rows[0] == -1 and (got[..., 0] < -9_000).all()
    assert torch.allclose(got[..., 1:], expected[..., rows[1:]], atol=2e-5)


def test_a_folder_that_the_library_cannot_run_is_named(tmp_path):
    folder = saved(tmp_path / "theirs", "marian", "swish")
    (folder / "tokenizer_config.json").write_text('{"eos_token": [1]}')
    with pytest.raises(ValueError, match="transformers cannot run .*theirs .*--reference") as error:
        import_network("marian", folder, tmp_path / "x-de-en", Options(languages=("de", "en")))
    assert "\n" not in str(error.value)


def test_the_script_gives_the_same_differences_as_the_library(tmp_path):
    """A file that the script wrote, perhaps on another machine, takes transformers' place."""
    folder = saved(tmp_path / "theirs", "marian", "swish")
    (tmp_path / "make.py").write_text(script("marian"))
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS["source"]))
    subprocess.run(
        [sys.executable, "make.py", str(folder), "lines.txt"], cwd=tmp_path, check=True, timeout=300
    )
    given = import_network(
        "marian",
        folder,
        tmp_path / "a-de-en",
        Options(languages=("de", "en")),
        tmp_path / "reference.npz",
    )
    found = import_network("marian", folder, tmp_path / "b-de-en", Options(languages=("de", "en")))
    differences = [
        {one.what: one.max_abs_diff for one in result.imported.compared if "tokens" not in one.what}
        for result in (given, found)
    ]
    assert differences[0] == differences[1] and len(differences[0]) == 11
