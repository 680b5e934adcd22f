"""Hooks on the states of both sides and on the heads' outputs, and the edits that use them.

Axes: B batch row, N position of a side, D d_model, V vocabulary. Layer 0 is the embeddings.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from core.frozen import Doubles, Floats
from core.kinds import SIDES, Kind, Side
from core.model.interface import AttentionSite, Seq2Seq
from core.record.edits import EditError, Edits
from core.record.state_edits import Donor, HeadPatch, Patch, Push, RandomPush

Jacobians = Mapping[Side, Floats]
"""J by side, float32 [L + 1, D, D]: layer, row of the last state, column of the layer's state."""

AtState = Callable[[Side, int, Tensor], Tensor | None]
"""Gets side, layer and state [B, N, D] of a pass; what it returns replaces the state."""

AtHeads = Callable[[AttentionSite, Tensor], Tensor | None]
"""Gets a site and its heads' outputs [B, N, D], side by side; what it returns replaces them."""


@contextmanager
def at_states(model: Seq2Seq, change: AtState) -> Generator[None]:
    """Run `change` on every state of both sides in full passes, in the order of the pass.

    Threads share the hooks, so the caller must hold the model's lock.
    """

    def first(side: Side, module: nn.Module, args: tuple) -> tuple | None:
        changed = change(side, 0, args[0])
        return None if changed is None else (changed, *args[1:])

    def after(side: Side, layer: int, module: nn.Module, args: tuple, output: Tensor) -> Any:
        return change(side, layer, output)

    with ExitStack() as hooks:
        for side in SIDES:
            layers = model.stack(side).layers
            hooks.enter_context(layers[0].register_forward_pre_hook(partial(first, side)))
            for number, layer in enumerate(layers, start=1):
                hooks.enter_context(layer.register_forward_hook(partial(after, side, number)))
        yield


@contextmanager
def at_heads(sites: list[AttentionSite], change: AtHeads) -> Generator[None]:
    """Run `change` on the heads' outputs of these sites, in full passes and in decoding steps.

    In the baseline, this also replaces torch's fused attention, unless its softmax is edited.
    """
    with ExitStack() as stack:
        for site in sites:
            stack.callback(site.before_output(partial(change, site)))
        yield


class States:
    """The states of a pass, and the heads' outputs at some sites, as captured by `captured`."""

    def __init__(self) -> None:
        self.of_side: dict[Side, list[Tensor]] = {side: [] for side in SIDES}
        """L + 1 tensors [B, N, D] by side."""
        self.heads: dict[tuple[Kind, int], Tensor] = {}
        """[B, N, D] by site, the heads side by side."""


@contextmanager
def captured(model: Seq2Seq, sites: list[AttentionSite]) -> Generator[States]:
    """Capture every state, and the heads' outputs of these sites, of one pass."""
    states = States()

    def keep_state(side: Side, layer: int, state_BND: Tensor) -> None:
        states.of_side[side].append(state_BND)

    def keep_heads(site: AttentionSite, output_BND: Tensor) -> None:
        states.heads[site.kind, site.layer] = output_BND

    with at_states(model, keep_state), at_heads(sites, keep_heads):
        yield states


def donor_states(model: Seq2Seq, donor: Donor, sites: list[AttentionSite]) -> States:
    """Run the donor's pass; return its states, and the heads' outputs of these sites, with B = 1.

    The pass has no edits, unless the caller is inside `edited`.
    """
    device = next(model.parameters()).device
    with torch.inference_mode(False), torch.no_grad(), captured(model, sites) as states:
        source, target = (torch.tensor([ids], device=device) for ids in vars(donor).values())
        model.decode(target, *model.encode(source))
    return states


def random_direction(seed: int, length: int) -> Doubles:
    """Return a unit vector fixed by the seed, float64 [length].

    Each number is the sum of the four bytes of 32 random bits, minus its mean, before the division:
    whole numbers that the offline page draws too.
    """
    rng = random.Random(seed)
    numbers = np.array([sum(rng.getrandbits(32).to_bytes(4)) - 510 for _ in range(length)], float)
    return numbers / max(np.sqrt((numbers**2).sum()), 1.0)


