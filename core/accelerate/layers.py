"""Linear layers and the classifier, faster on a CPU than torch's."""

from __future__ import annotations

import weakref

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.accelerate.kernels import Product, supports
from core.model.transformer import Embeddings

# Keyed by the matrix's id; a lookup in a WeakIdKeyDictionary takes four times as long.
_packed: dict[int, tuple[weakref.ref, tuple, tuple, Product]] = {}


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute F.linear: x [..., in], weight [out, in], bias [out] → [..., out].

    Uses a cached packed copy of the matrix if step.c supports `x`.
    """
    if weight.is_inference() or not supports(x):  # inference tensors have no version counter
        return F.linear(x, weight, bias)
    return product(weight, bias).run(x)


def product(weight: Tensor, bias: Tensor | None) -> Product:
    """Return a packed product, repacked if the matrix has changed or the bias was replaced.

    The packed tensors are kept alive, so that their addresses cannot be reused.
    """
    key = id(weight)
    state = weight.data_ptr(), weight._version, None if bias is None else bias.data_ptr()
    entry = _packed.get(key)
    if entry is None or entry[0]() is not weight or entry[1] != state:
        tensors = weight.detach(), None if bias is None else bias.detach()
        with torch.inference_mode(False):
            packed = Product(*tensors)
        entry = _packed[key] = weakref.ref(weight, _forget), state, tensors, packed
    return entry[3]


def _forget(reference: weakref.ref) -> None:
    # Iterate over a copy: garbage collection may remove other entries during the loop.
    for key, entry in _packed.copy().items():
        if entry[0] is reference:
            _packed.pop(key, None)


class Linear(nn.Linear):
    """nn.Linear computed by `linear`."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


class FastEmbeddings(Embeddings):
    """Embeddings whose tied classifier uses `linear`."""

    def classify(self, hidden: Tensor) -> Tensor:
        return linear(hidden, *self.projection) if self.tied else self.classifier(hidden)
