"""A decoder layer's weights as the steps of a search multiply by them: joined, rearranged.

Axes as in transformer.py; B rows, each of them one token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from core.model.compiled import Layer, Product, takes
from core.model.fast import product


class Affine(NamedTuple):
    """x ↦ x W + b with W [in, out]: the transpose of what torch keeps, faster for few rows."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x_BD: Tensor) -> Tensor:
        if self.bias is None:
            return torch.mm(x_BD, self.weight)
        return torch.addmm(self.bias, x_BD, self.weight)


class Norm(NamedTuple):
    """A LayerNorm's tensors: its module's call costs as much as the norm of a few rows."""

    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x_BD: Tensor) -> Tensor:
        return torch.layer_norm(x_BD, self.weight.shape, self.weight, self.bias, self.eps)

    @classmethod
    def of(cls, norm: nn.LayerNorm) -> Norm:
        return cls(norm.weight.detach(), norm.bias.detach(), norm.eps)


Multiply = Affine | Product


@dataclass(frozen=True)
class PackedLayer:
    """One decoder layer: its sublayers' projections, and its norms."""

    qkv: Multiply  # [D, 3D], of self-attention
    output: Multiply
    cross_query: Multiply
    cross_keys_values: Multiply  # [D, 2D]
    cross_output: Multiply
    inner: Multiply
    outer: Multiply
    norms: tuple[Norm, Norm, Norm]
    norm_first: bool
    num_heads: int
    compiled: Layer | None  # the same for step.c, where that is


_Known = tuple[tuple[tuple[int, int], ...], list[Tensor], PackedLayer]
_known: WeakKeyDictionary[nn.Module, _Known] = WeakKeyDictionary()


def packed(layer: Any) -> PackedLayer:
    """A layer's weights, packed anew when one is another tensor, or was written to.

    The tensors that were packed are kept, so that no other can come to lie at their address.
    """
    parameters = _parameters(layer)
    if any(p.is_inference() for p in parameters):  # which count no writes
        return _pack(layer)
    state = tuple((p.data_ptr(), p._version) for p in parameters)
    known = _known.get(layer)
    if known is None or known[0] != state:
        known = _known[layer] = state, [p.detach() for p in parameters], _pack(layer)
    return known[2]


def _parameters(module: nn.Module) -> list[nn.Parameter]:
    """torch's `module.parameters()`, which takes 3.5 times as long, for it looks for doubles."""
    own = [p for p in module._parameters.values() if p is not None]
    for part in module._modules.values():
        if part is not None:
            own += _parameters(part)
    return own


@torch.no_grad()
def _pack(layer: Any) -> PackedLayer:
    own, cross, feed_forward = layer.self_attention, layer.cross_attention, layer.feed_forward
    qkv = _joined(own.query, own.key, own.value)
    kv = _joined(cross.key, cross.value)
    single = own.output, cross.query, cross.output, feed_forward.inner, feed_forward.outer
    output, query, cross_output, *inner_outer = map(_joined, single)
    norms = Norm.of(layer.norm1), Norm.of(layer.norm2), Norm.of(layer.norm3)
    steps = qkv, output, query, cross_output, *inner_outer
    products = [one for one in steps if isinstance(one, Product)]
    whole = len(products) == len(steps)
    compiled = Layer(products, norms, layer.norm_first) if whole else None
    return PackedLayer(
        *(qkv, output, query, kv, cross_output, *inner_outer),
        *(norms, layer.norm_first, own.num_heads, compiled),
    )


def _joined(*layers: nn.Linear) -> Multiply:
    """Layers that are fed the same, as one: their outputs lie side by side.

    A single one shares what `linear` keeps, so that the pass behind a search finds it in the cache.
    """
    weight, bias = layers[0].weight, layers[0].bias
    if len(layers) == 1 and takes(weight[:1]) and not weight.is_inference():
        return product(weight, bias)
    weight = torch.cat([layer.weight for layer in layers])
    biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
    bias = torch.cat(biases) if biases else None
    if takes(weight[:1]):
        return Product(weight, bias)
    return Affine(weight.t().contiguous(), bias)
