"""ctypes bindings of step.c: matmul, top-k, beam candidates, decoder steps and the training loss.

The kernels support float32 on a CPU without gradients; the loss also supports bfloat16. Axes as in
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
from core.config import Activation

_MEMORY_BOUND_ROWS = 16  # with at most this many rows, more threads do not help


def supports(x: Tensor) -> bool:
    """Return whether step.c should handle x [..., in], with weights of x's type and device."""
    return (
        x.is_cpu
        and x.dtype == torch.float32
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and library() is not None
        and (torch.get_num_threads() == 1 or x.numel() <= _MEMORY_BOUND_ROWS * x.shape[-1])
    )


def top_k_log_probs(x: Tensor, first: int, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest of x.log_softmax(-1) and their indices; ids below `first` count as −∞.

    Ties go to the lower index. Requires `supports(x)`. Raises ValueError for an impossible k or
    `first`.
    """
    step_c = _library()
    x = x.contiguous()
    *rows, width = x.shape
    if not (0 < k <= width and 0 <= first <= width):
        raise ValueError(f"cannot take the top {k} of {width} logits with ids from {first} on")
    value, index = x.new_empty(*rows, k), x.new_empty(*rows, k, dtype=torch.int64)
    count = x.numel() // width
    step_c.top_k_log_probs(x.data_ptr(), count, width, first, k, value.data_ptr(), index.data_ptr())
    return value, index


def beam_candidates(
    x_NKV: Tensor, total_NK: Tensor, first: int, per_row: int, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best continuations of K hypotheses: sums, rows 0…K−1 and ids, all [N, count].

    See TopTokens.beam_candidates. `x` holds logits; ids below `first` are excluded. Requires
    `supports(x)`. Raises ValueError for an impossible number of candidates.
    """
    step_c = _library()
    x_NKV, total_NK = x_NKV.contiguous(), total_NK.contiguous()
    N, K, V = x_NKV.shape
    if not (0 < per_row <= V and 0 <= first <= V and 0 < count <= K * per_row):
        raise ValueError(
            f"cannot take {count} of the top {per_row} from {first} on of {K} × {V} logits"
        )
    assert total_NK.shape == (N, K) and total_NK.dtype == torch.float64
    best = total_NK.new_empty(N, count)
    row, id = (torch.empty(N, count, dtype=torch.int64, device="cpu") for _ in range(2))
    step_c.beam_candidates(
        *(x_NKV.data_ptr(), total_NK.data_ptr(), N, K, V, first, per_row, count),
        *(best.data_ptr(), row.data_ptr(), id.data_ptr()),
    )
    return best, row, id


def _library() -> ctypes.CDLL:
    """Return the compiled step.c. Raises RuntimeError if there is none."""
    if (loaded := library()) is None:
        raise RuntimeError("step.c is not compiled here")
    return loaded


def smoothed_cross_entropy(
    x_NV: Tensor, target_N: Tensor, smoothing: float, count: float, gradient_NV: Tensor
) -> float | None:
    """Return the label-smoothed loss of logits, summed and divided by `count`; write its gradient.

    All tensors are contiguous; logits and gradient are float32 or bfloat16. Returns None and writes
    nothing for another device or type, without step.c, or if torch uses several threads. Raises
    ValueError for a target outside of the vocabulary.
    """
    step_c = library()
    supported = x_NV.is_cpu and x_NV.dtype in (torch.float32, torch.bfloat16)
    if step_c is None or not supported or torch.get_num_threads() > 1:
        return None
    N, V = x_NV.shape
    assert gradient_NV.shape == (N, V) and gradient_NV.dtype == x_NV.dtype
    assert target_N.shape == (N,) and target_N.dtype == torch.int64
    assert all(x.is_contiguous() for x in (x_NV, target_N, gradient_NV))
    if N and not 0 <= int(target_N.min()) <= int(target_N.max()) < V:
        raise ValueError(f"a target is outside of the vocabulary of {V}")
    row = torch.empty(V + step_c.panel(), dtype=torch.float32, device="cpu")
    return step_c.smoothed_cross_entropy(
        *(x_NV.dtype == torch.bfloat16, x_NV.data_ptr(), N, V, target_N.data_ptr()),
        *(smoothing, count, row.data_ptr(), gradient_NV.data_ptr()),
    )


class _Affine(ctypes.Structure):
    _fields_ = (("panels", c_void_p), ("bias", c_void_p), ("in_", c_int64), ("out", c_int64))


class _Norm(ctypes.Structure):
    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("eps", c_double))


