"""Position experiments: word order without positions, and positions beyond those in training."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from core.experiments.experiment import model_inputs, of_pass, of_source
from core.frozen import Doubles, Frozen
from core.model.interface import Seq2Seq
from core.record.capture import capture
from core.record.editing import edited
from core.record.edits import OFF, Edits, PositionEdit


@torch.inference_mode()
def position_encodings(model: Seq2Seq, length: int) -> NDArray[np.float32]:
    """Return the first rows of the source's position table: [length, d_model]."""
    return model.embeddings.source_positions(length).detach().float().cpu().numpy().copy()


@dataclass(frozen=True, eq=False)
class Equivariance(Frozen):
    """The encoder's maps for a sentence x and for the same words in another order, Px.

    `order[i]` is the position in x of the i-th word of Px. Maps are [layer, head, query, key].
    `moved_maps` are the maps of x with rows and columns permuted to the new order. They equal
    `new_maps`, the maps of Px, if order does not matter. `map_difference` is the largest absolute
    difference between the two; `output_difference` compares the encoder's outputs in the same way.
    """

    order: tuple[int, ...]
    moved_maps: NDArray[np.float32]
    new_maps: NDArray[np.float32]
    map_difference: float
    output_difference: float


@of_source
@torch.inference_mode()
def equivariance(
    model: Seq2Seq, source: Sequence[int], order: Sequence[int], positions: bool
) -> Equivariance:
    """Encode x and Px, with positions or without.

    Call it with (translator, record, order, positions), or with (model, source, order, positions).
    """
    device = next(model.parameters()).device
    x = torch.tensor([list(source)], device=device)
    order = list(order)
    edits = Edits() if positions else Edits(source_positions=OFF)
    with edited(model, edits):
        (output, maps), (new_output, new_maps) = (_encode(model, ids) for ids in (x, x[:, order]))
    moved = maps[..., order, :][..., order]
    return Equivariance(
        order=tuple(order),
        moved_maps=moved,
        new_maps=new_maps,
        map_difference=float(np.abs(moved - new_maps).max()),
        output_difference=float(np.abs(output[order] - new_output).max()),
    )


def _encode(model: Seq2Seq, source_1S: torch.Tensor) -> tuple[NDArray, NDArray]:
    with capture(model) as captured:
        memory = model.encode(source_1S)[0][0]
    return memory.cpu().numpy(), captured.maps("encoder")[:, 0].cpu().numpy()


@dataclass(frozen=True, eq=False)
class Extrapolation(Frozen):
    """The mean probability of a given target's tokens when every position is moved by `shift`."""

    shift: NDArray[np.int64]
    probability: Doubles


@of_pass
@torch.inference_mode()
def extrapolation(
    model: Seq2Seq, source: Sequence[int], target: Sequence[int], shifts: Sequence[int]
) -> Extrapolation:
    """Run one sentence and its target, both ending with <eos>, at shifted positions.

    Only the positions change, so any loss in probability is caused by them. Call it with
    (translator, record, shifts), or with (model, source, target, shifts). Raises EditError for a
    shift beyond a learned table.
    """
    inputs = model_inputs(model, source, target)
    following = torch.tensor(list(target))[:, None]
    means = []
    for shift in shifts:
        moved = PositionEdit(shift=shift)
        with edited(model, Edits(source_positions=moved, target_positions=moved)):
            logits = model(*inputs)[0]
        means.append(logits.cpu().double().softmax(-1).gather(1, following).mean().item())
    return Extrapolation(np.array(shifts), np.array(means))
