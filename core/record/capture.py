"""Context managers that capture attention weights and remove their hooks on exit."""

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
    """Make `sites`, by default all, use the explicit softmax, as with `need_weights=True`.

    The same pre-hook works for both architectures. For short sentences the explicit softmax also
    speeds up training on a CPU, because torch has no fused kernel with dropout there.
    """
    with ExitStack() as stack:
        for site in model.attention_sites() if sites is None else sites:
            hook = site.module.register_forward_pre_hook(_need_weights(site), with_kwargs=True)
            stack.callback(hook.remove)
        yield


def _need_weights(site: AttentionSite) -> Callable[..., tuple[Any, Any]]:
    def hook(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        return args, {**kwargs, **site.weights_kwargs}

    return hook


@dataclass(frozen=True)
class AttentionCall:
    """One site's inputs [batch, length, d_model] and weights [batch, head, query, key]."""

    site: AttentionSite
    query: Tensor
    memory: Tensor
    weights: Tensor


class Captured:
    """The embedded ids, and the inputs and weights of each attention site, of one forward pass."""

    def __init__(self) -> None:
        self._calls: dict[tuple[Kind, int], AttentionCall] = {}
        self.embedded: list[Tensor] = []
        """The ids [batch, length] of each embedding lookup, in order of execution."""

    def put(self, call: AttentionCall) -> None:
        """Keep one site's call. Raises RuntimeError for a second pass, which would mix maps."""
        kind, layer = call.site.kind, call.site.layer
        if (kind, layer) in self._calls:
            raise RuntimeError(f"{kind} layer {layer} ran twice inside one capture")
        self._calls[kind, layer] = call

    def calls(self) -> list[AttentionCall]:
        """Return every site's call, in order of execution."""
        return list(self._calls.values())

    def maps(self, kind: Kind) -> Tensor:
        """Return weights [layer, batch, head, query, key]. Raises KeyError if none was captured."""
        layers = sorted(layer for k, layer in self._calls if k == kind)
        if not layers:
            raise KeyError(f"no {kind} attention was captured")
        return torch.stack([self._calls[kind, layer].weights for layer in layers])


class _RecordLookups(TorchFunctionMode):
    """Records the ids of every F.embedding call, since no module hook sees the target's lookup."""

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
    """Record every attention map and its inputs during one forward pass inside the block.

    The hooks are on modules that threads share, so the caller must hold the model's lock.
    """
    captured = Captured()

    def keep(site: AttentionSite) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple, output: tuple[Tensor, Tensor]) -> None:
            query, memory = args[:2]
            captured.put(AttentionCall(site, query.detach(), memory.detach(), output[1].detach()))

        return hook

    def recorded(embed: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def wrapper(*args: Any, **kwargs: Any) -> Tensor:
            # Only around the embedding: a TorchFunctionMode intercepts every torch call, which
            # would slow down the whole pass.
            with _RecordLookups(captured.embedded):
                return embed(*args, **kwargs)

        return wrapper

    embeddings: Any = model.embeddings
    with ExitStack() as stack:
        sites = model.attention_sites()
        stack.enter_context(explicit_attention(model, sites))
        for site in sites:
            stack.callback(site.module.register_forward_hook(keep(site)).remove)
        for side in ("source", "target"):
            attributes = vars(embeddings)
            attributes[side] = recorded(getattr(embeddings, side))  # shadows the class's method
            stack.callback(attributes.pop, side)
        yield captured
