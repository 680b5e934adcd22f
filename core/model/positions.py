"""Positional encodings: the paper's sinusoids and a learned table."""

import torch
from torch import Tensor, nn


def sinusoids(length: int, d_model: int) -> Tensor:
    """Return the table of paper §3.5, float64 [length, d_model].

    PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same angle.
    """
    return sinusoids_at(torch.arange(length, dtype=torch.float64), d_model)


def sinusoids_at(position_N: Tensor, d_model: int) -> Tensor:
    """Return the table's rows for arbitrary positions, float64 [N, d_model]."""
    rate_I = 10_000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angle_NI = position_N.double()[:, None] * rate_I
    return torch.stack((angle_NI.sin(), angle_NI.cos()), dim=-1).flatten(1)


class SinusoidalPositions(nn.Module):
    """A fixed table of sinusoids (paper §3.5), not stored in checkpoints."""

    table: Tensor

    def __init__(self, max_length: int, d_model: int):
        super().__init__()
        table = sinusoids(max_length, d_model).to(torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def forward(self, length: int, offset: int = 0) -> Tensor:
        """Return rows offset … offset+length−1 of the table: [length, d_model]."""
        return self.table[offset : offset + length]


class LearnedPositions(nn.Module):
    """One trained vector per position up to max_length."""

    def __init__(self, max_length: int, d_model: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, length: int, offset: int = 0) -> Tensor:
        """Return rows offset … offset+length−1 of the table: [length, d_model]."""
        return self.weight[offset : offset + length]
