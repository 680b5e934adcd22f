"""The mean part of each head over a sample, in a file beside a checkpoint's weights."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from core.checkpoint.folder import CheckpointError
from core.config import ModelConfig
from core.files import write_atomic
from core.model.interface import KINDS, Kind

FILE = "head_means.safetensors"
_MAX_HEADER_BYTES = 1 << 16


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
    shapes = {kind: (L.get(kind, layers), H, D) for kind in KINDS}
    remedy = (
        f"write it with `python -m core.analyse means --checkpoint {shlex.quote(str(folder))} "
        "--src FILE --ref FILE`"
    )
    if not file.is_file():
        raise CheckpointError(
            f"the mean of a head is known from {file}, which is missing: {remedy}"
        )
    try:
        size = sum(map(math.prod, shapes.values())) * 8 + _MAX_HEADER_BYTES
        if file.stat().st_size > size:
            raise ValueError(f"larger than {size:,} bytes")
        with safe_open(file, "pt") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        if set(tensors) != set(shapes):
            raise ValueError(f"it holds {', '.join(sorted(tensors))[:80]}")
        for kind, shape in shapes.items():
            if tuple(tensors[kind].shape) != shape:
                raise ValueError(f"{kind} is {list(tensors[kind].shape)}, not {list(shape)}")
            if tensors[kind].dtype != torch.float32 or not tensors[kind].isfinite().all():
                raise ValueError(f"{kind} holds values that are no finite float32")
        sentences = int(metadata.get("sentences", ""))
    except Exception as error:  # whatever a stranger's file makes of the library that reads it
        said = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{file} is damaged ({said}): {remedy}") from None
    parts = {
        (kind, layer): part_HD.to(device)
        for kind in KINDS
        for layer, part_HD in enumerate(tensors[kind])
    }
    return HeadMeans(parts, sentences, str(metadata.get("corpus", ""))[:200])
