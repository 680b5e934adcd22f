"""Read and write each head's mean output over a corpus, for mean ablation."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load as from_bytes
from safetensors.torch import save
from torch import Tensor

from core.checkpoint.errors import checkpoint_errors, shell_quoted
from core.checkpoint.header import check_range, max_file_bytes, read_header
from core.config import ModelConfig
from core.files import printable, safe_read, write_atomic
from core.kinds import KINDS, Kind
from core.model.shapes import Shapes

FILE = "head_means.safetensors"
_COUNT = re.compile("[1-9][0-9]{0,11}")


@dataclass(frozen=True)
class HeadMeans:
    """Each head's mean contribution to its attention's output, without the bias.

    `parts`: [H, D] by kind and layer, the mean over all queries of `sentences` sentences.
    """

    parts: Mapping[tuple[Kind, int], Tensor]
    sentences: int
    corpus: str


def save_means(file: Path, means: HeadMeans) -> None:
    """Write the means atomically to a safetensors file: a tensor [L, H, D] for each kind."""
    tensors: dict[str, Tensor] = {}
    for kind in KINDS:
        layers = sorted(layer for of_kind, layer in means.parts if of_kind == kind)
        tensors[kind] = torch.stack([means.parts[kind, layer].cpu().float() for layer in layers])
    metadata = {"sentences": str(means.sentences), "corpus": means.corpus}
    write_atomic(file, save(tensors, metadata))


def load_means(folder: Path, config: ModelConfig, device: str = "cpu") -> HeadMeans:
    """Read the means for a network of this shape. Raises CheckpointError."""
    file = folder / FILE
    L = {"encoder": config.num_encoder_layers}
    D, layers = config.d_model, config.num_decoder_layers
    shapes: Shapes = {kind: (L.get(kind, layers), config.heads(kind), D) for kind in KINDS}
    remedy = (
        f"write it with `python -m core.analyse means --checkpoint {shell_quoted(folder)} "
        "--src FILE --ref FILE`"
    )
    with checkpoint_errors(file, remedy):
        content = safe_read(file, max_file_bytes(shapes))
        _, metadata = read_header(io.BytesIO(content), len(content), shapes)
        tensors = from_bytes(content)
        for kind, part_LHD in tensors.items():
            if part_LHD.dtype != torch.float32:
                raise ValueError(f"{kind} is {part_LHD.dtype}: it must be float32")
            check_range(kind, part_LHD)
        if not _COUNT.fullmatch(sentences := metadata.get("sentences", "")):
            raise ValueError(
                f"its number of sentences is {sentences[:20]!r}, not a whole number from 1"
            )
    parts = {
        (kind, layer): part_HD.to(device)
        for kind in KINDS
        for layer, part_HD in enumerate(tensors[kind])
    }
    return HeadMeans(parts, int(sentences), printable(metadata.get("corpus", ""))[:200])
