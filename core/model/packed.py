"""A decoder layer's weights as the steps of a search multiply by them: joined, transposed.

Axes as in transformer.py; B rows, each of them one token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn


class Affine(NamedTuple):
    """x ↦ x W + b with W [in, out]: the transpose of what torch keeps, faster for few rows."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x_BD: Tensor) -> Tensor:
        if self.bias is None:
            return torch.mm(x_BD, self.weight)
        return torch.addmm(self.bias, x_BD, self.weight)

    @classmethod
    def joined(cls, *layers: nn.Linear) -> Affine:
        """Layers that are fed the same, as one: their outputs lie side by side."""
        weight = torch.cat([layer.weight.t() for layer in layers], dim=1).contiguous()
        biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
        return cls(weight, torch.cat(biases) if biases else None)


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


@dataclass(frozen=True)
class PackedLayer:
    """One decoder layer: its sublayers' projections, and its norms."""

    qkv: Affine  # [D, 3D], of self-attention
    output: Affine
    cross_query: Affine
    cross_keys_values: Affine  # [D, 2D]
    cross_output: Affine
    inner: Affine
    outer: Affine
    norms: tuple[Norm, Norm, Norm]
    norm_first: bool
    num_heads: int


_Known = tuple[tuple[tuple[int, int], ...], list[Tensor], PackedLayer]
_known: WeakKeyDictionary[nn.Module, _Known] = WeakKeyDictionary()


def packed(layer: Any) -> PackedLayer:
    """A layer's weights, packed anew when one is another tensor, or was written to.

    The tensors that were packed are kept, so that no other can come to lie at their address.
    """
    parameters = list(layer.parameters())
    if any(p.is_inference() for p in parameters):  # which count no writes
        return _pack(layer)
    state = tuple((p.data_ptr(), p._version) for p in parameters)
    known = _known.get(layer)
    if known is None or known[0] != state:
        known = _known[layer] = state, [p.detach() for p in parameters], _pack(layer)
    return known[2]


@torch.no_grad()
def _pack(layer: Any) -> PackedLayer:
    own, cross, feed_forward = layer.self_attention, layer.cross_attention, layer.feed_forward
    return PackedLayer(
        Affine.joined(own.query, own.key, own.value),
        Affine.joined(own.output),
        Affine.joined(cross.query),
        Affine.joined(cross.key, cross.value),
        Affine.joined(cross.output),
        Affine.joined(feed_forward.inner),
        Affine.joined(feed_forward.outer),
        (Norm.of(layer.norm1), Norm.of(layer.norm2), Norm.of(layer.norm3)),
        layer.norm_first,
        own.num_heads,
    )
