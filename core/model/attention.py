"""Multi-head attention: the explicit five steps that can be read, and the fused path that is fast.

Axes: B batch, H head, T query, S key, E = d_k = d_v (size of one head), D d_model.
"""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from core.model.linear import Linear


def scaled_dot_product_attention(
    q_BHTE: Tensor,
    k_BHSE: Tensor,
    v_BHSE: Tensor,
    mask: Tensor | None,
    dropout: float = 0.0,
    mask_score: float | None = None,
) -> tuple[Tensor, Tensor]:
    """softmax(QKᵀ/√d_k)V (paper §3.2.1, eq. 1), step by step.

    `mask` is boolean, True = may attend, and broadcasts to [B, H, T, S]. Returns the values
    [B, H, T, E] and the weights [B, H, T, S] after softmax and before dropout; a masked weight is
    exactly 0, and a query that may attend to nothing gets zeros, not NaN. A finite `mask_score`
    in place of −∞ gives the same weights, except that such a query then looks at every key alike.
    """
    q_BHTE = q_BHTE / math.sqrt(q_BHTE.shape[-1])  # 1. scale
    scores_BHTS = q_BHTE @ k_BHSE.transpose(-2, -1)  # 2. QKᵀ
    if mask is not None:
        forbidden = -math.inf if mask_score is None else mask_score
        scores_BHTS = scores_BHTS.masked_fill(~mask, forbidden)  # 3. mask
    weights_BHTS = scores_BHTS.softmax(dim=-1)  # 4. softmax
    if mask is not None and mask_score is None:
        weights_BHTS = weights_BHTS.masked_fill(~mask, 0.0)  # only changes rows that are all masked
    return F.dropout(weights_BHTS, dropout, training=dropout > 0) @ v_BHSE, weights_BHTS  # 5. ·V


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_h)Wᴼ with head_i = Attention(QWᵢ^Q, KWᵢ^K, VWᵢ^V) (paper §3.2.2)."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        dropout: float,
        qkv_bias: bool = True,
        mask_score: float | None = None,
    ):
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.mask_score = mask_score
        self.query = Linear(d_model, d_model, bias=qkv_bias)
        self.key = Linear(d_model, d_model, bias=qkv_bias)
        self.value = Linear(d_model, d_model, bias=qkv_bias)
        self.output = Linear(d_model, d_model)

    def split_heads(self, x_BTD: Tensor) -> Tensor:
        """[B, T, D] → [B, H, T, E]: each head gets its own slice of the features."""
        return x_BTD.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def keys_values(self, x_BSD: Tensor) -> tuple[Tensor, Tensor]:
        """Project what is looked at to keys and values, both [B, H, S, E]: what a cache keeps."""
        return self.split_heads(self.key(x_BSD)), self.split_heads(self.value(x_BSD))

    def attend(
        self, x_BTD: Tensor, k_BHSE: Tensor, v_BHSE: Tensor, mask: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from x with given keys and values: output [B, T, D], and weights if needed."""
        q_BHTE = self.split_heads(self.query(x_BTD))
        dropout = self.dropout if self.training else 0.0
        if need_weights or self.mask_score is not None:  # the fused path knows −∞ only
            heads_BHTE, weights = scaled_dot_product_attention(
                q_BHTE, k_BHSE, v_BHSE, mask, dropout, self.mask_score
            )
        else:
            heads_BHTE, weights = (
                F.scaled_dot_product_attention(q_BHTE, k_BHSE, v_BHSE, mask, dropout),
                None,
            )
        output_BTD = self.output(heads_BHTE.transpose(1, 2).flatten(2))
        return output_BTD, weights if need_weights else None

    def forward(
        self, query: Tensor, memory: Tensor, mask: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """From query [B, T, D] look at memory [B, S, D]; see `attend` for what comes back."""
        return self.attend(query, *self.keys_values(memory), mask, need_weights)
