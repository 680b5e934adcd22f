"""Trace everything that a forward pass writes to the residual stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from core.analysis.inside_head import Site
from core.analysis.residual_stream import EMBEDDING, SUBLAYERS, Norm, Trace
from core.data.batches import collate
from core.experiments.site import double, sites_of
from core.frozen import Doubles
from core.kinds import Kind, map_sizes
from core.model.interface import AttentionSite, Call, Seq2Seq, Side
from core.record.capture import before_attention, capture


class _Watched:
    """Hooks on one pass of a batch that keep each norm's input and output and each site's mask."""

    def __init__(self, model: Seq2Seq, hooks: ExitStack) -> None:
        self.norms: dict[Side, list[tuple[nn.Module, Tensor, Tensor]]] = {}
        self.firsts: dict[Side, tuple[nn.Module, Tensor, Tensor]] = {}
        self.masks: dict[tuple[Kind, int], Tensor] = {}
        for side, sublayers in SUBLAYERS.items():
            layers, last = model.stack(side)
            names = [f"norm{i + 1}" for i in range(len(sublayers))]
            norms = [layer.get_submodule(name) for layer in layers for name in names]
            for norm in (*norms, last):
                hooks.enter_context(norm.register_forward_hook(self._keep(side)))
            name = "source_norm" if side == "encoder" else "target_norm"
            if (first := getattr(model.embeddings, name)) is not None:
                hooks.enter_context(first.register_forward_hook(self._keep_first(side)))
        hooks.enter_context(before_attention(model.attention_sites(), self._keep_mask))

    def _keep(self, side: Side) -> Callable[..., None]:
        calls = self.norms.setdefault(side, [])
        return lambda module, args, output: calls.append((module, args[0], output))

    def _keep_first(self, side: Side) -> Callable[..., None]:
        return lambda *call: self.firsts.update({side: (call[0], call[1][0], call[2])})

    def _keep_mask(self, site: AttentionSite, call: Call) -> None:
        self.masks[site.kind, site.layer] = site.mask(call)

    def first_of(self, side: Side, row: int, length: int) -> Norm | None:
        """Return the norm after a side's embeddings, if there is one."""
        if side not in self.firsts:
            return None
        module, x, y = self.firsts[side]
        return _norm(
            side, None, EMBEDDING, module, double(x[row, :length]), double(y[row, :length])
        )

    def norms_of(
        self, side: Side, row: int, length: int
    ) -> tuple[tuple[Norm, ...], Norm | None, tuple[Doubles, Doubles]]:
        """Return a side's sub-layer norms, its final norm, and the final norm's input and output.

        Without a final norm, the second item is None, and the two arrays of the third are equal.
        """
        *calls, end = (
            (module, double(x[row, :length]), double(y[row, :length]))
            for module, x, y in self.norms[side]
        )
        kinds = SUBLAYERS[side]
        norms = (
            _norm(side, kinds[i % len(kinds)], i // len(kinds), *call)
            for i, call in enumerate(calls)
        )
        last = None if isinstance(end[0], nn.Identity) else _norm(side, None, None, *end)
        return tuple(norms), last, end[1:]


@torch.inference_mode()
def traces(
    model: Seq2Seq, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[Trace]:
    """Trace a teacher-forced pass over one padded batch, one trace per pair of sentences.

    `sources` and `targets` are ids that end with <eos>. Edits that the caller has applied to the
    model take effect. The traces contain no padding. The caller must hold the model's lock, because
    hooks are process-wide.
    """
    pairs = [(list(s), list(t)) for s, t in zip(sources, targets, strict=True)]
    batch = collate(pairs).to(next(model.parameters()).device)
    with ExitStack() as hooks:
        watched = _Watched(model, hooks)
        captured = hooks.enter_context(capture(model))
        logits_BTV = model(batch.source, batch.target_in)
    tables: Any = model.embeddings
    source_BSD = tables.look_up(batch.source, tables.source_table.weight)
    target_BTD = tables.look_up(batch.target_in, tables.target_weight)
    embedded: dict[Side, Tensor] = {
        "encoder": _with_position(source_BSD, tables.source_positions),
        "decoder": _with_position(target_BTD, tables.target_positions),
    }
    sites: dict[tuple[Kind, int], list[Site]] = {}
    for call in captured.calls():
        at = call.site.kind, call.site.layer
        masks = []
        for mask_QK, pair in zip(watched.masks[at], pairs, strict=True):
            Q, K = map_sizes(*map(len, pair))[call.site.kind]
            masks.append(mask_QK[:Q, :K].cpu().numpy())
        sites[at] = sites_of(model, call, masks)
    made = []
    for row, (source, target) in enumerate(pairs):
        lengths: dict[Side, int] = {"encoder": len(source), "decoder": len(target)}
        norms = {side: watched.norms_of(side, row, lengths[side]) for side in SUBLAYERS}
        made.append(
            Trace(
                norm_first=model.config.norm_first,
                first={side: watched.first_of(side, row, lengths[side]) for side in SUBLAYERS},
                embedded={s: double(x[:, row, : lengths[s]]) for s, x in embedded.items()},
                sites={at: rows[row] for at, rows in sites.items()},
                norms={side: norms for side, (norms, _, _) in norms.items()},
                last={side: last for side, (_, last, _) in norms.items()},
                ends={side: end for side, (_, _, end) in norms.items()},
                logits_TV=double(logits_BTV[row, : len(target)]),
            )
        )
    return made


def _with_position(token_BND: Tensor, table: nn.Module) -> Tensor:
    """Stack token embeddings and positions: [2, B, N, D]."""
    return torch.stack((token_BND, table(token_BND.shape[1]).expand_as(token_BND)))


def _norm(
    side: Side, kind: Kind | None, layer: int | None, module: nn.Module, x: Doubles, y: Doubles
) -> Norm:
    norm: Any = module
    gain_D = double(norm.weight) * getattr(norm, "factor", 1.0)
    shift_D = np.zeros_like(gain_D) if norm.bias is None else double(norm.bias)
    form = getattr(norm, "kind", "layer")  # torch's own has no such field
    return Norm(side, kind, layer, gain_D, shift_D, norm.eps, x, y, form)
