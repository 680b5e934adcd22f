"""Apply edits to a model inside a `with` block: in whole passes and in the steps of a search."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from core.model.interface import AttentionSite, Call, Kind, Seq2Seq
from core.model.masks import causal_mask, padding_mask
from core.model.positions import LearnedPositions, sinusoids
from core.record.edits import EditError, Edits, PositionEdit
from core.text.tokenizer import PAD


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
def edited(model: Seq2Seq, edits: Edits) -> Generator[None]:
    """The model runs with the edits inside the block, in whole passes and in steps of a search.

    It is as before afterwards, also after an exception. Threads share the model: the caller holds
    its lock. Raises EditError inside the block for positions that a learned table does not have,
    and RuntimeError for a second change of masks, or of one side's positions, inside a first: which
    one holds would be unsaid.
    """
    with ExitStack() as stack:
        for places, module in (
            (edits.source_positions, model.embeddings.source_positions),
            (edits.target_positions, model.embeddings.target_positions),
        ):
            if places != PositionEdit():
                if any(isinstance(hook, _Placing) for hook in module._forward_hooks.values()):
                    raise RuntimeError(
                        "the positions are edited already: edits of positions do not nest"
                    )
                stack.callback(module.register_forward_hook(_Placing(places)).remove)
        if edits.changes_masks:
            _change_masks(model, edits, stack)
        for site, heads in _sites_of(model, edits.heads_off):
            stack.enter_context(without_heads(site, heads))
        yield


def _sites_of(
    model: Seq2Seq, heads_off: frozenset[tuple[Kind, int, int]]
) -> list[tuple[AttentionSite, frozenset[int]]]:
    """The sites that have heads switched off, and which. Raises EditError for heads not there."""
    sites = {(site.kind, site.layer): site for site in model.attention_sites()}
    H = model.config.num_heads
    for kind, layer, head in sorted(heads_off):
        if (kind, layer) not in sites or head >= H:
            layers = sum(k == kind for k, _ in sites)
            raise EditError(
                f"{kind} layer {layer}, head {head} cannot be switched off: counted from 0, the "
                f"layers end at {layers - 1} and the heads at {H - 1}"
            )
    found: dict[tuple[Kind, int], set[int]] = {}
    for kind, layer, head in heads_off:
        found.setdefault((kind, layer), set()).add(head)
    return [(sites[at], frozenset(heads)) for at, heads in found.items()]


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

    places: PositionEdit

    def __call__(self, module: nn.Module, args: tuple[int, ...], table_LD: Tensor) -> Tensor:
        start = args[1] if len(args) > 1 else 0
        rows = torch.tensor(self.places.rows(start, args[0]), device=table_LD.device)
        return self.places.scale * _rows(module, rows, table_LD)


def _rows(module: nn.Module, rows_N: Tensor, like: Tensor) -> Tensor:
    """Any rows of a table; the sinusoids' formula has no end, a learned table has one."""
    if isinstance(module, LearnedPositions):
        if len(rows_N) and not 0 <= rows_N.min() <= rows_N.max() < len(module.weight):
            raise EditError(
                f"position {int(rows_N.max() if rows_N.min() >= 0 else rows_N.min())} was never "
                f"learned: this model's table ends at {len(module.weight) - 1}, so shift by less"
            )
        return module.weight[rows_N]
    N, d_model = like.shape
    size = rows_N.abs()
    table_ND = (
        sinusoids(int(size.max()) + 1 if N else 0, d_model).to(like.dtype).to(like.device)[size]
    )
    table_ND[:, ::2] *= rows_N.sign()[:, None]  # sin(−x) = −sin(x), cos(−x) = cos(x)
    return table_ND


def _change_masks(model: Seq2Seq, edits: Edits, stack: ExitStack) -> None:
    """Self-attention is handed the edited masks; cross-attention takes what `encode` returns.

    So the steps of a search, which attend without a mask to what is written and with the encoder's
    to the source, run under the edits too.
    """
    if "encode" in vars(model):
        raise RuntimeError("the masks are edited already: edits of masks do not nest")
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
