"""Read config.json; check its hash, and the type and range of all fields that are used."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.checkpoint.errors import CheckpointError, checkpoint_errors, shell_quoted, unusable
from core.checkpoint.imported import Imported
from core.checkpoint.strict_json import read_small
from core.config import ModelConfig
from core.files import printable, sha256
from core.model.shapes import Shapes, count_parameters, weight_shapes

FORMAT = 1
FILE = "config.json"
MAX_PARAMETERS = 300_000_000
_LANGUAGE = re.compile("[a-z]{2,8}")  # a language code; also part of directions and links
_HASH = re.compile("[0-9a-f]{64}")
_PLAIN_NAME = re.compile("[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
# Names of files that the project itself writes, and temporary names (core.files.write_transaction).
# Some file systems ignore case.
_RESERVED = re.compile(
    r"(config\.json|metrics\.json|model_card\.md|head_means\.safetensors|history\.npz|atlas\.npz"
    r"|state\.safetensors|snapshot-.*|.*\.part|[^.]*-[0-9a-f]{12}(\..*)?)",
    re.IGNORECASE,
)
_MAX_INTEGER = 2**64  # in `training`


@dataclass(frozen=True)
class ListedFile:
    """A file's entry in config.json."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Configuration:
    """The validated content of config.json; `shapes` follow from `model`, `sha256` is its hash."""

    architecture: str
    source_language: str
    target_language: str
    model: ModelConfig
    shapes: Shapes
    training: dict[str, Any]
    weights: ListedFile
    tokenizers: tuple[ListedFile, ListedFile]
    sha256: str

    @property
    def parameters(self) -> int:
        return count_parameters(self.shapes)


def own_sha256(config: dict[str, Any]) -> str:
    """Return the SHA-256 of config.json's values without `sha256`, independent of the layout."""
    values = {name: value for name, value in config.items() if name != "sha256"}
    return sha256(json.dumps(values, sort_keys=True, separators=(",", ":")).encode())


def read_configuration(folder: Path, require_checksum: bool = True) -> Configuration:
    """Read and check config.json. Raises CheckpointError.

    Without `require_checksum`, its own SHA-256 is not checked.
    """
    if folder.is_file():
        raise CheckpointError(
            f"{printable(str(folder))} is a file, not a checkpoint folder: import the weights of "
            "another project with `python -m core.convert` (core/foreign/README.md)"
        )
    file = folder / FILE
    with checkpoint_errors(file):
        return _validated(file, read_small(file), require_checksum)


def _validated(file: Path, config: Any, require_checksum: bool) -> Configuration:
    if not isinstance(config, dict) or type(config.get("format")) is not int:
        raise ValueError(f"not a checkpoint of format {FORMAT}")
    if config["format"] != FORMAT:
        raise ValueError(f"its format is {config['format']}, but it must be {FORMAT}")
    if require_checksum:
        _check_sha256(file, config)
    for side in ("source", "target"):
        language = config.get(f"{side}_language")
        if not isinstance(language, str) or not _LANGUAGE.fullmatch(language):
            raise ValueError(
                f"its {side}_language {repr(language)[:100]} is not a language code of 2 to 8 "
                "letters from a to z"
            )
    architecture, network = config.get("architecture"), config.get("model")
    if not isinstance(architecture, str) or not isinstance(network, dict):
        raise ValueError("it lacks the architecture or the model's sizes")
    model = ModelConfig.from_json(network)
    shapes = weight_shapes(architecture, model)
    count = count_parameters(shapes)
    if count > MAX_PARAMETERS:
        raise ValueError(f"{count:,} parameters, the limit is {MAX_PARAMETERS:,}")
    claimed = config.get("parameters")
    if type(claimed) is not int or claimed != count:
        number = f"{claimed:,}" if type(claimed) is int else repr(claimed)
        raise ValueError(f"it claims {number} parameters, but its model has {count:,}")
    training = config.get("training")
    if not isinstance(training, dict):
        raise ValueError("its training is not an object")
    for name, (is_valid, expected) in _TRAINING.items():
        if name in training and not is_valid(training[name]):
            raise ValueError(f"training: {name} is not {expected}")
    if "imported" in training:
        Imported.from_json(training["imported"])
    weights, tokenizers = _files(config)
    return Configuration(
        architecture,
        config["source_language"],
        config["target_language"],
        model,
        shapes,
        training,
        weights,
        tokenizers,
        own_sha256(config),
    )


def _check_sha256(file: Path, config: dict[str, Any]) -> None:
    if "sha256" not in config:
        raise unusable(
            file,
            "it has no SHA-256 of its own: earlier versions wrote none",
            "if you trust the folder, add one with "
            f"`python -m core.checkpoint.add_checksum {shell_quoted(file.parent)}`",
        )
    if config["sha256"] != own_sha256(config):
        raise ValueError("its values do not match its own SHA-256")


def _files(config: dict[str, Any]) -> tuple[ListedFile, tuple[ListedFile, ListedFile]]:
    """Return the weights (the only file that is not a tokenizer) and both sides' tokenizers."""
    files, names = config.get("files"), config.get("tokenizers")
    if not isinstance(files, dict) or not isinstance(names, dict):
        raise ValueError("it does not list its files and its tokenizers")
    if set(names) != {"source", "target"}:
        raise ValueError("its tokenizers are not one for the source and one for the target")
    sides = [names["source"], names["target"]]
    others = [name for name in files if name not in sides]
    if any(not isinstance(name, str) or name not in files for name in sides) or len(others) != 1:
        raise ValueError("its files are not the tokenizers and one file of weights")
    listed = {name: _listed(name, entry) for name, entry in files.items()}
    source, target = (listed[name] for name in sides)
    return listed[others[0]], (source, target)


def _listed(name: str, entry: Any) -> ListedFile:
    if not _PLAIN_NAME.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not a plain file name")
    if _RESERVED.fullmatch(name):
        raise ValueError(f"{name!r} is a reserved file name")
    size, digest = (
        (entry.get("bytes"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
    )
    if type(size) is not int or size < 0:
        raise ValueError(f"it does not say how many bytes {name} has")
    if not isinstance(digest, str) or not _HASH.fullmatch(digest):
        raise ValueError(f"it lacks the SHA-256 of {name}")
    return ListedFile(name, size, digest)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 4_000 and value.isprintable()


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"[\w.+,()-]{1,200}", value))


def _is_count(value: Any, least: int = 0) -> bool:
    return type(value) is int and least <= value <= _MAX_INTEGER


def _is_lengths(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(_is_count(n, 1) for n in value)


def _is_corpora(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _is_text(name) and _is_count(times) for name, times in value.items()
    )


def _is_schedule(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _is_count(value[name], least)
        for name, least in (("seed", -_MAX_INTEGER), ("steps", 1), ("max_pair_tokens", 1))
        if name in value
    )


# The optional fields of `training` that are shown or used in computations.
_TRAINING: dict[str, tuple[Callable[[Any], bool], str]] = {
    "recipe": (_is_name, "the name of a recipe"),
    "source": (_is_text, "one line of text"),
    "corpora": (_is_corpora, "a count of 0 or more for each corpus"),
    "longest": (_is_lengths, "two token counts"),
    "config": (
        _is_schedule,
        "an object whose seed, steps and max_pair_tokens, if given, are integers in range",
    ),
    "machine": (_is_text, "one line of text"),
    "torch": (_is_text, "one line of text"),
    "kept": (_is_text, "one line of text"),
}
