"""torch's Linear and Dropout, faster on a CPU; the model reads as if they were torch's own.

Gains are ratios of processor time with torch's own to that without, alternating in one run on an
AMD EPYC, 2 cores, one thread: of Linear a Zen 3 with other load, of Dropout a Zen 5.
"""

import platform
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.model.compiled import Product, takes

_MANY = 500_000  # weights: a vocabulary's matrix, which is read from memory for each product
_ROWS = range(2, 129)  # of x, where the blocked layout is the faster one
_HINT = 64  # rows: the layout is the same for all of these
_BLOCKS = torch.backends.mkldnn.is_available() and platform.machine() in ("x86_64", "AMD64")

# By the matrix' id: WeakIdKeyDictionary takes four times as long to look into.
_rearranged: dict[int, tuple[weakref.ref, tuple, tuple, Any]] = {}


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """torch's F.linear: x [..., in], weight [out, in], bias [out] → [..., out].

    On a CPU, where no gradient is wanted, step.c's product, which keeps the matrix a second time:
    of 13 rows by 256 × 1,024 in 41 µs instead of 109. Where that is not compiled, few rows times a
    vocabulary's matrix are oneDNN's: a sentence searched with beam 5 on scratch-de-en: 1.24:
    `bench_model linear`.
    """
    if weight.is_inference():  # which counts no writes
        return F.linear(x, weight, bias)
    if takes(x):
        return product(weight, bias).run(x)
    if torch.is_grad_enabled() or x.device.type != "cpu" or x.dtype != torch.float32:
        return F.linear(x, weight, bias)
    if weight.numel() < _MANY or x.numel() // x.shape[-1] not in _ROWS or not _BLOCKS:
        return F.linear(x, weight, bias)
    blocks = _kept(weight, None, _in_blocks)
    return torch.ops.mkldnn._linear_pointwise(x, blocks, bias, "none", [], "")


def product(weight: Tensor, bias: Tensor | None) -> Product:
    """step.c's product with this matrix as it is now: one for all who ask."""
    return _kept(weight, bias, Product)


def _kept(weight: Tensor, bias: Tensor | None, make: Callable[[Tensor, Tensor | None], Any]) -> Any:
    """What is made of a matrix, made anew when it is another tensor or was written to.

    The tensors that it was made of are kept, so that no other can come to lie at their address.
    """
    key = id(weight)
    state = weight.data_ptr(), weight._version, None if bias is None else bias.data_ptr(), make
    known = _rearranged.get(key)
    if known is None or known[0]() is not weight or known[1] != state:
        tensors = weight.detach(), None if bias is None else bias.detach()
        with torch.inference_mode(False):
            made = make(*tensors)
        known = _rearranged[key] = weakref.ref(weight, _forget), state, tensors, made
    return known[3]


def _forget(gone: weakref.ref) -> None:
    for key in [key for key, known in list(_rearranged.items()) if known[0] is gone]:
        _rearranged.pop(key, None)


def _in_blocks(weight: Tensor, _: Tensor | None) -> Tensor:
    """The matrix in oneDNN's layout."""
    return torch.ops.mkldnn._reorder_linear_weight(weight, _HINT)


class Linear(nn.Linear):
    """torch's layer, by `linear`."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


class Dropout(nn.Dropout):
    """In training, zero each feature with probability p and scale the others by 1/(1 − p) (§5.4).

    On a CPU a 64-bit random number decides four features, which leaves p exact to 2⁻¹⁶. Gradients
    of 2,048 tokens: 1.22 in the shape of captions-de-en, 1.10 in that of scratch-de-en:
    `bench_model dropout`. Runs that are resumed need its random numbers.
    """

    def forward(self, input: Tensor) -> Tensor:
        x = input
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():  # which cannot follow the views
            return F.dropout(x, self.p)
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        drawn = words.view(torch.int16)[: x.numel()].view(x.shape)
        kept = drawn.ge_(round(self.p * 2**16) - 2**15)  # 1 or 0
        scale = 1 / (1 - self.p)
        if x.element_size() == 2:  # the scale's own bits, or none: nothing is converted
            bits = int(torch.tensor(scale, dtype=x.dtype).view(torch.int16))
            return x * kept.mul_(bits).view(x.dtype)
        return x * kept.to(x.dtype).mul_(scale)


def replace_dropout(network: nn.Module) -> None:
    """Put a Dropout of this file in place of each of torch's own within a network."""
    for module in list(network.modules()):
        for name, part in list(module.named_children()):
            if type(part) is nn.Dropout:
                setattr(module, name, Dropout(part.p).train(part.training))
