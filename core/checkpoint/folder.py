"""Read and write checkpoint folders: safetensors and JSON only, never pickle.

A folder holds model.safetensors, config.json, tokenizer.json (or one per side), metrics.json,
MODEL_CARD.md and optionally head_means.safetensors (core.checkpoint.head_means), history.npz
(core.record.attention_snapshots) and atlas.npz (core.atlas.atlas).

Saving is atomic. The new files are first written under names with the hash of the new config.json,
such as model-0123456789ab.safetensors. Renaming config.json commits the save; then the other files
get their plain names. torch is imported only where it is needed, so that checkpoints can be listed
without it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from core.checkpoint.configuration import (
    FILE,
    FORMAT,
    Configuration,
    own_sha256,
    read_configuration,
)
from core.checkpoint.errors import CheckpointError, checkpoint_errors, restore_hint, unusable
from core.checkpoint.header import check_range
from core.checkpoint.imported import Imported
from core.checkpoint.metrics import metrics_bytes, read_metrics
from core.checkpoint.validate import VerifiedFiles, read_verified
from core.data.corpora import LANGUAGES
from core.files import (
    content_size,
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
"""Suffix of a model's name that selects the same weights in the other implementation."""

_MAX_NAME = 100  # characters of a folder's name

Spoken = tuple[str | None, str | None, str | None]
"""What `between` was given: the languages' codes and the prefix; None is the network's own."""


@dataclass(frozen=True)
class Card(Configuration):
    """A checkpoint's metadata, readable without its weights."""

    folder: Path
    metrics: dict[str, Any]
    note: str = ""  # why the metrics cannot be used, although the network can
    spoken: Spoken = (None, None, None)
    listed: str = ""  # the folder's direction, where `between` chose other languages

    @property
    def weights_sha256(self) -> str:
        return self.weights.sha256

    @property
    def config_sha256(self) -> str:
        return self.sha256

    @property
    def direction(self) -> str:
        """The direction in lists and links, which is the folder's own."""
        return self.listed or f"{self.source_language}-{self.target_language}"

    @property
    def name(self) -> str:
        """The name in lists and links: the folder's name without the direction."""
        return self.folder.name.removesuffix(f"-{self.direction}")

    @property
    def imported(self) -> Imported | None:
        """Where imported weights come from; None for a network that was trained here."""
        values = self.training.get("imported")
        return None if values is None else Imported.from_json(values)

    @property
    def credit(self) -> str:
        """Author and licence of imported weights, to be shown with the name; "" if trained here."""
        return "" if self.imported is None else self.imported.credit

    @property
    def title(self) -> str:
        """The folder's name, followed by the credit of imported weights in parentheses."""
        return f"{self.folder.name} ({self.credit})" if self.credit else self.folder.name

    def between(
        self, source: str | None = None, target: str | None = None, prefix: str | None = None
    ) -> Self:
        """Return the card of this network for other languages; None keeps what it has."""
        if source is target is prefix is None:
            return self
        given = zip((source, target, prefix), self.spoken, strict=True)
        return replace(
            self,
            source_language=language_of(source) if source else self.source_language,
            target_language=language_of(target) if target else self.target_language,
            spoken=tuple(old if new is None else new for new, old in given),
            listed=self.direction,
        )


@dataclass(frozen=True)
class Checkpoint:
    """A loaded network in evaluation mode, with its tokenizers."""

    card: Card
    model: Model
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer

    def between(
        self, source: str | None = None, target: str | None = None, prefix: str | None = None
    ) -> Checkpoint:
        """Return this network for other languages, by their codes, or for another prefix.

        None keeps what it has. The card names the languages. Raises ValueError for an unknown code.
        """
        first, second = self.source_tokenizer, self.target_tokenizer
        changed = first.between(source, target, prefix)
        return replace(
            self,
            card=self.card.between(source, target, prefix),
            source_tokenizer=changed,
            target_tokenizer=changed if first is second else second.between(source, target, prefix),
        )


def language_of(code: str) -> str:
    """Return a code's language without its region or script: de of de_DE and of deu_Latn."""
    language = re.split("[_-]", code)[0]
    name = LANGUAGES[language]
    return next((known for known in LANGUAGES if LANGUAGES[known] == name), language)


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
    """Write a checkpoint folder atomically.

    `half_precision` rounds the weights to float16; they are loaded as float32.
    """
    source, target = tokenizers
    names = {"source": "tokenizer.json", "target": "tokenizer.json"}
    if source is not target:
        names = {"source": "tokenizer.source.json", "target": "tokenizer.target.json"}
    files: dict[str, bytes | Path] = {}
    for side, tokenizer in (("source", source), ("target", target)):
        text = json.dumps(tokenizer.to_json(), ensure_ascii=False, separators=(",", ":"))
        files[names[side]] = text.encode()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".saving-", dir=folder.parent) as place:
        # Serialise to a file: serialising to bytes takes three times the memory of the weights.
        weights = Path(place) / "model.safetensors"
        _write_weights(weights, model, half_precision)
        files = {weights.name: weights, **files}
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
                name: {"bytes": content_size(content), "sha256": sha256(content)}
                for name, content in files.items()
            },
        }
        config["sha256"] = own_sha256(config)
        files |= {"metrics.json": metrics_bytes(metrics), "config.json": json_bytes(config)}
        write_transaction(folder, files, manifest="config.json")


