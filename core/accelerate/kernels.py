"""Call step.c on tensors: products, the best tokens, steps of a decoder, a loss.

It takes float32 on a CPU without gradients, and for the loss bfloat16 as well. Axes as in
decoder.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_double, c_int64, c_void_p

import torch
import torch.nn.functional as F
from torch import Tensor

from core.accelerate.library import library

_FEW = 16  # rows: several threads are no faster, for all wait for the weights


def takes(x: Tensor) -> bool:
    """Whether step.c is to multiply x [..., in] by weights of its type and on its device."""
    return (
        x.is_cpu
        and x.dtype == torch.float32
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and library() is not None
        and (torch.get_num_threads() == 1 or x.numel() <= _FEW * x.shape[-1])
    )


def top_k_log_probs(x: Tensor, first: int, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of x.log_softmax(-1), those before `first` counted as −∞, and their places.

    Of equal ones the first comes first. Only for an x that step.c takes. Raises ValueError.
    """
    found = library()
    assert found is not None
    x = x.contiguous()
    *rows, width = x.shape
    if not (0 < k <= width and 0 <= first <= width):
        raise ValueError(f"the {k} likeliest of {width} from {first} on do not exist")
    value, place = x.new_empty(*rows, k), x.new_empty(*rows, k, dtype=torch.int64)
    count = x.numel() // width
    found.likeliest(x.data_ptr(), count, width, first, k, value.data_ptr(), place.data_ptr())
    return value, place


