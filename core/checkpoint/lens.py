"""Read and write a network's Jacobian lens, with the test that says how well it reads.

A safetensors file: `encoder` and `decoder`, float16 [L + 1, D, D], and the fields of `About` as
JSON in its metadata.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save

from core.checkpoint.errors import checkpoint_errors, shell_quoted
from core.checkpoint.folder import Card
from core.checkpoint.header import max_file_bytes, read_header
from core.checkpoint.strict_json import parse
from core.files import safe_read, write_atomic
from core.frozen import Floats, Frozen
from core.kinds import SIDES, Side
from core.model.shapes import Shapes
from core.typed import Count, Sha256, typed

FILE = "lens.safetensors"
_MAX_ITEMS = 10_000  # of JSON

Interval = tuple[float, float, float]
"""A statistic and the bounds of its 95 % bootstrap interval."""


@dataclass(frozen=True)
class About:
    """Where a lens comes from, and the result of its test on other sentences of the same file.

    `table` has an interval per layer, from the embeddings, of each statistic of `core.atlas.lens`.
    """

    weights_sha256: Sha256
    corpus: str
    corpus_sha256: Sha256
    sentences: Count
    tested: Count
    seed: Count
    table: Mapping[str, tuple[Interval, ...]]


@dataclass(frozen=True, eq=False)
class Lens(Frozen):
    """The Jacobians of a network by side, float32 [L + 1, D, D], and what is known about them."""

    jacobians: Mapping[Side, Floats]
    about: About

    def save(self, file: Path) -> None:
        """Write the lens atomically, rounded to float16."""
        halves: dict[str, Any] = {
            side: matrix.astype(np.float16) for side, matrix in self.jacobians.items()
        }
        write_atomic(file, save(halves, {"about": json.dumps(asdict(self.about))}))


def fit_command(card: Card) -> str:
    """Return the command that fits the lens of a checkpoint."""
    return f"python -m core.analyse lens --checkpoint {shell_quoted(card.folder)} --src FILE"


def load_lens(card: Card) -> Lens:
    """Read the lens of a checkpoint. Raises CheckpointError, also for a lens of other weights."""
    file = card.folder / FILE
    D, layers = card.model.d_model, (card.model.num_encoder_layers, card.model.num_decoder_layers)
    shapes: Shapes = {side: (n + 1, D, D) for side, n in zip(SIDES, layers, strict=True)}
    with checkpoint_errors(file, f"write it with `{fit_command(card)}`"):
        content = safe_read(file, max_file_bytes(shapes))
        _, metadata = read_header(io.BytesIO(content), len(content), shapes)
        about = typed(About, parse(metadata.get("about", "{}").encode(), _MAX_ITEMS), "about")
        if about.weights_sha256 != card.weights_sha256:
            raise ValueError("it was fitted to other weights")
        arrays = from_bytes(content)
        for side, matrix in arrays.items():
            if matrix.dtype != np.float16:
                raise ValueError(f"{side} is {matrix.dtype}: it must be float16")
            if not np.isfinite(matrix).all():
                raise ValueError(f"{side} contains values that are not finite")
    return Lens({side: arrays[side].astype(np.float32) for side in SIDES}, about)
