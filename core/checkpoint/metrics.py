"""Read and write metrics.json; a broken file never makes its checkpoint unusable."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

from core.checkpoint.configuration import FILE
from core.checkpoint.errors import CheckpointError, checkpoint_errors
from core.checkpoint.strict_json import read_small
from core.files import MAX_CONFIG_BYTES, committed_file, json_bytes, printable
from core.typed import Rule, between, typed

_Number = Annotated[float, between(-1e15, 1e15)]
_Corpus = Annotated[
    str,
    Rule(
        "that is the name of a corpus",
        lambda name: 0 < len(name) <= 600 and printable(name) == name,
    ),
]


class _Numbers(TypedDict, total=False):
    """What metrics.json holds, by the kind of its values."""

    curve: tuple[Mapping[str, _Number], ...]
    final: Annotated[Mapping[_Corpus, Mapping[str, _Number | str]], between(0, 100)]


class _Point(TypedDict):
    step: _Number
    train_loss: _Number
    val_loss: _Number


class _Scores(TypedDict):
    sacrebleu: _Number
    bits_per_char: NotRequired[_Number]


class _Needed(TypedDict, total=False):
    """What metrics.json holds, by the names of its values."""

    curve: tuple[_Point, ...]
    final: Mapping[str, _Scores]


def read_metrics(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the metrics and "", or {} and one line that says why they are unusable.

    `curve` is a list of objects of finite numbers, each with `step`, `train_loss` and `val_loss`;
    `final` holds an object of finite numbers and texts for each corpus. A missing file gives {} and
    "".
    """
    file = committed_file(folder, "metrics.json", FILE)
    try:
        with checkpoint_errors(file):
            try:
                values = read_small(file)
            except FileNotFoundError:
                return {}, ""
            typed(_Numbers, values), typed(_Needed, values)
    except CheckpointError as error:
        return {}, f"No scores: {error}"
    return values, ""


def metrics_bytes(metrics: dict[str, Any]) -> bytes:
    """Serialise metrics; drop every second point of the curve until the file is small enough.

    Keeps the last point and the one with the lowest validation loss.
    """
    content = json_bytes(metrics)
    while len(content) > MAX_CONFIG_BYTES and len(curve := metrics["curve"]) > 2:
        best = min(curve, key=lambda row: row["val_loss"])
        thinned = [row for i, row in enumerate(reversed(curve)) if i % 2 == 0 or row is best]
        metrics = metrics | {"curve": thinned[::-1]}
        content = json_bytes(metrics)
    return content
