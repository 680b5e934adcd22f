"""Positional encodings: tables of sinusoids, a learned table, or none."""

import torch
from torch import Tensor, nn

from core.config import ModelConfig, PositionTable

FAIRSEQ_FIRST = 2
"""The row of position 0 in fairseq's table, in which rows 0 and 1 belong to special tokens."""


def sinusoids(length: int, d_model: int, table: PositionTable = "paper") -> Tensor:
    """Return the first `length` rows of a table, float64 [length, d_model].

    The paper's (§3.5) is PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), and PE(pos, 2i+1) = cos of
    the same angle.
    """
    return sinusoids_at(torch.arange(length, dtype=torch.float64), d_model, table)


def sinusoids_at(position_N: Tensor, d_model: int, table: PositionTable = "paper") -> Tensor:
    """Return a table's rows for arbitrary positions, float64 [N, d_model].

    In fairseq's table (Ott et al. 2019), as in M2M100, the angles are
    (pos + 2) / 10000^(2i/(d_model − 2)).
    """
    width = d_model - 2 if table == "fairseq" else d_model
    first = FAIRSEQ_FIRST if table == "fairseq" else 0
    rate_I = 10_000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / width)
    angle_NI = (position_N.double() + first)[:, None] * rate_I
    return torch.stack((angle_NI.sin(), angle_NI.cos()), dim=-1).flatten(1)


def positions_of(config: ModelConfig) -> nn.Module:
    """Return one side's positions.."""
    size = config.max_length, config.d_model
    if config.learned_positions:
        return LearnedPositions(*size)
    if config.position_table == "none":
        return NoPositions(*size)
    return SinusoidalPositions(*size, config.position_table)


class SinusoidalPositions(nn.Module):
    """A fixed table of sinusoids (paper §3.5), not stored in checkpoints."""

    table: Tensor

    def __init__(self, max_length: int, d_model: int, kind: PositionTable = "paper"):
        super().__init__()
        self.kind: PositionTable = kind
        table = sinusoids(max_length, d_model, kind).to(torch.get_default_dtype())
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


class NoPositions(nn.Module):
    """Zeros: nothing is added to the embeddings, because scores depend on distances (T5)."""

    table: Tensor

    def __init__(self, max_length: int, d_model: int):
        super().__init__()
        self.register_buffer("table", torch.zeros(1, d_model), persistent=False)

    def forward(self, length: int, offset: int = 0) -> Tensor:
        """Return zeros [length, d_model]."""
        return self.table.expand(length, -1)
