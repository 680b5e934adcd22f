"""Context managers that apply edits to a model, in full passes and in decoding steps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from core.config import PositionTable
from core.kinds import Kind, Side
from core.model.interface import AttentionSite, Call, Seq2Seq
from core.model.masks import causal_mask, padding_mask
from core.model.positions import LearnedPositions, NoPositions, sinusoids_at
from core.record.capture import before_attention
from core.record.edits import EditError, Edits, Limits, PositionEdit, Row
from core.record.states import Jacobians, StateEdits, at_heads, at_states, donor_states
from core.text.tokenizer import PAD

Means = Mapping[tuple[Kind, int], Tensor]
"""The mean output of each head of a site over a sample, [H, D]."""


class NestedEditsError(RuntimeError, EditError):
    """Raised when edits of the same target are nested, because precedence would be ambiguous."""


def source_mask(ids_BS: Tensor, edits: Edits = Edits()) -> Tensor:
    """Return the mask of source keys: ids [batch, length] → bool [batch, 1, 1, length]."""
    mask = padding_mask(ids_BS, PAD)
    if not edits.padding_mask:
        mask = torch.ones_like(mask)
    if max(edits.hidden_source, default=-1) >= mask.shape[-1]:
        raise EditError(
            f"position {max(edits.hidden_source)} cannot be hidden: there are {mask.shape[-1]} "
            "tokens"
        )
    mask[..., list(edits.hidden_source)] = False
    return mask


def target_mask(ids_BT: Tensor, edits: Edits = Edits()) -> Tensor:
    """Return the decoder's mask: ids [batch, length] → bool [batch, 1, length, length]."""
    padding, causal = padding_mask(ids_BT, PAD), causal_mask(ids_BT.shape[1], ids_BT.device)
    if not edits.padding_mask:
        padding = torch.ones_like(padding)
    if not edits.causal_mask:
        causal = torch.ones_like(causal)
    return padding & causal


@contextmanager
def edited(
    model: Seq2Seq, edits: Edits, means: Means | None = None, lens: Jacobians | None = None
) -> Generator[None]:
    """Apply edits inside the block, in full passes and in decoding steps.

    `means` are the mean head outputs for `heads_mean`, `lens` the matrices for pushes towards a
    token. The donor's pass runs once, on entry. The model is restored on exit, even after an
    exception. Threads share the model, so the caller must hold its lock. Raises EditError for heads
    that do not exist and for missing means or a missing lens. The block raises EditError for a
    position that the source or a learned table does not have. Raises NestedEditsError for nested
    edits of masks, of one side's positions, of one site's weights or of the decoder's states.
    """
    if problems := edits.fitting(limits_of(model))[1]:
        raise EditError(problems[0])
    states = None
    if of_states := [(*edits.copies, *edits.pushes)] * edits.changes_states:
        copied = donor_states(model, edits.donor, of_states) if edits.donor else None
        states = StateEdits(model, of_states, copied, lens)
    with ExitStack() as stack:
        for moved, module in (
            (edits.source_positions, model.embeddings.source_positions),
            (edits.target_positions, model.embeddings.target_positions),
        ):
            if moved != PositionEdit():
                if isinstance(module, NoPositions):
                    raise EditError(
                        "this network adds no positions to its embeddings: none can be changed"
                    )
                if any(isinstance(hook, _PositionHook) for hook in module._forward_hooks.values()):
                    raise NestedEditsError(
                        "the positions are already edited: position edits cannot be nested"
                    )
                stack.enter_context(module.register_forward_hook(_PositionHook(moved)))
        if edits.changes_masks:
            _change_masks(model, edits, stack)
        if edits.changes_weights:
            _change_weights(model, edits, stack)
        for site in model.attention_sites():
            _ablate_heads(site, edits, means, stack)
        if states is not None:
            decoder = any(one.side == "decoder" for one in (*edits.patches, *edits.pushes))
            _change_states(model, states, decoder, stack)
        yield


