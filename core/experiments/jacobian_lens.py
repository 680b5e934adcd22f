"""Jacobian lens: read any state by its mean effect on the decoder's last state.

Axes: B sentence, N position of a side, T target position, D d_model, V vocabulary, K best tokens.

For layer l of a side (0: the embeddings), J_l = E[Σ_t ∂ last[t] / ∂ state_l[n]], the mean over the
sentences of a corpus and their positions n, [D, D]. `last` is the decoder's state before its final
norm. A state h is read as softmax(classify(norm(J_l h))), with the network's own norm and
classifier.

Source: Gurnee et al. 2026, "Verbalizable Representations Form a Global Workspace". Two things
differ. Their network is a decoder; here, the encoder's states have such a matrix too, which goes
through all cross-attentions. And the passes are teacher-forced on the network's own greedy output,
whose positions t are summed, so that a source token may affect any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.checkpoint.folder import Card
from core.checkpoint.lens import load_lens
from core.data.batches import Batch, collate
from core.experiments.experiment import Ids, Owner, of_pass
from core.frozen import Doubles, Frozen
from core.kinds import SIDES, Side
from core.model.interface import Seq2Seq
from core.record.record import TranslationRecord
from core.record.states import Jacobians, at_states
from core.text.tokenizer import PAD

if TYPE_CHECKING:
    from pandas import DataFrame

BEST = 5
"""How many of the most probable tokens a state is said to say."""


@dataclass(frozen=True, eq=False)
class Reading(Frozen):
    """What the states of one side say: `ids` [L + 1, N, K], most probable first.

    Their `probabilities` [L + 1, N, K] are those of the read state, not calibrated. `ranks`
    [L + 1, N, T] are the ranks, from 1, of the target's T tokens, or of others that were asked for.
    `logit_ids` [L + 1, N, K] are the most probable tokens by the logit lens, which reads a state as
    it is.
    """

    ids: NDArray[np.int64]
    probabilities: Doubles
    ranks: NDArray[np.int64]
    logit_ids: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Readings(Frozen):
    """The readings of a pass: `encoder` at the S source tokens, `decoder` at the T fed tokens."""

    encoder: Reading
    decoder: Reading

    def to_dataframe(self) -> DataFrame:
        """Return a row per side, layer, position and rank, all but the rank counted from 0."""
        from pandas import DataFrame, concat

        frames = []
        for side in SIDES:
            reading: Reading = getattr(self, side)
            names = ("layer", "position", "rank")
            at = dict(zip(names, np.indices(reading.ids.shape).reshape(3, -1), strict=True))
            at["rank"] += 1
            numbers = {name: getattr(reading, name).ravel() for name in ("ids", "probabilities")}
            frames.append(DataFrame({"side": side, **at, **numbers}))
        return concat(frames, ignore_index=True)


class Network(Owner, Protocol):
    """Anything with a network and its checkpoint's card, such as a Translator."""

    @property
    def card(self) -> Card: ...


def jacobian_lens(
    translator: Network, record: TranslationRecord, tokens: Ids | None = None
) -> Readings:
    """Read every state of a record's pass with the lens in the network's checkpoint folder.

    The ranks are those of target ids `tokens`, by default of the target's own.

    Raises CheckpointError without a lens for these weights: `core.analyse lens` writes one.
    """
    return readings(translator, record, load_lens(translator.card).jacobians, tokens)


