"""Read config.json; check its hash, and the type and range of all fields that are used."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from core.checkpoint.errors import CheckpointError, checkpoint_errors, shell_quoted, unusable
from core.checkpoint.imported import Imported
from core.checkpoint.strict_json import read_small
from core.config import ModelConfig
from core.files import printable, sha256
from core.model.shapes import Shapes, count_parameters, weight_shapes
from core.typed import Sha256, between, line, pattern, typed

FORMAT = 1
FILE = "config.json"
MAX_PARAMETERS = 700_000_000
_PLAIN_NAME = re.compile("[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
# Names of files that the project itself writes, and temporary names (core.files.write_transaction).
# Some file systems ignore case.
_RESERVED = re.compile(
    r"(config\.json|metrics\.json|certainty\.json|lens\.safetensors|model_card\.md|head_means\.safetensors"
    r"|history\.npz|atlas\.npz|state\.safetensors|snapshot-.*|.*\.part|[^.]*-[0-9a-f]{12}(\..*)?)",
    re.IGNORECASE,
)
_MAX_INTEGER = 2**64  # in `training`

# A language's code is also part of directions and links.
_Code = pattern("that is a language code of 2 to 8 letters from a to z", "[a-z]{2,8}")
_Language = Annotated[str, _Code]
_Recipe = Annotated[str, pattern("that is the name of a recipe", r"[\w.+,()-]{1,200}")]
_Line = Annotated[str, line(4_000)]
_Count = Annotated[int, between(0, _MAX_INTEGER)]
_FromOne = Annotated[int, between(1, _MAX_INTEGER)]


class _Schedule(TypedDict, total=False):
    seed: Annotated[int, between(-_MAX_INTEGER, _MAX_INTEGER)]
    steps: _FromOne
    max_pair_tokens: _FromOne


class _Training(TypedDict, total=False):
    """The fields of `training` that are shown or used in computations."""

    recipe: _Recipe
    source: _Line
    corpora: Mapping[_Line, _Count]
    longest: tuple[_FromOne, _FromOne]
    config: _Schedule
    machine: _Line
    torch: _Line
    kept: _Line


class _Entry(TypedDict):
    bytes: Annotated[int, between(0)]
    sha256: Sha256


class _Config(TypedDict):
    """The fields of config.json that are used."""

    format: Literal[1]
    source_language: _Language
    target_language: _Language
    architecture: str
    model: ModelConfig
    parameters: int
    training: _Training
    files: Mapping[str, _Entry]
    tokenizers: Mapping[Literal["source", "target"], str]


@dataclass(frozen=True)
class ListedFile:
    """A file's entry in config.json."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Configuration:
    """The validated content of config.json; `sha256` is its hash."""

    architecture: str
    source_language: str
    target_language: str
    model: ModelConfig
    training: dict[str, Any]
    weights: ListedFile
    tokenizers: tuple[ListedFile, ListedFile]
    sha256: str

    @property
    def shapes(self) -> Shapes:
        return weight_shapes(self.architecture, self.model)

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


def _validated(file: Path, values: Any, require_checksum: bool) -> Configuration:
    config: _Config = typed(_Config, values)
    if require_checksum:
        _check_sha256(file, values)
    architecture, model = config["architecture"], config["model"]
    count = count_parameters(weight_shapes(architecture, model))
    if count > MAX_PARAMETERS:
        raise ValueError(f"{count:,} parameters, the limit is {MAX_PARAMETERS:,}")
    if (claimed := config["parameters"]) != count:
        raise ValueError(f"it claims {claimed:,} parameters, but its model has {count:,}")
    if "imported" in values["training"]:
        Imported.from_json(values["training"]["imported"])
    return Configuration(
        architecture,
        config["source_language"],
        config["target_language"],
        model,
        values["training"],
        *_files(config),
        own_sha256(values),
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


def _files(config: _Config) -> tuple[ListedFile, tuple[ListedFile, ListedFile]]:
    """Return the weights (the only file that is not a tokenizer) and both sides' tokenizers."""
    files, sides = config["files"], config["tokenizers"]
    others = [name for name in files if name not in sides.values()]
    if not files.keys() >= set(sides.values()) or len(others) != 1:
        raise ValueError("its files are not the tokenizers and one file of weights")
    for name in files:
        if not _PLAIN_NAME.fullmatch(name):
            raise ValueError(f"{name[:80]!r} is not a plain file name")
        if _RESERVED.fullmatch(name):
            raise ValueError(f"{name!r} is a reserved file name")
    listed = {n: ListedFile(n, entry["bytes"], entry["sha256"]) for n, entry in files.items()}
    return listed[others[0]], (listed[sides["source"]], listed[sides["target"]])