def lens_direction(model: Seq2Seq, push: Push, jacobians: Jacobians) -> Doubles:
    """Return J_lᵀ(w_new − w_old) of a push, normalised, float64 [D]; 0 if it has no length."""
    weight_VD = model.embeddings.projection.weight
    difference_D = weight_VD[push.new].detach().double().cpu().numpy()
    if push.old is not None:
        difference_D = difference_D - weight_VD[push.old].detach().double().cpu().numpy()
    direction_D = difference_D @ jacobians[push.side][push.layer].astype(np.float64)
    length = np.sqrt((direction_D**2).sum())
    return direction_D / length if length else direction_D


class StateEdits:
    """The copies and pushes of `edits`, ready to be applied to a model."""

    def __init__(self, model: Seq2Seq, edits: Edits, jacobians: Jacobians | None = None) -> None:
        self._model = model
        self._edits = edits
        sites = {one.where[:2] for one in edits.head_patches}
        self.sites = [s for s in model.attention_sites() if (s.kind, s.layer) in sites]
        if edits.donor is not None and edits.copies:
            self._donor = donor_states(model, edits.donor, self.sites)
        self._pushed: dict[Push | RandomPush, Tensor] = {}
        like = next(model.parameters())
        for one in edits.pushes:
            if isinstance(one, RandomPush):
                direction_D = random_direction(one.seed, model.config.d_model)
            elif jacobians is None:
                raise EditError(
                    "a push towards a token needs the network's Jacobian lens, which is missing: "
                    "fit it with `python -m core.analyse lens`"
                )
            else:
                direction_D = lens_direction(model, one, jacobians)
            self._pushed[one] = torch.tensor(one.strength * direction_D).to(like)

    def changes(self, side: Side) -> bool:
        """Whether a state of this side is edited."""
        return any(one.side == side for one in (*self._edits.patches, *self._edits.pushes))

    def state(self, side: Side, layer: int, state_BND: Tensor, start: int = 0) -> Tensor | None:
        """Return the edited states of the positions from `start`, or None if there are no edits."""
        here = side, layer
        changed = None
        for one in (*self._edits.patches, *self._edits.pushes):
            place = one.position - start
            if (one.side, one.layer) != here or not 0 <= place < state_BND.shape[1]:
                if (one.side, one.layer) == here and side == "encoder":
                    raise EditError(_beyond(one.position, state_BND))
                continue
            changed = state_BND.clone() if changed is None else changed
            if isinstance(one, Patch):
                changed[:, place] = self._donor.of_side[side][layer][0, one.donor_position]
            else:
                changed[:, place] += self._pushed[one]
        return changed

    def heads(self, site: AttentionSite, output_BND: Tensor, start: int = 0) -> Tensor | None:
        """Return the edited heads' outputs of the queries from `start`, or None without edits."""
        changed = None
        for one in self._edits.head_patches:
            place = one.query - start
            if one.where[:2] != (site.kind, site.layer) or not 0 <= place < output_BND.shape[1]:
                if one.where[:2] == (site.kind, site.layer) and site.kind == "encoder":
                    raise EditError(_beyond(one.query, output_BND))
                continue
            changed = output_BND.clone() if changed is None else changed
            self._copy_head(site, one, changed[:, place])
        return changed

    def _copy_head(self, site: AttentionSite, one: HeadPatch, output_BD: Tensor) -> None:
        copied_D = self._donor.heads[site.kind, site.layer][0, one.donor_query]
        size = len(copied_D) // site.num_heads
        part = slice(one.head * size, (one.head + 1) * size)
        output_BD[:, part] = copied_D[part]


def _beyond(position: int, state_BND: Tensor) -> str:
    last = state_BND.shape[1] - 1
    return f"position {position} of the source cannot be edited: it ends at {last}"
