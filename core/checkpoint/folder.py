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
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.config import ModelConfig
from core.data.corpora import LANGUAGES
from core.files import current, finish_together, json_bytes, sha256, write_json, write_together

if TYPE_CHECKING:
    from core.model.build import Model
    from core.text.tokenizer import Tokenizer

FORMAT = 1
_MAX_JSON_BYTES = 8 << 20
_MAX_PARAMETERS = 300_000_000
_MAX_HEADER_BYTES = 8 << 20  # of safetensors, before the weights
_ARCHITECTURES = ("scratch", "baseline")


class CheckpointError(ValueError):
    """A checkpoint folder that cannot be used; the message is one line: what, and what to do."""


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

    @property
    def direction(self) -> str:
        return f"{self.source_language}-{self.target_language}"


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
    files |= {"metrics.json": json_bytes(metrics), "config.json": json_bytes(config)}
    write_together(folder, files, switch="config.json")


def save_metrics(folder: Path, metrics: dict[str, Any]) -> None:
    """Write new metrics beside a checkpoint, or where there is none yet."""
    finish_together(folder, "config.json")  # or older ones that still wait would replace these
    write_json(folder / "metrics.json", metrics)


def read_card(folder: Path) -> Card:
    """Read config.json and metrics.json. Raises CheckpointError."""
    config = _read_config(folder)
    metrics_file = current(folder, "metrics.json", "config.json")
    metrics = _read_json(metrics_file) if metrics_file.is_file() else {}
    if not isinstance(metrics, dict) or not isinstance(metrics.get("final", {}), dict):
        raise _damaged(metrics_file, "its results are not listed by name")
    try:
        card = Card(
            folder=folder,
            architecture=config["architecture"],
            source_language=config["source_language"],
            target_language=config["target_language"],
            model=ModelConfig.from_json(config["model"]),
            parameters=config["parameters"],
            training=config["training"],
            metrics=metrics,
            weights_sha256=config["files"]["model.safetensors"]["sha256"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(folder / "config.json", str(error)) from None
    if card.architecture not in _ARCHITECTURES:
        raise _damaged(folder / "config.json", f"unknown architecture {card.architecture!r}")
    for language in (card.source_language, card.target_language):
        if language not in tuple(LANGUAGES):
            raise CheckpointError(
                f"{folder / 'config.json'} is of the language {_printable(repr(language))}: "
                f"use a checkpoint between {' and '.join(LANGUAGES)}"
            )
    if not isinstance(card.training, dict):
        raise _damaged(folder / "config.json", "it does not say how it was trained")
    return card


def list_cards(root: Path) -> tuple[list[Card], list[str]]:
    """All usable checkpoints below `root`, by name, and one line for each other folder.

    No folder, whatever it holds, keeps the others from being listed.
    """
    cards, problems = [], []
    for folder in sorted(f for f in root.glob("*") if f.is_dir()):
        try:
            cards.append(read_card(folder))
        except CheckpointError as error:
            problems.append(str(error))
        except Exception as error:
            problems.append(str(_damaged(folder, f"{type(error).__name__}: {error}")))
    return cards, problems


def load(folder: Path, device: str = "cpu") -> Checkpoint:
    """Verify and load a checkpoint folder onto a device. Raises CheckpointError.

    The network that config.json asks for is laid out first, without memory, so that its size is
    counted and not believed. Then sizes and hashes are checked, then names, shapes and types, then
    that every value is finite: safetensors itself checks none of these.
    """
    import torch
    from safetensors.torch import load as from_bytes

    from core.model.build import build
    from core.text import load as load_tokenizer

    card = read_card(folder)
    config = _read_config(folder)
    try:
        with torch.device("meta"):
            model = build(card.architecture, card.model)
    except Exception as error:
        raise _damaged(folder / "config.json", f"{type(error).__name__}: {error}") from None
    count = sum(parameter.numel() for parameter in model.parameters())
    if count != card.parameters or count > _MAX_PARAMETERS:
        raise _damaged(
            folder / "config.json",
            f"a network of {count:,} parameters, not the {card.parameters:,} that it claims"
            if count != card.parameters
            else f"{count:,} parameters, the limit is {_MAX_PARAMETERS:,}",
        )
    largest = dict.fromkeys(config["files"], _MAX_JSON_BYTES)
    largest["model.safetensors"] = count * 8 + _MAX_HEADER_BYTES  # float64 at most
    contents = {
        name: _verified(
            current(folder, name, "config.json"), entry["bytes"], entry["sha256"], largest[name]
        )
        for name, entry in config["files"].items()
    }
    try:
        tensors = from_bytes(contents["model.safetensors"])
        _compare(folder / "model.safetensors", dict(model.named_parameters()), tensors)
        model = build(card.architecture, card.model)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(tensors[name])
        side = config["tokenizers"]
        parsed = {name: json.loads(contents[name]) for name in set(side.values())}
        loaded = {name: load_tokenizer(values) for name, values in parsed.items()}
    except CheckpointError:
        raise
    except Exception as error:  # hashes match, so this is a wrong file rather than a broken one
        raise _damaged(folder, f"{type(error).__name__}: {error}") from None
    tokenizers = loaded[side["source"]], loaded[side["target"]]
    expected = card.model.source_vocab_size, card.model.target_vocab_size
    if tuple(t.size for t in tokenizers) != expected:
        raise _damaged(folder, f"vocabularies of {[t.size for t in tokenizers]}, not {expected}")
    return Checkpoint(card, model.to(device).eval(), *tokenizers)


def _read_config(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        raise CheckpointError(f"{_printable(str(file))} is missing: {_remedy(folder)}")
    config = _read_json(file)
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise _damaged(file, f"not a checkpoint of format {FORMAT}")
    files, tokenizers = config.get("files"), config.get("tokenizers")
    if not isinstance(files, dict) or not isinstance(tokenizers, dict):
        raise _damaged(file, "it does not list its files")
    names = {*files, *map(str, tokenizers.values())}
    if "model.safetensors" not in files or names != set(files):
        raise _damaged(file, "it does not list the weights and the tokenizers among its files")
    if set(tokenizers) != {"source", "target"}:
        raise _damaged(file, "it does not name a tokenizer for the source and one for the target")
    if odd := [name for name in names if Path(name).name != name or len(name) > 100]:
        raise _damaged(file, f"{odd[0][:100]!r} is not the plain name of a file beside it")
    for name, entry in files.items():
        size = entry.get("bytes") if isinstance(entry, dict) else None
        if type(size) is not int or size < 0 or not isinstance(entry.get("sha256"), str):
            raise _damaged(file, f"it does not say the size and SHA-256 of {name}")
    if type(config.get("parameters")) is not int:
        raise _damaged(file, "it does not say how many parameters there are")
    return config


def _read_json(file: Path) -> Any:
    try:
        if file.stat().st_size > _MAX_JSON_BYTES:
            raise _damaged(file, f"larger than {_MAX_JSON_BYTES >> 20} MB")
        return json.loads(file.read_bytes())
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:
        raise _damaged(file, f"not JSON ({error})") from None
    except OSError as error:
        raise _damaged(file, f"it cannot be read: {error.strerror}") from None


def _verified(file: Path, size: int, digest: str, largest: int) -> bytes:
    if not file.is_file():
        raise CheckpointError(f"{_printable(str(file))} is missing: {_remedy(file.parent)}")
    if file.stat().st_size != size:
        raise _damaged(file, f"{file.stat().st_size:,} bytes, expected {size:,}")
    if size > largest:
        raise _damaged(file, f"{size:,} bytes, the limit for this network is {largest:,}")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise _damaged(file, f"it cannot be read: {error.strerror}") from None
    if sha256(content) != digest:
        raise _damaged(file, "its SHA-256 differs from the one in config.json")
    return content


def _compare(file: Path, expected: dict[str, Any], tensors: dict[str, Any]) -> None:
    if odd := sorted(set(expected) ^ set(tensors)):
        raise _damaged(file, f"missing or unexpected weights: {', '.join(odd[:5])}")
    for name, parameter in expected.items():
        tensor = tensors[name]
        if tensor.shape != parameter.shape:
            raise _damaged(file, f"{name} is {list(tensor.shape)}, not {list(parameter.shape)}")
        if not tensor.is_floating_point() or not tensor.isfinite().all():
            raise _damaged(file, f"{name} holds values that are not finite")


def _damaged(file: Path, what: str) -> CheckpointError:
    folder = file if file.is_dir() else file.parent
    return CheckpointError(
        f"{_printable(str(file))} is damaged ({_printable(what)[:300]}): {_remedy(folder)}"
    )


def _remedy(folder: Path) -> str:
    """What helps a folder that comes with the project, and one that does not."""
    name = shlex.quote(_printable(str(folder)))
    return f"restore it with `git checkout -- {name}`, or delete the folder and train it again"


def _printable(text: str) -> str:
    """One line without control characters and `code` marks: files of strangers are quoted in it."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split()).replace("`", "'")