def limits_of(model: Seq2Seq, source_length: int | None = None) -> Limits:
    """Return the limits of a model and, optionally, of a source of `source_length` tokens."""
    c = model.config
    layers = c.num_encoder_layers, c.num_decoder_layers
    vocabs = c.source_vocab_size, c.target_vocab_size
    return Limits(*layers, c.num_heads, c.max_length, source_length, *vocabs, c.heads("decoder"))


def _ablate_heads(site: AttentionSite, edits: Edits, means: Means | None, stack: ExitStack) -> None:
    """Zero-ablate or mean-ablate the heads of a site."""
    here = site.kind, site.layer
    off, mean = (
        {head for *at, head in heads if tuple(at) == here}
        for heads in (edits.heads_off, edits.heads_mean)
    )
    mean_D = None
    if mean:
        if means is None or here not in means:
            raise EditError(
                f"{site.kind} layer {site.layer}, head {min(mean)} cannot be set to its mean, "
                "which is missing: compute it with `python -m core.analyse means`"
            )
        mean_D = means[here][sorted(mean)].sum(0)
    if off or mean:
        stack.enter_context(_zeroed_heads(site, frozenset(off | mean), mean_D))


@contextmanager
def _zeroed_heads(
    site: AttentionSite, heads: frozenset[int], mean_D: Tensor | None = None
) -> Generator[None]:
    """Zero these heads' columns of a site's output projection, and add `mean_D` to the bias.

    Both models multiply by this projection in full passes and in decoding steps, so swapping its
    data covers all cases. The original data are restored on exit.
    """
    module: Any = site.module
    weight, bias = site.projections().output
    added = bias is None and mean_D is not None
    if added:  # a network without biases, which only the scratch model can be
        with torch.inference_mode(False):
            bias = module.output.bias = nn.Parameter(weight.new_zeros(len(weight)), False)
    tensors = [weight] if bias is None else [weight, bias]
    before = [tensor.data for tensor in tensors]
    with torch.inference_mode(False), torch.no_grad():
        changed = [data.clone() for data in before]
        changed[0].unflatten(1, (site.num_heads, -1))[:, sorted(heads)] = 0
        if mean_D is not None and bias is not None:
            changed[1] += mean_D.clone().to(bias)
    try:
        for tensor, data in zip(tensors, changed, strict=True):
            tensor.data = data
        yield
    finally:
        for tensor, data in zip(tensors, before, strict=True):
            tensor.data = data
        if added:
            module.output.bias = None


@dataclass(frozen=True)
class _PositionHook:
    """A forward hook that replaces the rows of a position table."""

    edit: PositionEdit

    def __call__(self, module: nn.Module, args: tuple[int, ...], table_LD: Tensor) -> Tensor:
        start = args[1] if len(args) > 1 else 0
        rows = torch.tensor(self.edit.rows(start, args[0]), device=table_LD.device)
        return self.edit.scale * _rows(module, rows, table_LD)


def _rows(module: nn.Module, rows_N: Tensor, like: Tensor) -> Tensor:
    """Return rows of a position table. Raises EditError for rows that a learned table lacks."""
    kind: PositionTable = getattr(module, "kind", "paper")
    if isinstance(module, LearnedPositions):
        if len(rows_N) and not 0 <= rows_N.min() <= rows_N.max() < len(module.weight):
            raise EditError(
                f"position {int(rows_N.max() if rows_N.min() >= 0 else rows_N.min())} was never "
                f"learned: this model's table holds 0 to {len(module.weight) - 1}, so shift or "
                "stretch by less"
            )
        return module.weight[rows_N]
    return sinusoids_at(rows_N.cpu(), like.shape[-1], kind).to(like.dtype).to(like.device)


