"""Linear, the classifier and dropout, faster on a CPU than torch's own."""

from __future__ import annotations

import weakref

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.accelerate.kernels import Product, takes
from core.model.transformer import Embeddings

# Keyed by the matrix's id: a WeakIdKeyDictionary takes four times as long to look up.
_packed: dict[int, tuple[weakref.ref, tuple, tuple, Product]] = {}


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """torch's F.linear: x [..., in], weight [out, in], bias [out] → [..., out].

    Uses step.c's product, which keeps a packed copy of the matrix, where `takes` allows it.
    """
    if weight.is_inference() or not takes(x):  # an inference tensor does not count its writes
        return F.linear(x, weight, bias)
    return product(weight, bias).run(x)


def product(weight: Tensor, bias: Tensor | None) -> Product:
    """Return step.c's product with a matrix as it is now, packed again after a write.

    The tensors it was packed from are kept, so that no other can be allocated at their address.
    """
    key = id(weight)
    state = weight.data_ptr(), weight._version, None if bias is None else bias.data_ptr()
    known = _packed.get(key)
    if known is None or known[0]() is not weight or known[1] != state:
        tensors = weight.detach(), None if bias is None else bias.detach()
        with torch.inference_mode(False):
            made = Product(*tensors)
        known = _packed[key] = weakref.ref(weight, _forget), state, tensors, made
    return known[3]


def _forget(gone: weakref.ref) -> None:
    for key in [key for key, known in list(_packed.items()) if known[0] is gone]:
        _packed.pop(key, None)


class Linear(nn.Linear):
    """torch's layer, by `linear`."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


class FastEmbeddings(Embeddings):
    """Embeddings whose tied classifier multiplies by `linear`."""

    def classify(self, hidden: Tensor) -> Tensor:
        return linear(hidden, self.target_weight) if self.tied else self.classifier(hidden)


class Dropout(nn.Dropout):
    """In training, zero each feature with probability p and scale the others by 1/(1 − p) (§5.4).

    On a CPU one 64-bit random number decides four features, which makes p exact to 2⁻¹⁶. Runs that
    are resumed depend on its random numbers.
    """

    def forward(self, input: Tensor) -> Tensor:
        x = input
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():  # it cannot trace the views
            return F.dropout(x, self.p)
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device="cpu")
        drawn = words.random_(-(2**63), None).view(torch.int16)[: x.numel()].view(x.shape)
        kept = drawn.ge_(round(self.p * 2**16) - 2**15)  # 1 or 0
        scale = 1 / (1 - self.p)
        if x.element_size() == 2:  # the scale's own bits, or none: nothing is converted
            bits = int(torch.tensor(scale, dtype=x.dtype, device="cpu").view(torch.int16))
            return x * kept.mul_(bits).view(x.dtype)
        return x * kept.to(x.dtype).mul_(scale)


def replace_dropout(network: nn.Module) -> None:
    """Use this file's Dropout for each of torch's own within a network, in place."""
    for module in network.modules():
        if type(module) is nn.Dropout:
            module.__class__ = Dropout
