"""Ask a model's attention sites for their weights inside a `with` block; leave nothing behind."""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from core.kinds import Kind
from core.model.interface import AttentionSite, Seq2Seq


@contextmanager
def explicit_attention(
    model: Seq2Seq, sites: Sequence[AttentionSite] | None = None
) -> Generator[None]:
    """Every site, or each of `sites`, takes its explicit softmax path.

    That is as if `need_weights=True` had been passed to it. The same pre-hook serves both models.
    In training on a CPU this is also the faster path for short sentences, because dropout keeps
    torch from its fused kernel.
    """
    with ExitStack() as stack:
        for site in model.attention_sites() if sites is None else sites:
            hook = site.module.register_forward_pre_hook(_asking(site), with_kwargs=True)
            stack.callback(hook.remove)
        yield


def _asking(site: AttentionSite) -> Callable[..., tuple[Any, Any]]:
    def ask(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        return args, {**kwargs, **site.weights_kwargs}

    return ask


@dataclass(frozen=True)
class AttentionCall:
    """One site as it ran: its inputs [batch, length, d_model] and weights [batch, head, q, k]."""

    site: AttentionSite
    query: Tensor
    memory: Tensor
    weights: Tensor


class Captured:
    """What one forward pass fed to its embeddings and to each attention site, and the maps."""

    def __init__(self) -> None:
        self._calls: dict[tuple[Kind, int], AttentionCall] = {}
        self.embedded: list[Tensor] = []
        """The ids [batch, length] that were looked up in an embedding table, in that order."""

    def put(self, call: AttentionCall) -> None:
        """Keep one site's call. Raises RuntimeError on a second pass: maps must not mix."""
        kind, layer = call.site.kind, call.site.layer
        if (kind, layer) in self._calls:
            raise RuntimeError(f"{kind} layer {layer} ran twice inside one capture")
        self._calls[kind, layer] = call

    def calls(self) -> list[AttentionCall]:
        """Every site's call, in the order in which they ran."""
        return list(self._calls.values())

    def maps(self, kind: Kind) -> Tensor:
        """[layer, batch, head, query, key]. Raises KeyError if no pass of this kind ran."""
        layers = sorted(layer for k, layer in self._calls if k == kind)
        if not layers:
            raise KeyError(f"no {kind} attention was captured")
        return torch.stack([self._calls[kind, layer].weights for layer in layers])


class _WatchEmbedding(TorchFunctionMode):
    """Notes the ids of every lookup: the target's table is read by a function, not by a module."""

    def __init__(self, embedded: list[Tensor]):
        super().__init__()
        self._embedded = embedded

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        if func is F.embedding:
            self._embedded.append(args[0].detach().clone())
        return func(*args, **(kwargs or {}))


@contextmanager
def capture(model: Seq2Seq) -> Generator[Captured]:
    """Record every attention map, and what led to it, of the one forward pass inside the block.

    Hooks live on the modules, which threads share: the caller holds the model's lock.
    """
    captured = Captured()

    def keeping(site: AttentionSite) -> Callable[..., None]:
        def keep(module: nn.Module, args: tuple, output: tuple[Tensor, Tensor]) -> None:
            query, memory = args[:2]
            captured.put(AttentionCall(site, query.detach(), memory.detach(), output[1].detach()))

        return keep

    def watched(embed: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def watch(*args: Any, **kwargs: Any) -> Tensor:
            # Only here, for whoever watches functions is called for every one: half of the pass.
            with _WatchEmbedding(captured.embedded):
                return embed(*args, **kwargs)

        return watch

    embeddings: Any = model.embeddings
    with ExitStack() as stack:
        sites = model.attention_sites()
        stack.enter_context(explicit_attention(model, sites))
        for site in sites:
            stack.callback(site.module.register_forward_hook(keeping(site)).remove)
        for side in ("source", "target"):
            own = vars(embeddings)
            own[side] = watched(getattr(embeddings, side))  # in front of the class's own
            stack.callback(own.pop, side)
        yield captured