def _change_masks(model: Seq2Seq, edits: Edits, stack: ExitStack) -> None:
    """Pass edited masks to self-attention; cross-attention gets the mask that `encode` returns.

    This covers decoding steps too: they attend to the generated tokens without a mask, and to the
    source with the mask from `encode`.
    """
    if "encode" in vars(model):
        raise NestedEditsError("the masks are already edited: mask edits cannot be nested")
    masks: dict[Kind, Tensor] = {}
    encode, decode = model.encode, model.decode

    def edited_encode(source_BS: Tensor) -> tuple[Tensor, Tensor]:
        masks["encoder"] = source_mask(source_BS, edits)
        return encode(source_BS)[0], masks["encoder"]

    def edited_decode(target_BT: Tensor, memory_BSD: Tensor, mask: Tensor) -> Tensor:
        masks["decoder"] = target_mask(target_BT, edits)
        return decode(target_BT, memory_BSD, mask)

    for name, method in (("encode", edited_encode), ("decode", edited_decode)):
        vars(model)[name] = method  # shadows the class's method
        stack.callback(vars(model).pop, name)

    def with_mask(site: AttentionSite, call: Call) -> Call:
        return site.with_mask(call, masks[site.kind], edits.causal_mask)

    own = [site for site in model.attention_sites() if site.kind != "cross"]
    stack.enter_context(before_attention(own, with_mask))


class _TargetRange:
    """A pre-hook on the target's position table that records which positions are being computed.

    In a full pass these are 0 to T−1. In a decoding step it is a single position, which all
    hypotheses share.
    """

    def __init__(self) -> None:
        self.start, self.length = 0, 0

    def __call__(self, module: nn.Module, args: tuple[int, ...]) -> None:
        self.start, self.length = args[1] if len(args) > 1 else 0, args[0]


def _change_states(model: Seq2Seq, edits: StateEdits, of_decoder: bool, stack: ExitStack) -> None:
    """Copy and push states and heads' outputs."""
    targets = _TargetRange()
    table = model.embeddings.target_positions
    stack.enter_context(table.register_forward_pre_hook(targets))

    def change(side: Side, layer: int, state_BND: Tensor) -> Tensor | None:
        return edits.state(side, layer, state_BND, 0 if side == "encoder" else targets.start)

    def change_step(layer: int, state_B1D: Tensor) -> Tensor:
        changed = change("decoder", layer, state_B1D)
        return state_B1D if changed is None else changed

    def change_heads(site: AttentionSite, output_BND: Tensor) -> Tensor | None:
        return edits.heads(site, output_BND, 0 if site.kind == "encoder" else targets.start)

    stack.enter_context(at_states(model, change))
    if of_decoder:
        if "change_state" in vars(model):
            raise NestedEditsError("the decoder's states are already edited: they cannot be nested")
        vars(model)["change_state"] = change_step  # shadows the class's method
        stack.callback(vars(model).pop, "change_state")
    stack.enter_context(at_heads(edits.sites, change_heads))


def _change_weights(model: Seq2Seq, edits: Edits, stack: ExitStack) -> None:
    """Override the softmax at the edited sites only."""
    targets, limits = _TargetRange(), limits_of(model)
    table = model.embeddings.target_positions
    stack.enter_context(table.register_forward_pre_hook(targets))
    for site in model.attention_sites():
        site_edits = edits.of_site(site.kind, site.layer)
        if site_edits.changes_weights:
            try:
                softmax = _EditedSoftmax(site, site_edits, targets, limits)
                undo = site.override_softmax(softmax)
            except RuntimeError as error:
                raise NestedEditsError(str(error)) from None
            stack.callback(undo)


