"""Apply edits to a model inside a `with` block: in whole passes and in the steps of a search."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from core.kinds import Kind
from core.model.interface import AttentionSite, Call, Seq2Seq
from core.model.masks import causal_mask, padding_mask
from core.model.positions import LearnedPositions, sinusoids_at
from core.record.edits import EditError, Edits, Limits, PositionEdit, Row
from core.text.tokenizer import PAD

Means = Mapping[tuple[Kind, int], Tensor]
"""The mean part of each head of a site, [H, D], over a sample."""


class NestedEditsError(RuntimeError, EditError):
    """A second edit of one thing inside a first: which one holds would be unsaid."""


def source_mask(ids_BS: Tensor, edits: Edits = Edits()) -> Tensor:
    """Which source tokens may be looked at: ids [batch, length] → bool [batch, 1, 1, length]."""
    mask = padding_mask(ids_BS, PAD)
    if not edits.padding_mask:
        mask = torch.ones_like(mask)
    if max(edits.hidden_source, default=-1) >= mask.shape[-1]:
        raise EditError(
            f"place {max(edits.hidden_source)} cannot be hidden: there are {mask.shape[-1]} tokens"
        )
    mask[..., list(edits.hidden_source)] = False
    return mask


def target_mask(ids_BT: Tensor, edits: Edits = Edits()) -> Tensor:
    """The decoder's mask: ids [batch, length] → bool [batch, 1, length, length]."""
    padding, causal = padding_mask(ids_BT, PAD), causal_mask(ids_BT.shape[1], ids_BT.device)
    if not edits.padding_mask:
        padding = torch.ones_like(padding)
    if not edits.causal_mask:
        causal = torch.ones_like(causal)
    return padding & causal


@contextmanager
def edited(model: Seq2Seq, edits: Edits, means: Means | None = None) -> Generator[None]:
    """The model runs with the edits inside the block, in whole passes and in steps of a search.

    `means` [H, D] of each site are what `heads_mean` puts in the place of a head's part.
    It is as before afterwards, also after an exception. Threads share the model: the caller holds
    its lock. Raises EditError for heads that are not there, for means that nobody gave, and inside
    the block for a place that the source or a learned table does not have; and NestedEditsError for
    a second change of masks, of one side's positions or of one attention's weights inside a first.
    """
    if problems := edits.fitting(limits_of(model))[1]:
        raise EditError(problems[0])
    with ExitStack() as stack:
        for moved, module in (
            (edits.source_positions, model.embeddings.source_positions),
            (edits.target_positions, model.embeddings.target_positions),
        ):
            if moved != PositionEdit():
                if any(isinstance(hook, _Placing) for hook in module._forward_hooks.values()):
                    raise NestedEditsError(
                        "the positions are edited already: edits of positions do not nest"
                    )
                stack.callback(module.register_forward_hook(_Placing(moved)).remove)
        if edits.changes_masks:
            _change_masks(model, edits, stack)
        if edits.changes_weights:
            _change_weights(model, edits, stack)
        for site in model.attention_sites():
            _take_out_heads(site, edits, means, stack)
        yield


def limits_of(model: Seq2Seq, source_length: int | None = None) -> Limits:
    """How far a network reaches, and a source of so many tokens."""
    c = model.config
    layers = c.num_encoder_layers, c.num_decoder_layers
    return Limits(*layers, c.num_heads, c.max_length, source_length)


def _take_out_heads(
    site: AttentionSite, edits: Edits, means: Means | None, stack: ExitStack
) -> None:
    """Silence the heads of a site that are off or at their mean, and put the means in."""
    here = site.kind, site.layer
    off, mean = (
        {head for *at, head in heads if tuple(at) == here}
        for heads in (edits.heads_off, edits.heads_mean)
    )
    instead_D = None
    if mean:
        if means is None or here not in means:
            raise EditError(
                f"{site.kind} layer {site.layer}, head {min(mean)} cannot be put at its mean: it "
                "is not known, write it with `python -m core.analyse means`"
            )
        instead_D = means[here][sorted(mean)].sum(0)
    if off or mean:
        stack.enter_context(without_heads(site, frozenset(off | mean), instead_D))


