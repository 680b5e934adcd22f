"""Measure what 8-bit weights change in translations and attention of the example sentences."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save

import core
from app.examples import examples, minimal_pairs
from app.export.weights import dequantised, quantised
from core.checkpoint.configuration import own_sha256
from core.checkpoint.folder import Card
from core.files import json_bytes, sha256
from core.kinds import KINDS
from core.record.record import TranslationRecord


@dataclass(frozen=True)
class Rounding:
    """How passes with 8-bit weights differ from those with the checkpoint's own.

    `same` of `sentences` get the same translation (beam 5). Attention weights are compared on the
    checkpoint's translation; `largest` and `mean` are over all unmasked cells.
    """

    sentences: int
    same: int
    largest: float
    mean: float


@contextmanager
def rounded_checkpoint(folder: Path, int8: bool = True) -> Generator[Path]:
    """Yield a temporary copy of a checkpoint with the weights as `app.export.weights` packs them.

    Weights are rounded to 16 bits. With `int8`, matrices are rounded to 8 bits, row by row.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = {}
    for name, weight in load_file(folder / "model.safetensors").items():
        exact = weight.astype(np.float32)
        in_rows = int8 and weight.ndim == 2
        weights[name] = (
            dequantised(*quantised(exact))
            if in_rows
            else weight.astype(np.float16).astype(np.float32)
        )
    content = save(weights)
    with tempfile.TemporaryDirectory(prefix="headlight-rounded-") as place:
        rounded = Path(place)
        for name in config["files"]:
            (rounded / name).write_bytes((folder / name).read_bytes())
        (rounded / "model.safetensors").write_bytes(content)
        config["files"]["model.safetensors"] = {"bytes": len(content), "sha256": sha256(content)}
        config["sha256"] = own_sha256({k: v for k, v in config.items() if k != "sha256"})
        (rounded / "config.json").write_bytes(json_bytes(config))
        yield rounded


def measured_rounding(card: Card) -> Rounding | None:
    """Compare 8-bit weights with a checkpoint's own on the examples of its direction.

    Return None if there are no examples that the network can read. Takes several seconds.
    """
    texts = sentences(card.direction)
    if not texts:
        return None
    exact = core.load(card.folder, device="cpu")
    same, errors = 0, []
    with rounded_checkpoint(card.folder) as folder:
        rounded = core.load(folder, device="cpu")
        for text in texts:
            with suppress(core.InputError):  # too long for this network
                own = exact.inspect(text)
                same += rounded.inspect(text).translation == own.translation
                ids = tuple(token.id for token in own.target_out)
                errors.append(_differences(own, rounded.inspect(text, target_ids=ids)))
    if not errors:
        return None
    cells = np.concatenate(errors)
    return Rounding(len(errors), same, float(cells.max()), float(cells.mean()))


def sentences(direction: str) -> list[str]:
    """Return the distinct example sentences of a direction, with their variants."""
    known = examples(direction) + minimal_pairs(direction)
    texts = [text for pair in known for text in pair.texts(direction)]
    return list(dict.fromkeys(texts))


def _differences(one: TranslationRecord, other: TranslationRecord) -> np.ndarray:
    return np.concatenate(
        [np.abs(one.maps(k) - other.maps(k))[..., one.mask(k)].ravel() for k in KINDS]
    )