@dataclass(frozen=True)
class _EditedSoftmax:
    """Compute weights from scores and a mask, under the edits of one site.

    Axes: B batch row, H head, Q query, K key.
    """

    site: AttentionSite
    edits: Edits
    targets: _TargetRange
    limits: Limits

    @cached_property
    def temperatures(self) -> Tensor:
        """The temperature of each head, [H, 1, 1]."""
        values = torch.ones(self.site.num_heads, 1, 1, dtype=torch.float64)
        for one in self.edits.temperatures:
            values[one.head] = one.value
        return values

    @cached_property
    def uniform(self) -> Tensor:
        """Which heads attend uniformly, bool [H, 1, 1]."""
        is_uniform = torch.zeros(self.site.num_heads, 1, 1, dtype=torch.bool)
        is_uniform[[head for _, _, head in self.edits.heads_uniform]] = True
        return is_uniform

    def __call__(self, scores_BHQK: Tensor, mask: Tensor) -> Tensor:
        Q, K = scores_BHQK.shape[-2:]
        dtype, device = scores_BHQK.dtype, scores_BHQK.device
        if self.min_source_length > K:
            limits = dataclasses.replace(self.limits, source_length=K)
            raise EditError(self.edits.fitting(limits)[1][0])
        start, length = self.targets.start, self.targets.length
        if self.site.kind == "encoder":
            start, length = 0, Q
        scores_BHQK = scores_BHQK / self.temperatures.to(dtype).to(device)
        scores_BHQK = scores_BHQK.masked_fill(self.uniform.to(device), 0.0)
        bias = self._bias(start, length, K).to(dtype).to(device)
        cells = mask & (bias > -math.inf)
        empty = ~cells.any(-1, keepdim=True)
        scores_BHQK = (scores_BHQK + bias).masked_fill(~cells, -math.inf)
        weights_BHQK = scores_BHQK.masked_fill(empty, 0.0).softmax(-1).masked_fill(~cells, 0.0)
        if here := [row for row in self.edits.rows if start <= row.query < start + length]:
            rows, is_set = self._rows(here, start, length, K)
            rows = rows.to(dtype).to(device) * mask
            rows = rows / rows.sum(-1, keepdim=True).clamp(min=1e-12)
            weights_BHQK = torch.where(is_set.to(device), rows, weights_BHQK)
        return weights_BHQK

    @cached_property
    def min_source_length(self) -> int:
        """The number of source tokens that the edits of this site require."""
        if self.site.kind == "decoder":
            return 0
        positions = [edge.key for edge in self.edits.edges]
        positions += [
            k for row in self.edits.rows for k, weight in enumerate(row.weights) if weight
        ]
        if self.site.kind == "encoder":
            positions += [one.query for one in (*self.edits.edges, *self.edits.rows)]
        return 1 + max((p for p in positions if p is not None), default=-1)

    def _bias(self, start: int, length: int, K: int) -> Tensor:
        """Return ln(factor) of each cell [H, Q, K] for `length` queries from `start`; −∞ cuts."""
        bias = torch.zeros(self.site.num_heads, length, K, dtype=torch.float64)
        for edge in self.edits.edges:
            if edge.query is None or start <= edge.query < start + length:
                query = None if edge.query is None else edge.query - start
                bias[_slice(edge.head), _slice(query), _slice(edge.key)] += (
                    math.log(edge.factor) if edge.factor else -math.inf
                )
        return bias

    def _rows(self, rows: list[Row], start: int, length: int, K: int) -> tuple[Tensor, Tensor]:
        """Return the weights of the edited rows [H, Q, K], and which rows are edited [H, Q, 1]."""
        weights = torch.zeros(self.site.num_heads, length, K, dtype=torch.float64)
        is_set = torch.zeros(self.site.num_heads, length, 1, dtype=torch.bool)
        for row in rows:
            row_K = torch.tensor(row.weights[:K], dtype=torch.float64)
            weights[row.head, row.query - start, : len(row_K)] = row_K
            is_set[row.head, row.query - start] = True
        return weights, is_set


def _slice(index: int | None) -> slice:
    """Return the slice of one index of an axis, or of the whole axis for None."""
    return slice(None) if index is None else slice(index, index + 1)