class _Layer(ctypes.Structure):
    _fields_ = (
        *(("products", _Affine * 6), ("norms", _Norm * 3)),
        *((name, c_int64) for name in ("norm_first", "activation", "scaled", "gated")),
    )


_ACTIVATIONS: dict[Activation, int] = {"relu": 0, "silu": 1, "gelu": 2, "gelu_tanh": 3}
"""The enum in step.c."""


class Product:
    """x ↦ x Wᵀ + b with a packed copy of W [out, in]; b [out] is read at each call."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        """Pack the matrix. Raises RuntimeError without a compiled step.c."""
        step_c = _library()
        (out, width), panel, matrix = weight.shape, step_c.panel(), weight.detach()
        whole = out // panel
        panels = matrix.new_zeros(-(-out // panel), width, panel)  # the last one may be padded
        panels[:whole] = matrix[: whole * panel].view(whole, panel, width).transpose(1, 2)
        panels[whole:, :, : out % panel] = matrix[whole * panel :].t()
        self.weight, self.bias, self._panels = weight, bias, panels
        address = None if bias is None else bias.data_ptr()
        self.struct = _Affine(panels.data_ptr(), address, width, out)
        self._pointer, self._product = ctypes.byref(self.struct), step_c.product

    def __call__(self, x: Tensor) -> Tensor:
        return self.run(x) if supports(x) else F.linear(x, self.weight, self.bias)

    def run(self, x: Tensor) -> Tensor:
        """Apply the product; requires `supports(x)`."""
        x = x.contiguous()
        *shape, width = x.shape
        y = x.new_empty(*shape, self.struct.out)
        self._product(self._pointer, x.data_ptr(), x.numel() // width, y.data_ptr())
        return y


class Layer:
    """A decoder layer as a C struct, with references to the tensors that it points into.

    `products`: fused q, k and v; self-attention output; cross-attention query; cross-attention
    output; feed-forward inner and outer. If `gated`, the inner one has the gate's columns behind
    its own. `norms`: weight, bias and eps of norm1 to norm3; one without a bias divides by the root
    mean square. If `scaled`, scores are divided by √E.
    """

    def __init__(
        self,
        products: Sequence[Product],
        norms: Sequence[tuple[Tensor, Tensor | None, float]],
        *,
        norm_first: bool,
        activation: Activation,
        scaled: bool,
        gated: bool,
    ):
        self._kept = products, norms
        self.struct = _Layer(
            (_Affine * 6)(*(product.struct for product in products)),
            (_Norm * 3)(
                *((w.data_ptr(), None if b is None else b.data_ptr(), eps) for w, b, eps in norms)
            ),
            norm_first,
            _ACTIVATIONS[activation],
            scaled,
            gated,
        )
        self.widest: int = max(product.struct.out for product in products)


class Decoder:
    """All layers of a decoder, in order."""

    def __init__(self, layers: Sequence[Layer]):
        self._kept = layers
        self._structs = (_Layer * len(layers))(*(layer.struct for layer in layers))
        self._widest = max(layer.widest for layer in layers)

    def step(
        self,
        x_BD: Tensor,
        tree: Tensor,
        path_BM: Tensor,
        memory: Tensor,
        source: Tensor,
        bias_HT: Tensor | None,
    ) -> None:
        """Run all layers for one new token per row; overwrite `x_BD` with the output.

        Writes the new keys and values to the last K of the M cells of `tree`, whose shape is
        [L, 2, N, H, capacity, E]; `memory` is [L, 2, N, H, S, E] and `source` its mask. `bias` is
        added to the scores of self-attentions, by the position of the key among a row's T tokens.
        All tensors are contiguous.
        """
        step_c = _library()
        B, D = x_BD.shape
        (L, _, N, H, S, E), M = memory.shape, path_BM.shape[1]
        floats = x_BD.new_empty(B * (2 * D + H * E + self._widest))
        counts = torch.empty(B + N, dtype=torch.int64, device="cpu")
        cells = torch.empty(B * M + N * S, dtype=torch.int32, device="cpu")
        step_c.decode(
            *(self._structs, L, N, B // N, H, E, D, x_BD.data_ptr()),
            *(tree.data_ptr(), tree.shape[-2], M, path_BM.data_ptr(), memory.data_ptr(), S),
            *(source.data_ptr(), None if bias_HT is None else bias_HT.data_ptr()),
            *(floats.data_ptr(), counts.data_ptr(), cells.data_ptr()),
        )