@of_pass
@torch.inference_mode()
def readings(
    model: Seq2Seq, source: Ids, target: Ids, jacobians: Jacobians, tokens: Ids | None = None
) -> Readings:
    """Read every state of a pass: (translator, record, jacobians), or (model, source, target, …).

    Edits of the record are applied. `jacobians` come from `core.checkpoint.lens`. The ranks are
    those of `tokens`, by default of the target's.
    """
    batch = collate([(list(source), list(target))]).to(next(model.parameters()).device)
    states = layer_states(model, batch)
    written_T = torch.tensor(list(target if tokens is None else tokens), device=batch.source.device)

    def reading(side: Side) -> Reading:
        found = []
        for state_BND, J_DD in zip(states[side], jacobians[side], strict=True):
            logits_NV = read(model, state_BND[0], J_DD)
            best = logits_NV.double().softmax(-1).topk(min(BEST, logits_NV.shape[-1]))
            own_NT = logits_NV[:, written_T].contiguous()
            at_most_NT = torch.searchsorted(logits_NV.sort(-1).values, own_NT, right=True)
            ranks_NT = 1 + logits_NV.shape[-1] - at_most_NT
            logit_ids_NK = read(model, state_BND[0]).topk(best.indices.shape[-1]).indices
            found.append((best.indices, best.values, ranks_NT, logit_ids_NK))
        return Reading(*(torch.stack(part).cpu().numpy() for part in zip(*found, strict=True)))

    return Readings(reading("encoder"), reading("decoder"))


def read(model: Seq2Seq, state: Tensor, J_DD: NDArray[Any] | None = None) -> Tensor:
    """Return the logits that states [..., D] are read as; without J, by the logit lens."""
    if J_DD is not None:
        state = state @ torch.as_tensor(np.array(J_DD), dtype=state.dtype, device=state.device).T
    return model.classify(model.stack("decoder").norm(state))


def layer_states(model: Seq2Seq, batch: Batch, graph: bool = False) -> dict[Side, list[Tensor]]:
    """Run a pass; return each side's embeddings and layer outputs, L + 1 tensors [B, N, D].

    With `graph`, the states are linked for autograd, and both sides' embeddings are leaves. The
    caller must hold the model's lock, because hooks are process-wide.
    """
    states: dict[Side, list[Tensor]] = {side: [] for side in SIDES}

    def keep(side: Side, layer: int, state_BND: Tensor) -> Tensor | None:
        if layer == 0:
            state_BND = state_BND.detach().requires_grad_(graph)
        states[side].append(state_BND)
        return state_BND if layer == 0 else None

    with torch.set_grad_enabled(graph), at_states(model, keep):
        memory_BSD, mask = model.encode(batch.source)
        model.decode(batch.target_in, memory_BSD, mask)
    return states


def positions(batch: Batch) -> dict[Side, Tensor]:
    """Return which positions of a padded batch hold a token, bool [B, N]."""
    return {"encoder": batch.source != PAD, "decoder": batch.target_in != PAD}


@torch.enable_grad()
def jacobian_sums(model: Seq2Seq, batch: Batch) -> dict[str, NDArray[Any]]:
    """Return the sums over a batch whose quotients are the lens.

    By side: NAME_jacobians, float64 [L + 1, D, D], Σ_n Σ_t ∂ last[t, row] / ∂ state[n, column], and
    NAME_positions, the number of positions n.
    """
    states = layer_states(model, batch, graph=True)
    real = positions(batch)
    last_BTD = states["decoder"][-1]
    total_D = (last_BTD * real["decoder"][..., None]).sum((0, 1))
    inputs = [state for side in SIDES for state in states[side]]
    rows: list[list[Tensor]] = [[] for _ in inputs]
    for d in range(len(total_D)):
        grads = torch.autograd.grad(total_D[d], inputs, retain_graph=True)
        for row, grad_BND in zip(rows, grads, strict=True):
            row.append(grad_BND.sum((0, 1)))  # padding has no effect, so its gradient is 0
    sums: dict[str, NDArray[Any]] = {}
    for side in SIDES:
        count = len(states[side])
        of_side, rows = rows[:count], rows[count:]
        total_LDD = torch.stack([torch.stack(row) for row in of_side])
        sums[f"{side}_jacobians"] = total_LDD.double().cpu().numpy()
        sums[f"{side}_positions"] = np.array(int(real[side].sum()), np.int64)
    return sums
