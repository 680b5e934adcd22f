"""The activations and the masks of one network as it runs, and its hidden states."""

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from core.data.batches import Batch
from core.kinds import Kind
from core.model.interface import AttentionSite, Call, Seq2Seq, Side
from core.text.tokenizer import PAD


def masks(model: Seq2Seq, batch: Batch) -> list[tuple[Kind, Tensor]]:
    """The mask passed to each attention: bool [batch, query, key], True = may attend."""
    passed: list[tuple[Kind, Tensor]] = []

    def keep(site: AttentionSite) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
            passed.append((site.kind, site.mask(Call(args, kwargs))))

        return hook

    with torch.no_grad(), ExitStack() as stack:
        for site in model.attention_sites():
            hook = site.module.register_forward_pre_hook(keep(site), with_kwargs=True)
            stack.callback(hook.remove)
        model(batch.source, batch.target_in)
    return passed


class States:
    """The hidden states of one pass of a batch, as `hidden_states` keeps them."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Side, int, int], Tensor] = {}
        self.embeddings: dict[Side, Tensor] = {}
        """What enters each stack, [batch, length, d_model]."""
        self.outputs: dict[Side, Tensor] = {}
        """What each stack hands on, behind its own norm, [batch, length, d_model]."""

    def put(self, side: Side, layer: int, sublayer: int, state: Tensor) -> None:
        """Keep what stands behind one sub-layer of one layer, both counted from 0."""
        self._kept[side, layer, sublayer] = state.detach()

    def sublayers(self, side: Side) -> Tensor:
        """The residual stream behind each sub-layer, [layer, sublayer, batch, length, d_model]."""
        places = sorted((layer, sub) for s, layer, sub in self._kept if s == side)
        layers = places[-1][0] + 1
        states = torch.stack([self._kept[side, *place] for place in places])
        return states.unflatten(0, (layers, -1))


@contextmanager
def hidden_states(model: Seq2Seq) -> Generator[States]:
    """Keep the hidden states of the one forward pass inside the block; leave nothing behind.

    With the norm first, what stands behind a sub-layer is what the next one's norm is fed, and at
    the end what the layer returns; else it is what the sub-layer's own norm returns.
    """
    states = States()

    def put_input(side: Side, layer: int, sublayer: int) -> Callable[..., None]:
        return lambda module, args: states.put(side, layer, sublayer, args[0])

    def put_output(side: Side, layer: int, sublayer: int) -> Callable[..., None]:
        return lambda module, args, output: states.put(side, layer, sublayer, output)

    def embedded(side: Side) -> Callable[..., None]:
        return lambda module, args: states.embeddings.update({side: args[0].detach()})

    def handed_on(side: Side) -> Callable[..., None]:
        return lambda module, args, output: states.outputs.update({side: output.detach()})

    sides: tuple[tuple[Side, tuple[str, ...]], ...] = (
        ("encoder", ("norm1", "norm2")),
        ("decoder", ("norm1", "norm2", "norm3")),
    )
    with ExitStack() as hooks:
        for side, names in sides:
            layers, last_norm = model.stack(side)
            for i, layer in enumerate(layers):
                norms = [getattr(layer, name) for name in names]
                handles = []
                if model.config.norm_first:
                    for sublayer, norm in enumerate(norms[1:]):
                        handles.append(norm.register_forward_pre_hook(put_input(side, i, sublayer)))
                    handles.append(layer.register_forward_hook(put_output(side, i, len(norms) - 1)))
                else:
                    for sublayer, norm in enumerate(norms):
                        handles.append(norm.register_forward_hook(put_output(side, i, sublayer)))
                if i == 0:
                    handles.append(layer.register_forward_pre_hook(embedded(side)))
                for hook in handles:
                    hooks.callback(hook.remove)
            hooks.callback(last_norm.register_forward_hook(handed_on(side)).remove)
        yield states


def activations(model: Seq2Seq, batch: Batch) -> dict[str, Tensor]:
    """What each layer of one forward pass returns, in its order, [real positions, features]."""
    reals: dict[Side, Tensor] = {"encoder": batch.source != PAD, "decoder": batch.target_in != PAD}
    with torch.no_grad(), hidden_states(model) as states:
        memory = model.encode(batch.source)
        hidden = model.decode(batch.target_in, *memory)
        logits = model.classify(hidden[reals["decoder"]])
    kept = {}
    for side, real in reals.items():
        text = "source" if side == "encoder" else "target"
        kept[f"{text} embeddings"] = states.embeddings[side][real]
        for i, layer in enumerate(states.sublayers(side)):
            kept[f"{side} layer {i + 1}"] = layer[-1][real]
        kept[f"{side} output"] = states.outputs[side][real]
    return kept | {"logits": logits}
