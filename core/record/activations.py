"""Hooks that capture masks, hidden states and activations of a forward pass."""

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from core.data.batches import Batch
from core.kinds import Kind
from core.model.interface import AttentionSite, Call, Seq2Seq, Side
from core.record.capture import before_attention
from core.text.tokenizer import PAD


def masks(model: Seq2Seq, batch: Batch) -> list[tuple[Kind, Tensor]]:
    """Return the mask passed to each attention: bool [batch, query, key], True = may attend."""
    passed: list[tuple[Kind, Tensor]] = []

    def keep(site: AttentionSite, call: Call) -> None:
        passed.append((site.kind, site.mask(call)))

    with torch.no_grad(), before_attention(model.attention_sites(), keep):
        model(batch.source, batch.target_in)
    return passed


class States:
    """The hidden states of one batch, as captured by `hidden_states`."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Side, int, int], Tensor] = {}
        self.embeddings: dict[Side, Tensor] = {}
        """The input of each stack, [batch, length, d_model]."""
        self.outputs: dict[Side, Tensor] = {}
        """The output of each stack, after its final norm, [batch, length, d_model]."""

    def put(self, side: Side, layer: int, sublayer: int, state: Tensor) -> None:
        """Keep the residual stream after one sub-layer of one layer, both counted from 0."""
        self._kept[side, layer, sublayer] = state

    def sublayers(self, side: Side) -> Tensor:
        """Return the residual stream after each sub-layer.

        Shape: [layer, sublayer, batch, length, d_model].
        """
        keys = sorted(key for key in self._kept if key[0] == side)
        layers = keys[-1][1] + 1
        return torch.stack([self._kept[key] for key in keys]).unflatten(0, (layers, -1))


@contextmanager
def hidden_states(model: Seq2Seq) -> Generator[States]:
    """Capture the hidden states of one forward pass; remove the hooks on exit.

    The state after a layer's last sub-layer is the layer's output. In a pre-norm network, the state
    after another sub-layer is the input of the next norm; in a post-norm network, it is the output
    of the norm after that sub-layer.
    """
    states = States()

    sides: tuple[tuple[Side, tuple[str, ...]], ...] = (
        ("encoder", ("norm1", "norm2")),
        ("decoder", ("norm1", "norm2", "norm3")),
    )
    with ExitStack() as stack:

        def keep(register: Callable[..., Any], store: Callable[..., None], *where: Any) -> None:
            """Store a module's output, or its input if `register` adds a pre-hook."""

            def hook(module: nn.Module, args: tuple, *output: Tensor) -> None:
                store(*where, (output or args)[0].detach())

            stack.enter_context(register(hook))

        for side, names in sides:
            layers, last_norm = model.stack(side)
            keep(layers[0].register_forward_pre_hook, states.embeddings.__setitem__, side)
            keep(last_norm.register_forward_hook, states.outputs.__setitem__, side)
            for i, layer in enumerate(layers):
                norms = [getattr(layer, name) for name in names]
                if model.config.norm_first:
                    registers = [norm.register_forward_pre_hook for norm in norms[1:]]
                else:
                    registers = [norm.register_forward_hook for norm in norms[:-1]]
                registers.append(layer.register_forward_hook)
                for sublayer, register in enumerate(registers):
                    keep(register, states.put, side, i, sublayer)
        yield states


def activations(model: Seq2Seq, batch: Batch) -> dict[str, Tensor]:
    """Return embeddings, layer outputs, stack outputs and logits of a pass, by name.

    Each is [non-padding positions, features].
    """
    unpadded: dict[Side, Tensor] = {
        "encoder": batch.source != PAD,
        "decoder": batch.target_in != PAD,
    }
    with torch.no_grad(), hidden_states(model) as states:
        memory = model.encode(batch.source)
        hidden = model.decode(batch.target_in, *memory)
        logits = model.classify(hidden[unpadded["decoder"]])
    kept = {}
    for side, real in unpadded.items():
        text = "source" if side == "encoder" else "target"
        kept[f"{text} embeddings"] = states.embeddings[side][real]
        for i, layer in enumerate(states.sublayers(side)):
            kept[f"{side} layer {i + 1}"] = layer[-1][real]
        kept[f"{side} output"] = states.outputs[side][real]
    return kept | {"logits": logits}
