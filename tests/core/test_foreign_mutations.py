"""Folders of T5, BART, mBART, M2M100 and FSMT with a random mistake: one line, or a sound import.

No folder needs transformers: its tensors are random, under the names of the family.
"""

import json
import random
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from core.checkpoint.folder import load
from core.config import ModelConfig
from core.foreign import importing
from core.foreign.family import Options
from core.foreign.hugging_face import FSMT_NAMES, NAMES
from core.model.shapes import weight_shapes
from tests import tokenizer_folders
from tests.core.library_networks import NETWORKS, codes, sizes_of

FAMILIES = ("bart", "mbart", "m2m100", "fsmt", "t5")
COUNT = 40
"""Mutated folders of each family; 500 were run when the families were added."""

VALUES: tuple[Any, ...] = (
    None,
    -1,
    0,
    1,
    3,
    2**40,
    1e300,
    "x",
    "",
    [],
    {},
    True,
    False,
    [1],
    {"a": 1},
)


def settings(family: str, folder: Path) -> dict[str, Any]:
    """Return config.json as the library writes it."""
    own = {name: value for name, value in NETWORKS[family][3].items() if value is not None}
    types = {"m2m100": "m2m_100"}
    usual = {"model_type": types.get(family, family), "is_encoder_decoder": True}
    first, second = sizes_of(folder, family)
    if family == "t5":
        return usual | {"pad_token_id": 0, "eos_token_id": 1, "vocab_size": first} | own
    usual["activation_function"] = "relu"
    if family == "fsmt":
        return usual | {"src_vocab_size": first, "tgt_vocab_size": second} | own
    return usual | {"vocab_size": first} | own


def write(folder: Path, family: str) -> Path:
    """Write a complete folder with random tensors."""
    tokenizer_folders.write(folder, family)
    values = settings(family, folder)
    tensors = {}
    for name, shape in shapes(family, values).items():
        tensors[name] = torch.randn(shape) * 0.1
    safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(values))
    return folder


