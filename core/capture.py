"""Ask a model's attention sites for their weights inside a `with` block; leave nothing behind."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from core.model.interface import AttentionSite, Kind, Seq2Seq


@contextmanager
def explicit_attention(model: Seq2Seq) -> Iterator[None]:
    """Every site takes its explicit softmax path, as if `need_weights=True` had been passed.

    The same pre-hook serves both models. In training on a CPU this is also the faster path for
    short sentences, because dropout keeps torch from its fused kernel.
    """
    with ExitStack() as stack:
        for site in model.attention_sites():
            hook = site.module.register_forward_pre_hook(_asking(site), with_kwargs=True)
            stack.callback(hook.remove)
        yield


def _asking(site: AttentionSite) -> Callable[..., tuple[Any, Any]]:
    def ask(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        return args, {**kwargs, **site.ask}

    return ask


class Captured:
    """The maps of one forward pass, by kind."""

    def __init__(self) -> None:
        self._maps: dict[tuple[Kind, int], Tensor] = {}

    def put(self, kind: Kind, layer: int, weights: Tensor) -> None:
        """Keep one site's weights. Raises RuntimeError on a second pass: maps must not mix."""
        if (kind, layer) in self._maps:
            raise RuntimeError(f"{kind} layer {layer} ran twice inside one capture")
        self._maps[kind, layer] = weights.detach()

    def maps(self, kind: Kind) -> Tensor:
        """[layer, batch, head, query, key]. Raises KeyError if no pass of this kind ran."""
        layers = sorted(layer for k, layer in self._maps if k == kind)
        if not layers:
            raise KeyError(f"no {kind} attention was captured")
        return torch.stack([self._maps[kind, layer] for layer in layers])


@contextmanager
def capture(model: Seq2Seq) -> Iterator[Captured]:
    """Record every attention map of the one forward pass that runs inside the block.

    Hooks live on the modules, which threads share: the caller holds the model's lock.
    """
    captured = Captured()

    def keeping(site: AttentionSite) -> Callable[..., None]:
        def keep(module: nn.Module, args: tuple, output: tuple[Tensor, Tensor]) -> None:
            captured.put(site.kind, site.layer, output[1])

        return keep

    with ExitStack() as stack:
        stack.enter_context(explicit_attention(model))
        for site in model.attention_sites():
            stack.callback(site.module.register_forward_hook(keeping(site)).remove)
        yield captured
