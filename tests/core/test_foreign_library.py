"""Marian and Pegasus networks that transformers itself made and saved, against transformers."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")

from transformers import (
    MarianConfig,
    MarianMTModel,
    PegasusConfig,
    PegasusForConditionalGeneration,
)

from core.benchmarks.hugging_face import convert as to_library
from core.checkpoint.folder import load
from core.config import DecodeConfig
from core.foreign.family import Options
from core.foreign.importing import import_network
from core.foreign.reference import script
from core.search.many import translate_ids
from core.text.tokenizer import SPECIALS
from tests.core.saved_folders import TEXTS, settings, tokenizers, unigram

ROOT = Path(__file__).parents[2]
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
    network.save_pretrained(folder, max_shard_size=changes.pop("shard", "5GB"))
    return folder


@pytest.mark.parametrize("activation", ["relu", "swish"])
@pytest.mark.parametrize("family", CLASSES)
def test_a_random_network_is_the_same_here(family, activation, tmp_path):
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


def agrees_with_the_library(out: Path, folder: Path, family: str) -> None:
    """Compare logits without the converter's comparison: ids are mapped here, by vocab.json."""
    pieces = json.loads((folder / "vocab.json").read_text())
    loaded = load(out)
    ours = [loaded.target_tokenizer.token(id).piece for id in range(loaded.target_tokenizer.size)]
    pad = pieces["<pad>"]
    rows = [{"<bos>": pad, "<eos>": 0, "<unk>": 1}.get(p, pieces.get(p, -1)) for p in ours]
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


def test_a_sharded_network_is_read(tmp_path):
    folder = saved(tmp_path / "theirs", "marian", "swish", shard="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    out = tmp_path / "mine-de-en"
    result = import_network("marian", folder, out, Options(languages=("de", "en")))
    assert result.imported.passed


def test_two_vocabularies_are_read(tmp_path):
    """Newer OPUS-MT networks have separate vocabularies and tables."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    sizes = {}
    for side, file in (("source", "vocab.json"), ("target", "target_vocab.json")):
        model = unigram(TEXTS[side], 50 if side == "source" else 45)
        (folder / f"{side}.spm").write_bytes(model)
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        found = [processor.id_to_piece(id) for id in range(3, processor.get_piece_size())]
        pieces = ["</s>", "<unk>", "<pad>", *found]
        (folder / file).write_text(json.dumps({piece: id for id, piece in enumerate(pieces)}))
        sizes[side] = len(pieces)
    values = settings("marian", sizes["source"], "swish")
    values |= {
        "decoder_vocab_size": sizes["target"],
        "share_encoder_decoder_embeddings": False,
        "pad_token_id": 2,
        "decoder_start_token_id": 2,
    }
    del values["model_type"], values["architectures"]
    torch.manual_seed(1)
    network = MarianMTModel(MarianConfig(**values)).eval()
    network.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text('{"separate_vocabs": true}')
    out = tmp_path / "mine-de-en"
    result = import_network("marian", folder, out, Options(languages=("de", "en")))
    assert result.imported.passed
    config = load(out).card.model
    assert (config.source_vocab_size, config.target_vocab_size) == (
        sizes["source"] + 1,
        sizes["target"] + 1,
    )


def test_the_script_makes_the_same_reference(tmp_path):
    """Where transformers runs elsewhere, the script's file takes the place of the library."""
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


def test_a_trained_network_goes_out_and_back(tmp_path):
    """A shipped network, written as Pegasus by transformers, translates 60 captions as before."""
    shipped = load(ROOT / "checkpoints/captions-de-en")
    theirs = to_library(shipped.model, maps=False)
    theirs.generation_config.max_length = 20
    folder = tmp_path / "theirs"
    folder.mkdir()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            parameter.copy_(in_halves(name, parameter))
    for side in ("encoder", "decoder"):
        theirs.get_submodule(f"model.{side}").embed_positions.weight.data = table_in_halves(theirs)
    theirs.save_pretrained(folder)
    size = shipped.card.model.target_vocab_size
    pieces = {shipped.target_tokenizer.token(id).piece: id for id in range(4, size)}
    specials = dict(zip(("<pad>", "<bos >", "</s>", "<unk>"), range(4), strict=True))
    (folder / "vocab.json").write_text(json.dumps(specials | pieces))
    for side, texts in TEXTS.items():
        (folder / f"{side}.spm").write_bytes(unigram(texts, 60))
    out = tmp_path / "back-de-en"
    result = import_network("pegasus", folder, out, Options(languages=("de", "en")))
    assert {one.what: one.max_abs_diff for one in result.imported.compared}[
        "greedy ids, float32"
    ] == 0
    back = load(out)
    assert tuple(SPECIALS) == ("<pad>", "<bos>", "<eos>", "<unk>")
    captions = (ROOT / "tests/core/captions.de").read_text().splitlines()[:60]
    encoded = [[t.id for t in shipped.source_tokenizer.encode(line)] for line in captions]
    for beam in (1, 5):
        before, after = (
            translate_ids(one.model, encoded, DecodeConfig(beam=beam), "cpu")
            for one in (shipped, back)
        )
        assert [h[0].ids for h in before] == [h[0].ids for h in after]


def halves(width: int) -> np.ndarray:
    """Return, for each of the library's features, ours: the sines are our even features."""
    return np.array([*range(0, width, 2), *range(1, width, 2)])


def in_halves(name: str, value: torch.Tensor) -> torch.Tensor:
    """Reorder the residual stream's features as the library's positions have them."""
    order = halves(value.shape[-1])
    if (
        "embed_positions" in name
        or ("proj.bias" in name and "out" not in name)
        or "fc1.bias" in name
    ):
        return value.clone()
    if "norm" in name or name.endswith(("out_proj.bias", "fc2.bias")):
        return value[order].clone()
    if name.endswith(("out_proj.weight", "fc2.weight")):
        return value[halves(value.shape[0])].clone()
    return value[:, order].clone()


def table_in_halves(theirs) -> torch.Tensor:
    table = theirs.model.encoder.embed_positions.weight
    width = table.shape[1]
    rates = 10_000.0 ** (-np.arange(0, width, 2) / width)
    angles = np.arange(len(table))[:, None] * rates
    return torch.from_numpy(np.hstack((np.sin(angles), np.cos(angles)))).float()