def shapes(family: str, values: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the original's tensors by their names."""
    if family == "t5":
        return _shapes_of_t5(values)
    source = values.get("vocab_size", values.get("src_vocab_size"))
    target = values.get("vocab_size", values.get("tgt_vocab_size"))
    config = ModelConfig(
        source_vocab_size=source,
        target_vocab_size=target,
        d_model=values["d_model"],
        num_heads=values["encoder_attention_heads"],
        num_encoder_layers=values["encoder_layers"],
        num_decoder_layers=values["decoder_layers"],
        dim_feedforward=values["encoder_ffn_dim"],
        decoder_feedforward=values["decoder_ffn_dim"],
        final_norm=family in ("mbart", "m2m100"),
        learned_positions=family in ("bart", "mbart"),
        embedding_norm=family in ("bart", "mbart"),
        max_length=values["max_position_embeddings"],
        share_embeddings=family != "fsmt",
        tie_classifier=True,
    )
    names, found = FSMT_NAMES if family == "fsmt" else NAMES, {}
    for ours, shape in weight_shapes("scratch", config).items():
        rows = shape[0] + 2 if "positions" in ours else shape[0]
        found[names.theirs(ours)[0]] = (rows, *shape[1:])
    return found | ({"final_logits_bias": (1, target)} if family in ("bart", "mbart") else {})


def _shapes_of_t5(values: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    width, inner = values["num_heads"] * values["d_kv"], values["d_ff"]
    D, found = values["d_model"], {"shared.weight": (values["vocab_size"], values["d_model"])}
    for side, layers, last in (("encoder", "num_layers", 1), ("decoder", "num_decoder_layers", 2)):
        found[f"{side}.final_layer_norm.weight"] = (D,)
        for i in range(values[layers]):
            at = f"{side}.block.{i}.layer"
            for n, kind in enumerate(("SelfAttention", "EncDecAttention")[:last]):
                found |= {f"{at}.{n}.{kind}.{name}.weight": (width, D) for name in "qkv"}
                found[f"{at}.{n}.{kind}.o.weight"] = (D, width)
            found |= {f"{at}.{n}.layer_norm.weight": (D,) for n in range(last + 1)}
            found[f"{at}.{last}.DenseReluDense.wi.weight"] = (inner, D)
            found[f"{at}.{last}.DenseReluDense.wo.weight"] = (D, inner)
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        found[bias] = values["relative_attention_num_buckets"], values["num_heads"]
    return found


def mutate(folder: Path, draw: random.Random) -> str:
    """Make one mistake in a random file; return what it was."""
    file = draw.choice(sorted(folder.iterdir()))
    if file.name == "config.json" or (file.suffix == ".json" and draw.random() < 0.5):
        return _mutate_json(file, draw)
    if file.suffix == ".safetensors" and draw.random() < 0.7:
        return _mutate_tensors(file, draw)
    content = bytearray(file.read_bytes())
    how = draw.choice(("cut", "bytes", "empty", "gone", "header"))
    if how == "gone":
        file.unlink()
    elif how == "header" and len(content) > 8:
        content[:8] = struct.pack("<Q", draw.choice((0, 1, 7, 2**20, 2**62)))
    elif how == "cut":
        del content[draw.randrange(len(content) + 1) :]
    elif how == "bytes":
        for _ in range(draw.randint(1, 20)):
            content[draw.randrange(min(len(content), 4_000))] = draw.randrange(256)
    else:
        content.clear()
    if how != "gone":
        file.write_bytes(content)
    return f"{file.name}: {how}"


def _mutate_json(file: Path, draw: random.Random) -> str:
    values = json.loads(file.read_text())
    name = draw.choice([*values, "new"])
    how = draw.choice(("without", "value", "other name"))
    before = values.pop(name, 5)
    if how == "value":
        values[name] = draw.choice(VALUES)
    elif how == "other name":
        values[draw.choice([*values, "\x1b[31m", "x" * 300])] = before
    file.write_text(json.dumps(values))
    return f"{file.name}: {how} {name}"


def _mutate_tensors(file: Path, draw: random.Random) -> str:
    state = safetensors.torch.load_file(file)
    name = draw.choice(sorted(state))
    how = draw.choice(("without", "flat", "wide", "whole", "nan", "huge", "renamed", "more"))
    tensor = state.pop(name)
    changed = {
        "flat": lambda: tensor.flatten(),
        "wide": lambda: torch.cat((tensor, tensor), -1),
        "whole": lambda: tensor.long(),
        "nan": lambda: tensor * float("nan"),
        "huge": lambda: tensor.abs() + 1e6,
        "more": lambda: tensor,
    }
    if how in changed:
        state[name] = changed[how]().contiguous()
    if how in ("renamed", "more"):
        state[draw.choice(("x", name + ".1", "encoder." + name, "\u202e"))] = tensor.clone()
    safetensors.torch.save_file(state, file)
    return f"{file.name}: {how} {name}"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_mistake_is_one_line_or_harmless(family, tmp_path, monkeypatch):
    def not_installed(*_: Any) -> None:
        raise ImportError

    monkeypatch.setattr(importing, "from_library", not_installed)
    right, draw, refused = write(tmp_path / "right", family), random.Random(family), 0
    options = Options(("de", "en"), **codes(family))
    importing.import_network(family, right, tmp_path / "right-de-en", options)
    for number in range(COUNT):
        folder, out = tmp_path / f"n{number}", tmp_path / f"n{number}-de-en"
        shutil.copytree(right, folder)
        what = mutate(folder, draw)
        try:
            importing.import_network(family, folder, out, options)
        except ValueError as error:
            text = str(error)
            assert text.isprintable() and 20 < len(text) < 1_500, (what, text)
            assert not out.exists() and not list(tmp_path.glob(".*")), what
            refused += 1
        else:
            load(out)  # a mistake that changes nothing, such as another dropout
            shutil.rmtree(out)
        shutil.rmtree(folder)
    assert refused > COUNT / 3
