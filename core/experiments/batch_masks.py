"""The masks passed to every attention in one forward pass of a padded batch."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from core.data.batches import Batch, pad
from core.frozen import Bools, Frozen
from core.kinds import KINDS, Kind
from core.model.interface import Seq2Seq
from core.model.masks import causal_mask, padding_mask, target_mask
from core.record.activations import masks
from core.text.tokenizer import PAD

MAX_ROWS = 6
MAX_LENGTH = 128

Rows = Sequence[Sequence[int]]
Part = Literal["padding", "causal", "combined"]


class BatchError(ValueError):
    """Raised for a batch that cannot be shown, with a one-line user-facing message."""


@dataclass(frozen=True)
class Shape:
    """The shape in which the model stores a mask, and the one it is broadcast to."""

    name: str
    stored: tuple[int, ...]
    broadcast: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class BatchMasks(Frozen):
    """A padded batch of ids and its masks; B sentences, S source and T target-in length.

    `source` [B, S] and `target_in` [B, T] are the ids fed in. `masks` holds, by kind of attention,
    the mask [B, Q, K] passed to each of its layers, True = may attend. `shapes` lists the shapes in
    which the model stores the masks.
    """

    source: NDArray[np.int64]
    target_in: NDArray[np.int64]
    masks: dict[Kind, Bools]
    shapes: tuple[Shape, ...]

    def part(self, kind: Kind, row: int, part: Part) -> Bools:
        """Return one sentence's padding mask, causal mask, or both combined: [Q, K]."""
        keys = (self.target_in if kind == "decoder" else self.source)[row]
        Q, K = self.masks[kind].shape[1:]
        if part == "combined":
            return self.masks[kind][row]
        if part == "causal":
            return causal_mask(Q).numpy() if kind == "decoder" else np.ones((Q, K), bool)
        return padding_mask(torch.tensor(keys)[None], PAD)[0, 0].expand(Q, K).numpy()


def parse_rows(text: str) -> list[list[int]]:
    """Parse ids, one row per line, with or without commas and brackets. Raises BatchError."""
    rows = []
    for number, line in enumerate(filter(str.strip, text.splitlines()), start=1):
        numbers = re.findall(r"[0-9]+", line)
        if re.search(r"[^0-9\[\]\s,]", line) or not numbers or max(map(len, numbers)) > 6:
            raise BatchError(f"row {number} is not a list of ids: write numbers, such as [1, 5, 0]")
        rows.append([int(digits) for digits in numbers])
    return rows


def check_count(count: int, what: str) -> None:
    """Raise BatchError for more rows than can be shown; `what` names them in the plural."""
    if count > MAX_ROWS:
        raise BatchError(
            f"{count:,} {what} are too many: the limit is {MAX_ROWS}, remove some lines"
        )


def batch_masks(model: Seq2Seq, source: Rows, target_in: Rows) -> BatchMasks:
    """Run a batch once and record the mask passed to every attention.

    Shorter rows are padded. Raises BatchError for an empty row, for too many or too long rows, for
    unknown ids, and if the sides differ in their number of rows. Raises RuntimeError if layers of
    one kind receive different masks.
    """
    sizes = model.config.source_vocab_size, model.config.target_vocab_size
    for rows, size, side in zip((source, target_in), sizes, ("source", "target"), strict=True):
        _check(rows, size, side)
    if len(source) != len(target_in):
        raise BatchError(
            f"{len(source)} source rows and {len(target_in)} target rows: the numbers must match"
        )
    device = next(model.parameters()).device
    source_BS, target_BT = (pad([list(r) for r in rows]).to(device) for rows in (source, target_in))
    by_kind: dict[Kind, Bools] = {}
    for kind, mask in masks(model, Batch(source_BS, target_BT, target_BT)):
        passed = mask.cpu().numpy().copy()
        if not np.array_equal(by_kind.setdefault(kind, passed), passed):
            raise RuntimeError(f"the {kind} layers receive different masks")
    return BatchMasks(
        source=source_BS.cpu().numpy(),
        target_in=target_BT.cpu().numpy(),
        masks={kind: by_kind[kind] for kind in KINDS},
        shapes=_shapes(model, source_BS, target_BT),
    )


def _check(rows: Rows, vocabulary: int, side: str) -> None:
    if not rows or not all(rows):
        raise BatchError(f"the {side} has an empty row: type at least one token per row")
    check_count(len(rows), f"{side} rows")
    if (longest := max(map(len, rows))) > MAX_LENGTH:
        raise BatchError(
            f"a {side} row of {longest} tokens is too long to draw: the limit is {MAX_LENGTH}"
        )
    if (largest := max(map(max, rows))) >= vocabulary:
        raise BatchError(
            f"id {largest} is not in the {side} vocabulary: its ids end at {vocabulary - 1}"
        )


def _shapes(model: Seq2Seq, source_BS: torch.Tensor, target_BT: torch.Tensor) -> tuple[Shape, ...]:
    (B, S), T, config = source_BS.shape, target_BT.shape[1], model.config
    H = config.heads("decoder")
    with torch.inference_mode():
        stored = tuple(model.encode(source_BS)[1].shape)
    return (
        Shape("source mask in the encoder", stored, (B, config.num_heads, S, S)),
        Shape("source mask in cross-attention", stored, (B, H, T, S)),
        Shape("target mask: padding", tuple(padding_mask(target_BT, PAD).shape), (B, H, T, T)),
        Shape("target mask: causal", tuple(causal_mask(T).shape), (B, H, T, T)),
        Shape("target mask: both", tuple(target_mask(target_BT, PAD).shape), (B, H, T, T)),
    )
