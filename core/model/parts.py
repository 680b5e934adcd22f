"""Parts that networks of other families have in place of the paper's, each with its source.

Axes as in transformer.py; N buckets of distance.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.config import Activation, ModelConfig


def gelu_tanh(x: Tensor) -> Tensor:
    """Return x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))) (Hendrycks & Gimpel 2016, §2)."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
}
"""ReLU (paper §3.3), SiLU or Swish (Ramachandran et al. 2017), GELU (Hendrycks & Gimpel 2016)."""


class RMSNorm(nn.Module):
    """Division by the root mean square, without mean and shift (Zhang & Sennrich 2019, eq. 4).

    `factor` is a constant that multiplies the output: T5 1.0 has d_model^−0.5 in front of its
    classifier.
    """

    kind = "rms"
    bias = None

    def __init__(self, d_model: int, eps: float, factor: float = 1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps, self.factor = eps, factor

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return x / √(mean of x² + eps) · weight · factor: [..., D]."""
        mean_square = x.square().mean(-1, keepdim=True)
        return x * torch.rsqrt(mean_square + self.eps) * self.weight * self.factor


class DeviationNorm(nn.Module):
    """The norm of "The Annotated Transformer" (Rush 2018)."""

    kind = "deviation"

    def __init__(self, d_model: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return (x − mean) / (s + eps) · weight + bias, with s = √(Σ(x − mean)² / (D − 1))."""
        deviation, mean = torch.std_mean(x, dim=-1, correction=1, keepdim=True)
        return (x - mean) / (deviation + self.eps) * self.weight + self.bias


class ScoreBias(nn.Module):
    """One bias per head and bucket of distance, added to the scores of a stack's self-attentions.

    All layers of the stack share it (T5: Raffel et al. 2020, §2.1).
    """

    bucket: Tensor

    def __init__(self, config: ModelConfig, causal: bool):
        super().__init__()
        buckets, heads = (
            config.relative_buckets or 0,
            config.heads("decoder" if causal else "encoder"),
        )
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        self.farthest, self.causal = config.relative_distance, causal
        self._zero = config.max_length - 1  # index of the distance 0
        distance = torch.arange(-self._zero, config.max_length)
        table = buckets_of(distance, buckets, config.relative_distance, causal)
        self.register_buffer("bucket", table, persistent=False)

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)

    def forward(self, queries: int, keys: int) -> Tensor:
        """Return the biases [H, Q, K]. The queries are the last of the keys, as in a KV cache."""
        key = torch.arange(keys, device=self.weight.device)
        distance_QK = key - key[keys - queries :, None]
        return self.weight[self.bucket[distance_QK + self._zero]].permute(2, 0, 1)


def buckets_of(distance: Tensor, count: int, farthest: int, causal: bool) -> Tensor:
    """Return the bucket of each distance, key minus query: 0 … count − 1.

    Half of the buckets are for distances below their number, the others cover growing ranges up to
    `farthest`, by the logarithm. If not `causal`, keys behind the query have the second half of the
    buckets to themselves; else they share the bucket of distance 0. The logarithm is computed in
    float32, as in T5's own code: at the edge of a bucket, its rounding decides.
    """
    first = torch.zeros_like(distance)
    if causal:
        distance = -distance.clamp(max=0)
    else:
        count //= 2
        first, distance = (distance > 0) * count, distance.abs()
    exact = count // 2
    share = torch.log(distance.clamp(min=1).float() / exact) / math.log(farthest / exact)
    wide = (exact + (share * (count - exact)).long()).clamp(max=count - 1)
    return first + torch.where(distance < exact, distance, wide)
