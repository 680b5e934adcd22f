"""Context managers that capture attention weights and remove their hooks on exit."""

from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from core.kinds import Kind
from core.model.interface import AttentionSite, Call, Seq2Seq


@contextmanager
def before_attention(
    sites: Iterable[AttentionSite], change: Callable[[AttentionSite, Call], Call | None]
) -> Generator[None]:
    """Run `change` before each call of these sites; the call that it returns replaces that call.

    Hooks are on modules that threads share, so the caller must hold the model's lock.
    """
    with ExitStack() as hooks:
        for site in sites:
            hook = partial(_before, site, change)
            hooks.enter_context(site.module.register_forward_pre_hook(hook, with_kwargs=True))
        yield


def _before(
    site: AttentionSite, change: Callable, module: nn.Module, args: tuple, kwargs: dict[str, Any]
) -> Call | None:
    return change(site, Call(args, kwargs))


@contextmanager
def after_attention(
    sites: Iterable[AttentionSite],
    change: Callable[[AttentionSite, Call, tuple[Tensor, Tensor]], tuple[Tensor, Tensor] | None],
) -> Generator[None]:
    """Run `change` on each call of these sites and its output; what it returns replaces the output.

    Hooks are on modules that threads share, so the caller must hold the model's lock.
    """
    with ExitStack() as hooks:
        for site in sites:
            hook = partial(_after, site, change)
            hooks.enter_context(site.module.register_forward_hook(hook, with_kwargs=True))
        yield


def _after(
    site: AttentionSite, change: Callable, module: nn.Module, args: tuple, kwargs: dict, output: Any
) -> Any:
    return change(site, Call(args, kwargs), output)


def explicit_attention(sites: Iterable[AttentionSite]) -> AbstractContextManager[None]:
    """Make these sites use the explicit softmax inside a block, as with `need_weights=True`.

    The same pre-hook works for both architectures. For short sentences the explicit softmax also
    speeds up training on a CPU, because torch has no fused kernel with dropout there.
    """
    return before_attention(
        sites, lambda site, call: Call(call.args, {**call.kwargs, **site.weights_kwargs})
    )


@dataclass(frozen=True)
class AttentionCall:
    """One site's inputs [batch, length, d_model] and weights [batch, head, query, key]."""

    site: AttentionSite
    query: Tensor
    memory: Tensor
    weights: Tensor

    @classmethod
    def of(cls, site: AttentionSite, call: Call, weights: Tensor) -> Self:
        """Return a call of a site with its weights, without autograd graphs."""
        query, memory = call.args[:2]
        return cls(site, query.detach(), memory.detach(), weights.detach())


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

    def of_kind(self, kind: Kind) -> list[AttentionCall]:
        """Return the calls of a kind, sorted by layer. Raises KeyError if none was captured."""
        layers = sorted(layer for k, layer in self._calls if k == kind)
        if not layers:
            raise KeyError(f"no {kind} attention was captured")
        return [self._calls[kind, layer] for layer in layers]

    def maps(self, kind: Kind) -> Tensor:
        """Return weights [layer, batch, head, query, key]. Raises KeyError if none was captured."""
        return torch.stack([call.weights for call in self.of_kind(kind)])


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

    def keep(site: AttentionSite, call: Call, output: tuple[Tensor, Tensor]) -> None:
        captured.put(AttentionCall.of(site, call, output[1]))

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
        stack.enter_context(explicit_attention(sites))
        stack.enter_context(after_attention(sites, keep))
        for side in ("source", "target"):
            attributes = vars(embeddings)
            attributes[side] = recorded(getattr(embeddings, side))  # shadows the class's method
            stack.callback(attributes.pop, side)
        yield captured
