"""The only reader and writer of checkpoint folders: safetensors, JSON, and nothing else.

A folder holds model.safetensors, config.json, tokenizer.json (or one tokenizer file a side),
metrics.json and MODEL_CARD.md; head_means.py beside this file adds one that nothing else depends
on. The rename of config.json is the one moment in which a save becomes valid: until its other files
have taken their plain names they are found under the hash of that config.json, such as
model-0123456789ab.safetensors, so that a killed save is wholly old or wholly new to whoever reads.
No pickle is ever read. torch is imported inside the functions that need it, so that a page can
list checkpoints before it is loaded.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.checkpoint.configuration import FORMAT, Configuration, own_sha256, read_configuration
from core.checkpoint.errors import CheckpointError, about, again, unusable
from core.checkpoint.header import check_range
from core.checkpoint.metrics import metrics_bytes, read_metrics
from core.checkpoint.validate import Parts, read_parts
from core.config import ModelConfig
from core.files import (
    finish_commit,
    json_bytes,
    printable,
    sha256,
    write_atomic,
    write_transaction,
)

if TYPE_CHECKING:
    from core.model.build import Model
    from core.text.tokenizer import Tokenizer

TWIN = "-twin"
"""What a name ends with that stands for a network's weights in the other implementation."""

_LONGEST_NAME = 100  # of a folder, in characters


@dataclass(frozen=True)
class Card:
    """What can be said of a checkpoint without loading its weights."""

    folder: Path
    architecture: str
    source_language: str
    target_language: str
    model: ModelConfig
    parameters: int
    training: dict[str, Any]
    metrics: dict[str, Any]
    weights_sha256: str
    config_sha256: str
    note: str = ""  # a line on what of the folder cannot be used, though the network can

    @property
    def direction(self) -> str:
        return f"{self.source_language}-{self.target_language}"

    @property
    def name(self) -> str:
        """What lists and links call it: the folder's name without the direction."""
        return self.folder.name.removesuffix(f"-{self.direction}")


@dataclass(frozen=True)
class Checkpoint:
    """A loaded network with its tokenizers; the network is in evaluation mode."""

    card: Card
    model: Model
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer


def save(
    folder: Path,
    model: Model,
    architecture: str,
    languages: tuple[str, str],
    tokenizers: tuple[Tokenizer, Tokenizer],
    training: dict[str, Any],
    metrics: dict[str, Any],
    half_precision: bool = False,
) -> None:
    """Write a checkpoint folder, all or nothing: config.json, which names the hashes, decides.

    With `half_precision` the weights are rounded to float16; loaded, they are float32 again.
    """
    from safetensors.torch import save as to_bytes

    tensors = {name: p.detach().cpu().contiguous() for name, p in model.named_parameters()}
    if half_precision:
        tensors = {name: tensor.half() for name, tensor in tensors.items()}
    files = {"model.safetensors": to_bytes(tensors)}
    source, target = tokenizers
    names = {"source": "tokenizer.json", "target": "tokenizer.json"}
    if source is not target:
        names = {"source": "tokenizer.source.json", "target": "tokenizer.target.json"}
    for side, tokenizer in (("source", source), ("target", target)):
        text = json.dumps(tokenizer.to_json(), ensure_ascii=False, separators=(",", ":"))
        files[names[side]] = text.encode()
    config = {
        "format": FORMAT,
        "architecture": architecture,
        "source_language": languages[0],
        "target_language": languages[1],
        "parameters": sum(p.numel() for p in model.parameters()),
        "model": model.config.to_json(),
        "training": training,
        "tokenizers": names,
        "files": {
            name: {"bytes": len(content), "sha256": sha256(content)}
            for name, content in files.items()
        },
    }
    config["sha256"] = own_sha256(config)
    files |= {"metrics.json": metrics_bytes(metrics), "config.json": json_bytes(config)}
    write_transaction(folder, files, manifest="config.json")


def save_metrics(folder: Path, metrics: dict[str, Any]) -> None:
    """Write new metrics beside a checkpoint, or where there is none yet."""
    finish_commit(folder, "config.json")  # or older ones that still wait would replace these
    write_atomic(folder / "metrics.json", metrics_bytes(metrics))


