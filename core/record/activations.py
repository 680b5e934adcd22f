"""Look into one network as it runs: what every station holds, and what every mask allows."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from core.data.batches import Batch
from core.model.interface import AttentionSite, Call, Kind, Seq2Seq
from core.text.tokenizer import PAD


def stations(model: Seq2Seq, batch: Batch) -> dict[str, Tensor]:
    """Every station of one forward pass in its order, [real positions, features]."""
    found: dict[str, Tensor] = {}

    def keep(name: str, real: Tensor) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple, output: Tensor) -> None:
            found[name] = output[real]

        return hook

    source, target = batch.source != PAD, batch.target_in != PAD
    with torch.no_grad(), ExitStack() as stack:
        for side, real in (("encoder", source), ("decoder", target)):
            layers, norm = model.stack(side)
            for i, layer in enumerate(layers):
                hook = layer.register_forward_hook(keep(f"{side} layer {i + 1}", real))
                stack.callback(hook.remove)
            stack.callback(norm.register_forward_hook(keep(f"{side} output", real)).remove)
        found["source embeddings"] = model.embeddings.source(batch.source)[source]
        memory = model.encode(batch.source)
        found["target embeddings"] = model.embeddings.target(batch.target_in)[target]
        found["logits"] = model.classify(model.decode(batch.target_in, *memory)[target])
    return {**found, "logits": found.pop("logits")}


def masks(model: Seq2Seq, batch: Batch) -> list[tuple[Kind, Tensor]]:
    """What each attention was told: bool [batch, query, key], True = may attend."""
    found: list[tuple[Kind, Tensor]] = []

    def keep(site: AttentionSite) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
            found.append((site.kind, site.mask(Call(args, kwargs))))

        return hook

    with torch.no_grad(), ExitStack() as stack:
        for site in model.attention_sites():
            hook = site.module.register_forward_pre_hook(keep(site), with_kwargs=True)
            stack.callback(hook.remove)
        model(batch.source, batch.target_in)
    return found
