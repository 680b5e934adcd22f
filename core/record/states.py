"""Hooks on the states of both sides and on the heads' outputs, and the edits that use them.

Axes: B batch row, N position of a side, D d_model, V vocabulary. Layer 0 is the embeddings.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from core.frozen import Doubles, Floats
from core.kinds import SIDES, Kind, Side
from core.model.interface import AttentionSite, Seq2Seq
from core.record.placed import EditError
from core.record.state_edits import Donor, HeadPatch, Patch, Push, RandomPush, StateEdit

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


def donor_states(model: Seq2Seq, donor: Donor, rows: Sequence[Sequence[StateEdit]]) -> States:
    """Run the donor's pass; return all that the copies in `rows` need, with B = 1.

    The pass has no edits, unless the caller is inside `edited`.
    """
    device = next(model.parameters()).device
    sites = sites_of(model, rows)
    with torch.inference_mode(False), torch.no_grad(), captured(model, sites) as states:
        source, target = (torch.tensor([ids], device=device) for ids in vars(donor).values())
        model.decode(target, *model.encode(source))
    return states


def sites_of(model: Seq2Seq, rows: Sequence[Sequence[StateEdit]]) -> list[AttentionSite]:
    """Return the sites whose heads' outputs are copied."""
    at = {one.where[:2] for row in rows for one in row if isinstance(one, HeadPatch)}
    return [site for site in model.attention_sites() if (site.kind, site.layer) in at]


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
    """Copies and pushes, ready to be applied: those of each batch row, or one set for all rows.

    `donor` is what copies are made from, `jacobians` what pushes towards a token need.
    """

    def __init__(
        self,
        model: Seq2Seq,
        rows: Sequence[Sequence[StateEdit]],
        donor: States | None = None,
        jacobians: Jacobians | None = None,
    ) -> None:
        self.sites = sites_of(model, rows)
        self._donor = donor
        self._at: dict[tuple, list[tuple[int | slice, StateEdit, Tensor | None]]] = {}
        for r, row in enumerate(rows):
            for one in row:
                pushed = _pushed(model, one, jacobians) if isinstance(one, _PUSHES) else None
                at = self._at.setdefault((isinstance(one, HeadPatch), *one.where[:2]), [])
                at.append((r if len(rows) > 1 else slice(None), one, pushed))

    def state(self, side: Side, layer: int, state_BND: Tensor, start: int = 0) -> Tensor | None:
        """Return the edited states of the positions from `start`, or None if there are no edits."""
        return self._changed((False, side, layer), state_BND, start, 1)

    def heads(self, site: AttentionSite, output_BND: Tensor, start: int = 0) -> Tensor | None:
        """Return the edited heads' outputs of the queries from `start`, or None without edits."""
        return self._changed((True, site.kind, site.layer), output_BND, start, site.num_heads)

    def _changed(self, at: tuple, x_BND: Tensor, start: int, parts: int) -> Tensor | None:
        changed = None
        size = x_BND.shape[-1] // parts
        for rows, one, pushed_D in self._at.get(at, ()):
            is_head = isinstance(one, HeadPatch)
            position = one.query if is_head else one.position
            if not 0 <= (place := position - start) < x_BND.shape[1]:
                if at[1] == "encoder":
                    raise EditError(
                        f"position {position} of the source cannot be edited: it ends at "
                        f"{x_BND.shape[1] - 1}"
                    )
                continue
            changed = x_BND.clone() if changed is None else changed
            if pushed_D is not None:
                changed[rows, place] += pushed_D
            else:
                part = slice(one.head * size, (one.head + 1) * size) if is_head else slice(None)
                changed[rows, place, part] = self._copied(one)[part]
        return changed

    def _copied(self, one: StateEdit) -> Tensor:
        assert self._donor is not None
        if isinstance(one, HeadPatch):
            return self._donor.heads[one.kind, one.layer][0, one.donor_query]
        assert isinstance(one, Patch)
        return self._donor.of_side[one.side][one.layer][0, one.donor_position]


_PUSHES = Push, RandomPush


def _pushed(model: Seq2Seq, push: Push | RandomPush, jacobians: Jacobians | None) -> Tensor:
    """Return the vector that a push adds, [D]."""
    if isinstance(push, RandomPush):
        direction_D = random_direction(push.seed, model.config.d_model)
    elif jacobians is None:
        raise EditError(
            "a push towards a token needs the network's Jacobian lens, which is missing: fit it "
            "with `python -m core.analyse lens`"
        )
    else:
        direction_D = lens_direction(model, push, jacobians)
    return torch.tensor(push.strength * direction_D).to(next(model.parameters()))