@contextmanager
def without_heads(
    site: AttentionSite, heads: frozenset[int], instead_D: Tensor | None = None
) -> Generator[None]:
    """Inside, these heads' columns of a site's output projection are 0; `instead_D` joins its bias.

    Both models multiply by this matrix in whole passes and in steps of a search, so one exchange of
    its values serves all; the tensors that were trained are put back as they were.
    """
    weight, bias = site.projections().output
    tensors = [weight] if bias is None else [weight, bias]
    before = [tensor.data for tensor in tensors]
    with torch.inference_mode(False), torch.no_grad():
        changed = [data.clone() for data in before]
        changed[0].unflatten(1, (site.num_heads, -1))[:, sorted(heads)] = 0
        if instead_D is not None and bias is not None:
            changed[1] += instead_D.clone().to(bias)
    try:
        for tensor, data in zip(tensors, changed, strict=True):
            tensor.data = data
        yield
    finally:
        for tensor, data in zip(tensors, before, strict=True):
            tensor.data = data


@dataclass(frozen=True)
class _Placing:
    """A hook that gives back other rows of a position table."""

    edit: PositionEdit

    def __call__(self, module: nn.Module, args: tuple[int, ...], table_LD: Tensor) -> Tensor:
        start = args[1] if len(args) > 1 else 0
        rows = torch.tensor(self.edit.rows(start, args[0]), device=table_LD.device)
        return self.edit.scale * _rows(module, rows, table_LD)


def _rows(module: nn.Module, rows_N: Tensor, like: Tensor) -> Tensor:
    """Any rows of a table; the sinusoids' formula has no end, a learned table has one."""
    if isinstance(module, LearnedPositions):
        if len(rows_N) and not 0 <= rows_N.min() <= rows_N.max() < len(module.weight):
            raise EditError(
                f"position {int(rows_N.max() if rows_N.min() >= 0 else rows_N.min())} was never "
                f"learned: this model's table ends at {len(module.weight) - 1}, so shift by less"
            )
        return module.weight[rows_N]
    return sinusoids_at(rows_N.cpu(), like.shape[-1]).to(like.dtype).to(like.device)


def _change_masks(model: Seq2Seq, edits: Edits, stack: ExitStack) -> None:
    """Self-attention is handed the edited masks; cross-attention takes what `encode` returns.

    So the steps of a search, which attend without a mask to what is written and with the encoder's
    to the source, run under the edits too.
    """
    if "encode" in vars(model):
        raise NestedEditsError("the masks are edited already: edits of masks do not nest")
    masks: dict[Kind, Tensor] = {}
    encode, decode = model.encode, model.decode

    def edited_encode(source_BS: Tensor) -> tuple[Tensor, Tensor]:
        masks["encoder"] = source_mask(source_BS, edits)
        return encode(source_BS)[0], masks["encoder"]

    def edited_decode(target_BT: Tensor, memory_BSD: Tensor, mask: Tensor) -> Tensor:
        masks["decoder"] = target_mask(target_BT, edits)
        return decode(target_BT, memory_BSD, mask)

    for name, method in (("encode", edited_encode), ("decode", edited_decode)):
        vars(model)[name] = method  # in front of the class's own
        stack.callback(vars(model).pop, name)
    for site in model.attention_sites():
        if site.kind != "cross":
            hook = _handing(site, masks, edits.causal_mask)
            stack.callback(site.module.register_forward_pre_hook(hook, with_kwargs=True).remove)


