"""One pass, watched wherever something is written: what core.analysis.stream takes apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from core.analysis.stream import SUBLAYERS, Floats, Norm, Trace
from core.data.batches import pad
from core.experiments.site import double, site_of
from core.model.interface import AttentionSite, Call, Kind, Seq2Seq, Side
from core.record.capture import Look, capture
from core.text.tokenizer import BOS


class _Watched:
    """What the norms and masks of one pass of a batch were seen to be fed."""

    def __init__(self, model: Seq2Seq, hooks: ExitStack) -> None:
        self.norms: dict[Side, list[tuple[nn.Module, Tensor, Tensor]]] = {}
        self.open: dict[tuple[Kind, int], Tensor] = {}
        for side, sublayers in SUBLAYERS.items():
            layers, last = model.stack(side)
            names = [f"norm{i + 1}" for i in range(len(sublayers))]
            norms = [layer.get_submodule(name) for layer in layers for name in names]
            for norm in (*norms, last):
                hooks.callback(norm.register_forward_hook(self._keep(side)).remove)
        for site in model.attention_sites():
            hook = site.module.register_forward_pre_hook(self._told(site), with_kwargs=True)
            hooks.callback(hook.remove)

    def _keep(self, side: Side) -> Callable[..., None]:
        found = self.norms.setdefault(side, [])
        return lambda module, args, output: found.append((module, args[0], output))

    def _told(self, site: AttentionSite) -> Callable[..., None]:
        def keep(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
            self.open[site.kind, site.layer] = site.mask(Call(args, kwargs))

        return keep


@torch.inference_mode()
def traces(
    model: Seq2Seq, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[Trace]:
    """One teacher-forced pass over sentences' ids, with their <eos>, as one padded batch.

    It runs under whatever edits the caller is in. Hooks are process-wide: the caller holds the
    model's lock.
    """
    device = next(model.parameters()).device
    source_BS = pad([list(ids) for ids in sources]).to(device)
    target_in_BT = pad([[BOS, *ids[:-1]] for ids in targets]).to(device)
    with ExitStack() as hooks:
        watched = _Watched(model, hooks)
        captured = hooks.enter_context(capture(model))
        logits_BTV = model(source_BS, target_in_BT)
    words = model.embeddings
    embedded: dict[Side, Tensor] = {
        "encoder": _sum_of(
            words.look_up(source_BS, words.source_table.weight), words.source_positions
        ),
        "decoder": _sum_of(
            words.look_up(target_in_BT, words.target_weight), words.target_positions
        ),
    }
    looks = captured.looks()
    return [
        _trace(model, b, (len(source), len(target)), embedded, watched, looks, logits_BTV)
        for b, (source, target) in enumerate(zip(sources, targets, strict=True))
    ]


def _sum_of(token_BND: Tensor, table: nn.Module) -> Tensor:
    """Token and position, [2, B, N, D]."""
    return torch.stack((token_BND, table(token_BND.shape[1]).expand_as(token_BND)))


def _trace(
    model: Seq2Seq,
    row: int,
    lengths: tuple[int, int],
    embedded: dict[Side, Tensor],
    watched: _Watched,
    looks: list[Look],
    logits_BTV: Tensor,
) -> Trace:
    """One row of a batch, without the padding behind it."""
    N: dict[Side, int] = {"encoder": lengths[0], "decoder": lengths[1]}
    sites = {}
    for look in looks:
        kind, layer = look.site.kind, look.site.layer
        Q, K = (N["encoder" if k else "decoder"] for k in _from_encoder(kind))
        open_QK = watched.open[kind, layer][row, :Q, :K]
        sites[kind, layer] = site_of(model, look, row, open_QK.cpu().numpy())
    norms: dict[Side, tuple[Norm, ...]] = {}
    last: dict[Side, Norm | None] = {}
    ends: dict[Side, tuple[Floats, Floats]] = {}
    for side, sublayers in SUBLAYERS.items():
        *seen, end = (
            (module, double(fed[row, : N[side]]), double(gave[row, : N[side]]))
            for module, fed, gave in watched.norms[side]
        )
        norms[side] = tuple(
            _norm(side, sublayers[i % len(sublayers)], i // len(sublayers), *one)
            for i, one in enumerate(seen)
        )
        last[side] = None if isinstance(end[0], nn.Identity) else _norm(side, None, None, *end)
        ends[side] = end[1:]
    return Trace(
        norm_first=model.config.norm_first,
        embedded={side: double(x[:, row, : N[side]]) for side, x in embedded.items()},
        sites=sites,
        norms=norms,
        last=last,
        ends=ends,
        logits_TV=double(logits_BTV[row, : N["decoder"]]),
    )


def _from_encoder(kind: Kind) -> tuple[bool, bool]:
    """Whether an attention's queries and keys come from the encoder."""
    return kind == "encoder", kind != "decoder"


def _norm(
    side: Side, kind: Kind | None, layer: int | None, module: nn.Module, fed: Floats, gave: Floats
) -> Norm:
    assert isinstance(module, nn.LayerNorm)
    return Norm(
        side, kind, layer, double(module.weight), double(module.bias), module.eps, fed, gave
    )