def continuations(
    x_NKV: Tensor, total_NK: Tensor, first: int, each: int, wanted: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The `wanted` best ways on from K hypotheses: their sums, 0…K−1, and ids, all [N, wanted].

    From logits and, in float64, the sums so far; of each hypothesis its `each` likeliest tokens,
    as `likeliest` has them. Only for logits that step.c takes. Raises ValueError.
    """
    found = library()
    assert found is not None
    x_NKV, total_NK = x_NKV.contiguous(), total_NK.contiguous()
    N, K, V = x_NKV.shape
    if not (0 < each <= V and 0 <= first <= V and 0 < wanted <= K * each):
        raise ValueError(
            f"{wanted} sums of the {each} likeliest of {K} × {V} from {first} on do not exist"
        )
    assert total_NK.shape == (N, K) and total_NK.dtype == torch.float64
    best = total_NK.new_empty(N, wanted)
    row, id = (torch.empty(N, wanted, dtype=torch.int64, device="cpu") for _ in range(2))
    found.continuations(
        *(x_NKV.data_ptr(), total_NK.data_ptr(), N, K, V, first, each, wanted),
        *(best.data_ptr(), row.data_ptr(), id.data_ptr()),
    )
    return best, row, id


def smoothed_cross_entropy(
    x_NV: Tensor, target_N: Tensor, smoothing: float, count: float, gradient_NV: Tensor
) -> float | None:
    """The label-smoothed loss of logits, summed and divided by `count`; its gradient is written.

    All three tensors are contiguous, logits and gradient float32 or bfloat16. None, and nothing
    written, where step.c does not compute it: on another device, in another type, where it is not
    compiled, and where torch has several threads to share its own work among. Raises ValueError.
    """
    found = library()
    known = x_NV.is_cpu and x_NV.dtype in (torch.float32, torch.bfloat16)
    if found is None or not known or torch.get_num_threads() > 1:
        return None
    N, V = x_NV.shape
    assert gradient_NV.shape == (N, V) and gradient_NV.dtype == x_NV.dtype
    assert target_N.shape == (N,) and target_N.dtype == torch.int64
    assert all(x.is_contiguous() for x in (x_NV, target_N, gradient_NV))
    if N and not 0 <= int(target_N.min()) <= int(target_N.max()) < V:
        raise ValueError(f"a target is outside of the vocabulary of {V}")
    row = torch.empty(V + found.panel(), dtype=torch.float32, device="cpu")
    return found.smoothed(
        *(x_NV.dtype == torch.bfloat16, x_NV.data_ptr(), N, V, target_N.data_ptr()),
        *(smoothing, count, row.data_ptr(), gradient_NV.data_ptr()),
    )


class _Affine(ctypes.Structure):
    _fields_ = (("panels", c_void_p), ("bias", c_void_p), ("in_", c_int64), ("out", c_int64))


class _Norm(ctypes.Structure):
    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("eps", c_double))


class _Layer(ctypes.Structure):
    _fields_ = (("products", _Affine * 6), ("norms", _Norm * 3), ("norm_first", c_int64))


class Product:
    """x ↦ x Wᵀ + b of W [out, in] as it is now; b [out] may be written to."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        """Raises RuntimeError where there is no compiled step.c."""
        if (found := library()) is None:
            raise RuntimeError("step.c is not compiled here")
        out, width = weight.shape
        panel = found.panel()
        whole = F.pad(weight.detach().t(), (0, -out % panel))
        panels = whole.view(width, -1, panel).transpose(0, 1).contiguous()
        self.weight, self.bias, self._panels = weight, bias, panels
        at = None if bias is None else bias.data_ptr()
        self.struct = _Affine(panels.data_ptr(), at, width, out)
        self._pointer, self._product = ctypes.byref(self.struct), found.product

    def __call__(self, x: Tensor) -> Tensor:
        return self.run(x) if takes(x) else F.linear(x, self.weight, self.bias)

    def run(self, x: Tensor) -> Tensor:
        """The same for an x that step.c takes."""
        x = x.contiguous()
        *shape, width = x.shape
        y = x.new_empty(*shape, self.struct.out)
        self._product(self._pointer, x.data_ptr(), x.numel() // width, 0, y.data_ptr())
        return y


class Layer:
    """One decoder layer as step.c reads it; it keeps the tensors that this points into.

    `products` are those of q, k and v joined, self-attention's output, cross-attention's query and
    output, and both of the feed-forward; `norms` are weight, bias and eps of each.
    """

    def __init__(
        self,
        products: Sequence[Product],
        norms: Sequence[tuple[Tensor, Tensor, float]],
        norm_first: bool,
    ):
        self._kept = products, norms
        self.struct = _Layer(
            (_Affine * 6)(*(product.struct for product in products)),
            (_Norm * 3)(*((w.data_ptr(), b.data_ptr(), eps) for w, b, eps in norms)),
            norm_first,
        )
        self.widest: int = max(product.struct.out for product in products)


class Decoder:
    """All layers of a decoder, one behind the other."""

    def __init__(self, layers: Sequence[Layer]):
        self._kept = layers
        self._structs = (_Layer * len(layers))(*(layer.struct for layer in layers))
        self._widest = max(layer.widest for layer in layers)

    def step(
        self, x_BD: Tensor, tree: Tensor, path_BM: Tensor, memory: Tensor, source: Tensor
    ) -> None:
        """One new token a row: `x_BD` becomes the last layer's output, in place.

        The new tokens' keys and values go to the last of the M cells of the `tree`, which is
        [L, 2, N, H, room, E]; `memory` is [L, 2, N, H, S, E], `source` its mask: all contiguous.
        """
        found = library()
        assert found is not None
        B, D = x_BD.shape
        (L, _, N, H, S, E), M = memory.shape, path_BM.shape[1]
        floats = x_BD.new_empty(B * (3 * D + self._widest))
        counts = torch.empty(B + N, dtype=torch.int64, device="cpu")
        cells = torch.empty(B * M + N * S, dtype=torch.int32, device="cpu")
        found.decode(
            *(self._structs, L, N, B // N, H, E, x_BD.data_ptr()),
            *(tree.data_ptr(), tree.shape[-2], M, path_BM.data_ptr(), memory.data_ptr(), S),
            *(source.data_ptr(), floats.data_ptr(), counts.data_ptr(), cells.data_ptr()),
        )