def _handing(
    site: AttentionSite, masks: dict[Kind, Tensor], causal: bool
) -> Callable[..., tuple[Any, Any]]:
    def hand(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        return site.with_mask(Call(args, kwargs), masks[site.kind], causal)

    return hand


class _Clock:
    """Which positions of the target are being written: a hook on the table that is asked for them.

    In a whole pass they are 0 to T−1; in a step of a search one, the same for all hypotheses.
    """

    def __init__(self) -> None:
        self.written = (0, 0)
        """The first position, and how many they are."""

    def __call__(self, module: nn.Module, args: tuple[int, ...]) -> None:
        self.written = (args[1] if len(args) > 1 else 0, args[0])


def _change_weights(model: Seq2Seq, edits: Edits, stack: ExitStack) -> None:
    """Another softmax at the sites that the edits name, and the library's own at all others."""
    clock, limits = _Clock(), limits_of(model)
    table = model.embeddings.target_positions
    stack.callback(table.register_forward_pre_hook(clock).remove)
    for site in model.attention_sites():
        own = edits.of_site(site.kind, site.layer)
        if own.changes_weights:
            try:
                undo = site.override_softmax(_Weighing(site, own, clock, limits))
            except RuntimeError as error:
                raise NestedEditsError(str(error)) from None
            stack.callback(undo)


@dataclass(frozen=True)
class _Weighing:
    """Scores and mask to weights, under the edits of one site.

    Axes: B rows of a batch, or sentences whose hypotheses are queries of one attention; H head,
    Q query, K key; P position.
    """

    site: AttentionSite
    edits: Edits
    clock: _Clock
    limits: Limits

    @cached_property
    def temperatures(self) -> Tensor:
        """Of each head, [H, 1, 1]."""
        found = torch.ones(self.site.num_heads, 1, 1, dtype=torch.float64)
        for one in self.edits.temperatures:
            found[one.head] = one.value
        return found

    @cached_property
    def uniform(self) -> Tensor:
        """Which heads weigh all keys alike, bool [H, 1, 1]."""
        found = torch.zeros(self.site.num_heads, 1, 1, dtype=torch.bool)
        for _, _, head in self.edits.heads_uniform:
            found[head] = True
        return found

    def __call__(self, scores_BHQK: Tensor, mask: Tensor) -> Tensor:
        Q, K = scores_BHQK.shape[-2:]
        dtype, device = scores_BHQK.dtype, scores_BHQK.device
        if self.source_reach > K:
            limits = dataclasses.replace(self.limits, source_length=K)
            raise EditError(self.edits.fitting(limits)[1][0])
        start, length = (0, Q) if self.site.kind == "encoder" else self.clock.written
        # A step's keys are a tree of tokens: each hypothesis has its own, in the order of its path.
        steps_BQK = None
        if self.site.kind == "decoder" and length == 1:
            steps_BQK = (mask[:, 0].cumsum(-1) - 1).clamp(min=0)

        def spread(table_HQP: Tensor) -> Tensor:
            table_HQP = table_HQP.to(dtype).to(device)
            if steps_BQK is None:
                return table_HQP
            return table_HQP[:, 0][:, steps_BQK].transpose(0, 1)

        P = K if steps_BQK is None else start + 1
        scores_BHQK = scores_BHQK / self.temperatures.to(dtype).to(device)
        scores_BHQK = scores_BHQK.masked_fill(self.uniform.to(device), 0.0)
        added = spread(self._added(start, length, P))
        cells = mask & (added > -math.inf)
        none_left = ~cells.any(-1, keepdim=True)
        scores_BHQK = (scores_BHQK + added).masked_fill(~cells, -math.inf)
        weights_BHQK = scores_BHQK.masked_fill(none_left, 0.0).softmax(-1).masked_fill(~cells, 0.0)
        if here := [row for row in self.edits.rows if start <= row.query < start + length]:
            given, at_H11 = self._given(here, start, length, P)
            given = spread(given) * mask
            given = given / given.sum(-1, keepdim=True).clamp(min=1e-12)
            weights_BHQK = torch.where(at_H11.to(device), given, weights_BHQK)
        return weights_BHQK

    @cached_property
    def source_reach(self) -> int:
        """How many tokens the source must have for all that is edited of it here."""
        if self.site.kind == "decoder":
            return 0
        places = [edge.key for edge in self.edits.edges]
        places += [max(k for k, weight in enumerate(r.weights) if weight) for r in self.edits.rows]
        if self.site.kind == "encoder":
            places += [one.query for one in (*self.edits.edges, *self.edits.rows)]
        return 1 + max((place for place in places if place is not None), default=-1)

    def _added(self, start: int, length: int, P: int) -> Tensor:
        """ln(factor) of each cell [H, Q, P] for the queries from `start` on; −∞ cuts."""
        added = torch.zeros(self.site.num_heads, length, P, dtype=torch.float64)
        for edge in self.edits.edges:
            if edge.query is None or start <= edge.query < start + length:
                query = None if edge.query is None else edge.query - start
                added[_only(edge.head), _only(query), _only(edge.key)] += (
                    math.log(edge.factor) if edge.factor else -math.inf
                )
        return added

    def _given(self, rows: list[Row], start: int, length: int, P: int) -> tuple[Tensor, Tensor]:
        """The given rows' weights [H, Q, P], and where they stand [H, Q, 1]."""
        given = torch.zeros(self.site.num_heads, length, P, dtype=torch.float64)
        at = torch.zeros(self.site.num_heads, length, 1, dtype=torch.bool)
        for row in rows:
            weights = torch.tensor(row.weights[:P], dtype=torch.float64)
            given[row.head, row.query - start, : len(weights)] = weights
            at[row.head, row.query - start] = True
        return given, at


def _only(index: int | None) -> slice:
    """One index of an axis, or all of it."""
    return slice(None) if index is None else slice(index, index + 1)
