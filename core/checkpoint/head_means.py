"""The mean part of each head over a sample, in a file beside a checkpoint's weights."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load as from_bytes
from safetensors.torch import save
from torch import Tensor

from core.checkpoint.errors import about, quoted
from core.checkpoint.header import check_range, largest_file, read_header
from core.config import ModelConfig
from core.files import printable, read, write_atomic
from core.kinds import KINDS, Kind
from core.model.shapes import Shapes

FILE = "head_means.safetensors"


@dataclass(frozen=True)
class HeadMeans:
    """What each head of each attention adds to its output in the mean, without the bias.

    `parts` are [H, D] by kind and layer, over all queries of so many sentences of a corpus.
    """

    parts: Mapping[tuple[Kind, int], Tensor]
    sentences: int
    corpus: str


def save_means(folder: Path, means: HeadMeans) -> None:
    """Write them beside the weights, all or nothing: a tensor [L, H, D] for each kind."""
    tensors: dict[str, Tensor] = {}
    for kind in KINDS:
        layers = sorted(layer for of_kind, layer in means.parts if of_kind == kind)
        tensors[kind] = torch.stack([means.parts[kind, layer].cpu().float() for layer in layers])
    metadata = {"sentences": str(means.sentences), "corpus": means.corpus}
    write_atomic(folder / FILE, save(tensors, metadata))


def load_means(folder: Path, config: ModelConfig, device: str = "cpu") -> HeadMeans:
    """Read them for a network of this shape. Raises CheckpointError, one line: what, what to do.

    Nothing else of a checkpoint depends on this file.
    """
    file = folder / FILE
    L = {"encoder": config.num_encoder_layers}
    D, H, layers = config.d_model, config.num_heads, config.num_decoder_layers
    shapes: Shapes = {kind: (L.get(kind, layers), H, D) for kind in KINDS}
    remedy = (
        f"write it with `python -m core.analyse means --checkpoint {quoted(folder)} "
        "--src FILE --ref FILE`"
    )
    with about(file, remedy):
        content = read(file, largest_file(shapes))
        _, metadata = read_header(io.BytesIO(content), len(content), shapes)
        tensors = from_bytes(content)
        for kind, part_LHD in tensors.items():
            if part_LHD.dtype != torch.float32:
                raise ValueError(f"{kind} is {part_LHD.dtype}: it must be float32")
            check_range(kind, part_LHD)
        sentences = int(metadata.get("sentences", ""))
    parts = {
        (kind, layer): part_HD.to(device)
        for kind in KINDS
        for layer, part_HD in enumerate(tensors[kind])
    }
    return HeadMeans(parts, sentences, printable(metadata.get("corpus", ""))[:200])
