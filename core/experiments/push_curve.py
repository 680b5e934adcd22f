"""Two words' probabilities as one state is pushed further and further, beside random directions.

Axes: K strengths, R random directions, D d_model, N position of a side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from core.checkpoint.lens import load_lens
from core.experiments.experiment import Ids, of_pass
from core.experiments.jacobian_lens import Network
from core.frozen import Doubles, Frozen
from core.kinds import Side
from core.model.interface import Seq2Seq
from core.record.edits import Push
from core.record.record import TranslationRecord
from core.record.states import Jacobians, at_states, lens_direction, random_direction
from core.text.tokenizer import BOS

STEPS = 16
LIKELY = 200
"""Words, the most probable ones, of which one may replace another."""
LONGEST = 1.5
"""The largest strength, in lengths of the state."""


@dataclass(frozen=True, eq=False)
class PushCurve(Frozen):
    """The probabilities of `old` and `new` at one step, after the same prefix, by strength.

    `strengths` [K] rise from 0 by a round number to about `LONGEST` times `length`, the length of
    the state itself. `old` and `new` [K] are for the lens's direction, `random_old` and
    `random_new` [R, K] for random directions of the same length.
    """

    strengths: Doubles
    length: float
    old: Doubles
    new: Doubles
    random_old: Doubles
    random_new: Doubles


def push_curve(
    translator: Network, record: TranslationRecord, push: Push, step: int, seeds: int = 20
) -> PushCurve:
    """Push a state of a record's pass as `push` does, at many strengths; its own is ignored.

    `step` is that of the target token, from 0; random directions have the seeds from 0. Raises
    CheckpointError without a lens.
    """
    return curve(translator, record, load_lens(translator.card).jacobians, push, step, seeds)


@of_pass
@torch.inference_mode()
def curve(
    model: Seq2Seq,
    source: Ids,
    target: Ids,
    jacobians: Jacobians,
    push: Push,
    step: int,
    seeds: int,
) -> PushCurve:
    """Compute `push_curve`: (model, source, target, …), or (translator, record, …)."""
    device = next(model.parameters()).device
    source_1S = torch.tensor([list(source)], device=device)
    fed_1T = torch.tensor([[BOS, *target[:step]]], device=device)
    old = push.new if push.old is None else push.old
    lengths: list[float] = []

    def probabilities(pushes_KD: Tensor) -> Doubles:
        """Return those of old and new under each push, [2, K]."""

        def change(side: Side, layer: int, state_BND: Tensor) -> Tensor | None:
            if (side, layer) != (push.side, push.layer):
                return None
            lengths.append(float(state_BND[0, push.position].norm()))
            state_BND = state_BND.clone()
            state_BND[:, push.position] += pushes_KD.to(state_BND)
            return state_BND

        K = len(pushes_KD)
        with at_states(model, change):
            memory, mask = model.encode(source_1S.expand(K, -1))
            hidden_KTD = model.decode(fed_1T.expand(K, -1), memory, mask)
        chances_KV = model.classify(hidden_KTD[:, -1]).double().softmax(-1)
        return chances_KV[:, [old, push.new]].T.cpu().numpy()

    directions = [lens_direction(model, push, jacobians)]
    directions += [random_direction(seed, model.config.d_model) for seed in range(seeds)]
    probabilities(torch.zeros(1, model.config.d_model))
    strengths = np.arange(STEPS + 1, dtype=np.float64) * float(
        f"{LONGEST * lengths[0] / STEPS:.1g}"
    )
    found = np.stack([probabilities(torch.tensor(np.outer(strengths, d))) for d in directions])
    (old_K, new_K), randoms = found[0], found[1:]
    return PushCurve(strengths, lengths[0], old_K, new_K, randoms[:, 0], randoms[:, 1])


@of_pass
@torch.inference_mode()
def replacements(
    model: Seq2Seq, source: Ids, target: Ids, step: int, count: int = 40
) -> tuple[tuple[int, int], ...]:
    """Return target ids that may replace the one at `step`, each with what follows it.

    Of the `LIKELY` most probable ids after the same prefix, they are those most similar to it, by
    the cosine of centred output vectors. What follows is the most probable next id: one that
    continues the word tells that the first is a piece.
    """
    device = next(model.parameters()).device
    memory, mask = model.encode(torch.tensor([list(source)], device=device))

    def following(fed: list[list[int]]) -> Tensor:
        fed_KT = torch.tensor(fed, device=device)
        K = len(fed)
        hidden_KTD = model.decode(fed_KT, memory.expand(K, -1, -1), mask.expand(K, -1, -1, -1))
        return model.classify(hidden_KTD[:, -1])

    prefix, old = [BOS, *target[:step]], target[step]
    (logits_V,) = following([prefix])
    weight_VD = model.embeddings.projection.weight.float()
    centred_VD = weight_VD - weight_VD.mean(dim=0)
    likely = logits_V.topk(min(LIKELY, len(logits_V))).indices
    cosines = torch.cosine_similarity(centred_VD[likely], centred_VD[old], dim=-1)
    best = likely[cosines.argsort(descending=True)].tolist()
    ids = [one for one in best if one != old][:count]
    after = following([[*prefix, one] for one in ids]).argmax(dim=-1).tolist()
    return tuple(zip(ids, after, strict=True))
