"""Load a checkpoint with the weights as the offline page holds them: rounded to 16 or 8 bits."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

import core
from app.export.weights import dequantised, quantised
from core.checkpoint.configuration import FILE, own_sha256, read_configuration
from core.checkpoint.strict_json import read_small
from core.checkpoint.validate import read_verified
from core.files import json_bytes, sha256


def rounded(folder: Path, int8: bool = False) -> core.Translator:
    """Return a translator on the CPU that computes with the page's weights.

    It is loaded from a temporary copy of the folder, so its card names neither the folder nor its
    checksum. Raises CheckpointError for a folder that cannot be read.
    """
    config = read_configuration(folder)
    weights = load(read_verified(folder, config).weights)
    content = save({name: _rounded(weight, int8) for name, weight in weights.items()})
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / folder.resolve().name
        copy.mkdir()
        described = read_small(folder / FILE)
        for tokenizer in {file.name for file in config.tokenizers}:
            shutil.copy(folder / tokenizer, copy / tokenizer)
        (copy / config.weights.name).write_bytes(content)
        described["files"][config.weights.name] = {
            "bytes": len(content),
            "sha256": sha256(content),
        }
        described["sha256"] = own_sha256(described)
        (copy / FILE).write_bytes(json_bytes(described))
        return core.load(copy, device="cpu")


def _rounded(weight: NDArray, int8: bool) -> NDArray[np.float32]:
    """Round a tensor as `app.export.weights.pack` stores it."""
    if int8 and weight.ndim == 2:
        return dequantised(*quantised(weight))
    return weight.astype(np.float16).astype(np.float32)
