"""Read and write metrics.json; a broken file never makes its checkpoint unusable."""

import math
from pathlib import Path
from typing import Any

from core.checkpoint.configuration import FILE
from core.checkpoint.errors import CheckpointError, checkpoint_errors
from core.checkpoint.strict_json import read_small
from core.files import MAX_CONFIG_BYTES, committed_file, json_bytes, printable

_MAX_CORPORA = 100  # corpora with scores


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
            _check(values)
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


def _check(values: Any) -> None:
    if not isinstance(values, dict):
        raise ValueError("it is not an object")
    curve, final = values.get("curve", []), values.get("final", {})
    if not isinstance(curve, list) or not isinstance(final, dict):
        raise ValueError("it needs a list 'curve' and an object 'final'")
    for row in curve:
        if not isinstance(row, dict) or not all(map(_is_number, row.values())):
            raise ValueError("a row of its curve is not an object of finite numbers")
        if missing := [name for name in ("step", "train_loss", "val_loss") if name not in row]:
            raise ValueError(f"a row of its curve has no {missing[0]}")
    if len(final) > _MAX_CORPORA:
        raise ValueError(f"scores on {len(final):,} corpora, the limit is {_MAX_CORPORA}")
    for corpus, scores in final.items():
        if not corpus or printable(corpus) != corpus or len(corpus) > 600:
            raise ValueError(f"{corpus[:80]!r} is not the name of a corpus")
        if not isinstance(scores, dict) or not all(
            isinstance(value, str) or _is_number(value) for value in scores.values()
        ):
            raise ValueError(f"its scores on {corpus} are neither finite numbers nor texts")
        if not _is_number(scores.get("sacrebleu")) or not _is_number(
            scores.get("bits_per_char", 0)
        ):
            raise ValueError(f"its scores on {corpus} lack a number for sacrebleu or bits_per_char")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e15 and math.isfinite(value)