def _write_weights(file: Path, model: Model, half_precision: bool) -> None:
    from safetensors.torch import save_file

    tensors = {name: p.detach().cpu().contiguous() for name, p in model.named_parameters()}
    if half_precision:
        tensors = {name: tensor.half() for name, tensor in tensors.items()}
    save_file(tensors, file)


def save_metrics(folder: Path, metrics: dict[str, Any]) -> None:
    """Write new metrics into a folder, which need not hold a checkpoint yet."""
    finish_commit(folder, "config.json")  # otherwise pending older metrics would replace these
    write_atomic(folder / "metrics.json", metrics_bytes(metrics))


def read_card(folder: Path) -> Card:
    """Read config.json and metrics.json; unusable metrics become a note. Raises CheckpointError."""
    return _card(folder, read_configuration(folder))


def _card(folder: Path, config: Configuration) -> Card:
    metrics, note = read_metrics(folder)
    return Card(**vars(config), folder=folder, metrics=metrics, note=note)


def list_cards(root: Path) -> tuple[list[Card], list[str]]:
    """Return all usable checkpoints in `root`, by name, and one line for each unusable folder.

    `root` may also be a checkpoint folder itself.
    """
    cards, problems = [], []
    for folder in [root] if (root / FILE).is_file() else sorted(root.glob("*")):
        try:
            if not folder.is_dir() or folder.name.startswith("."):
                continue  # hidden folders are unfinished: a killed conversion leaves one
            if printable(folder.name) != folder.name or len(folder.name) > _MAX_NAME:
                raise CheckpointError(
                    f"{printable(str(folder))[:200]} has a name with control characters or of "
                    f"more than {_MAX_NAME} characters: rename the folder"
                )
            card = read_card(folder)
            if card.name.casefold().endswith(TWIN):
                raise CheckpointError(
                    f"{printable(str(folder))} has a name that ends with {TWIN}, which is reserved "
                    "for the other implementation of a network: rename the folder"
                )
            cards.append(card)
        except CheckpointError as error:
            problems.append(str(error))
        except Exception as error:
            problems.append(str(_unexpected(folder, error)))
    named = {card.folder.name for card in cards}
    for card in list(cards):  # `scratch` and `scratch-de-en` would have the same name
        other = f"{card.name}-{card.direction}"
        if card.folder.name != other and other in named:
            cards.remove(card)
            problems.append(
                f"{printable(str(card.folder))} would have the same name as {printable(other)}: "
                "rename one of them"
            )
    return cards, problems


def load(folder: Path | str, device: str = "cpu", require_checksum: bool = True) -> Checkpoint:
    """Verify and load a checkpoint folder onto a device. Raises only CheckpointError.

    Before torch is imported, core.checkpoint.validate checks everything that does not need it. Then
    every weight must be finite and within float16's range, which keeps activations far below the
    largest float32. Finally, one sentence is translated as a test. Without `require_checksum`,
    which only core.checkpoint.add_checksum uses, config.json may lack its own hash.
    """
    folder = Path(folder)
    try:
        config = read_configuration(folder, require_checksum)
        return _build(_card(folder, config), read_verified(folder, config), device)
    except CheckpointError:
        raise
    except Exception as error:  # all hashes match, so the files were already wrong when written
        raise _unexpected(folder, error) from None


def _unexpected(folder: Path, error: Exception) -> CheckpointError:
    return unusable(folder, f"{type(error).__name__}: {error}", restore_hint(folder))


def _build(card: Card, files: VerifiedFiles, device: str) -> Checkpoint:
    import torch
    from safetensors.torch import load as from_bytes

    from core.accelerate.network import accelerate
    from core.checkpoint.smoke_test import run_smoke_test
    from core.device import torch_defaults
    from core.model.build import WithoutInitialising, build
    from core.text import load as load_tokenizer

    tensors = from_bytes(files.weights)
    tokenizers = files.source_tokenizer, files.target_tokenizer
    del files  # frees the file's bytes, which `tensors` holds a copy of
    with checkpoint_errors(card.folder / card.weights.name):
        for name, tensor in tensors.items():
            check_range(name, tensor)
    with torch_defaults(device), torch.no_grad():
        with WithoutInitialising():
            model = build(card.architecture, card.model)
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors.pop(name))  # never two copies of all weights
    source = target = load_tokenizer(tokenizers[0])
    if tokenizers[1] is not tokenizers[0]:
        target = load_tokenizer(tokenizers[1])
    model = model.to(device, torch.float32).eval()  # independent of torch's default type
    accelerate(model)
    with torch_defaults(device):
        run_smoke_test(model, source, target, device)
    return Checkpoint(card, model, source, target)