def read_card(folder: Path) -> Card:
    """Read config.json and metrics.json. Raises CheckpointError; for the latter it is a note."""
    return _card(folder, read_configuration(folder))


def _card(folder: Path, config: Configuration) -> Card:
    metrics, note = read_metrics(folder)
    return Card(
        folder=folder,
        architecture=config.architecture,
        source_language=config.source_language,
        target_language=config.target_language,
        model=config.model,
        parameters=config.parameters,
        training=config.training,
        metrics=metrics,
        weights_sha256=config.weights.sha256,
        config_sha256=config.sha256,
        note=note,
    )


def list_cards(root: Path) -> tuple[list[Card], list[str]]:
    """All usable checkpoints below `root`, by name, and one line for each other folder.

    No folder, whatever it holds, keeps the others from being listed.
    """
    cards, problems = [], []
    for folder in sorted(root.glob("*")):
        try:
            if not folder.is_dir():
                continue
            if printable(folder.name) != folder.name or len(folder.name) > _LONGEST_NAME:
                raise CheckpointError(
                    f"{printable(str(folder))[:200]} has a name with control characters, or of "
                    f"more than {_LONGEST_NAME}: rename the folder"
                )
            card = read_card(folder)
            if card.name.casefold().endswith(TWIN):
                raise CheckpointError(
                    f"{printable(str(folder))} has a name that ends with {TWIN}, which stands for "
                    "a network in its other implementation: rename the folder"
                )
            cards.append(card)
        except CheckpointError as error:
            problems.append(str(error))
        except Exception as error:
            problems.append(str(_unforeseen(folder, error)))
    named = {card.folder.name for card in cards}
    for card in list(cards):  # `scratch` would be listed in the place of `scratch-de-en`
        other = f"{card.name}-{card.direction}"
        if card.folder.name != other and other in named:
            cards.remove(card)
            problems.append(
                f"{printable(str(card.folder))} would be listed as {printable(other)}, which is "
                "another folder: rename one of them"
            )
    return cards, problems


def load(folder: Path | str, device: str = "cpu", sealed: bool = True) -> Checkpoint:
    """Verify and load a checkpoint folder onto a device. Raises CheckpointError and nothing else.

    core.checkpoint.validate checks everything that needs no torch before torch is imported. Then
    every weight must be finite and within float16's range, which keeps all activations far below
    the largest float32, and one sentence is translated. Only core.checkpoint.add_checksum passes
    `sealed=False`: config.json then needs no hash of itself.
    """
    folder = Path(folder)
    try:
        config = read_configuration(folder, sealed)
        parts = read_parts(folder, config)
        return _built(_card(folder, config), config, parts, device)
    except CheckpointError:
        raise
    except Exception as error:  # hashes match, so this is a wrong file rather than a broken one
        raise _unforeseen(folder, error) from None


def _unforeseen(folder: Path, error: Exception) -> CheckpointError:
    return unusable(folder, f"{type(error).__name__}: {error}", again(folder))


def _built(card: Card, config: Configuration, parts: Parts, device: str) -> Checkpoint:
    import torch
    from safetensors.torch import load as from_bytes

    from core.accelerate.network import accelerate
    from core.checkpoint.smoke_test import try_out
    from core.device import torch_defaults
    from core.model.build import build
    from core.text import load as load_tokenizer

    tensors = from_bytes(parts.weights)
    with about(card.folder / config.weights.name):
        for name, tensor in tensors.items():
            check_range(name, tensor)
    with torch_defaults(device), torch.no_grad():
        model = build(card.architecture, card.model)
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[name])
    source = target = load_tokenizer(parts.source_tokenizer)
    if parts.target_tokenizer is not parts.source_tokenizer:
        target = load_tokenizer(parts.target_tokenizer)
    model = model.to(device, torch.float32).eval()  # whatever torch's default type is
    accelerate(model)
    with torch_defaults(device):
        try_out(model, source, target, device)
    return Checkpoint(card, model, source, target)
