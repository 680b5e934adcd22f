"""The Transformer of Vaswani et al. 2017, from scratch, in the paper's order.

Axes: B batch, S source length, T target length, D d_model, V vocabulary, H head, E head size.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.config import ModelConfig
from core.model.attention import MultiHeadAttention
from core.model.dropout import Dropout
from core.model.embeddings import Embeddings
from core.model.interface import AttentionSite
from core.model.masks import padding_mask, target_mask
from core.text.tokenizer import PAD


class LayerNorm(nn.Module):
    """(x − mean) / √(variance + eps), scaled and shifted by learned vectors (Ba et al. 2016).

    In training torch does the same in one kernel, whose backward pass is several times as fast.
    """

    def __init__(self, size: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + self.eps) * self.weight + self.bias


class FeedForward(nn.Module):
    """max(0, xW₁ + b₁)W₂ + b₂, at each position alike (paper §3.3)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.dim_feedforward)
        self.outer = nn.Linear(config.dim_feedforward, config.d_model)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(self.inner(x).relu()))


def _attention(config: ModelConfig) -> MultiHeadAttention:
    rate = config.dropout if config.attention_dropout is None else config.attention_dropout
    return MultiHeadAttention(
        config.d_model, config.num_heads, rate, config.qkv_bias, config.mask_score
    )


def _norm(config: ModelConfig) -> LayerNorm:
    return LayerNorm(config.d_model, config.layer_norm_eps)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside a residual connection (paper §3.1).

    The paper normalises after each residual sum; `norm_first` normalises each sublayer's input.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.norm_first = config.norm_first
        self.self_attention = _attention(config)
        self.feed_forward = FeedForward(config)
        self.norm1, self.norm2 = _norm(config), _norm(config)
        self.dropout = Dropout(config.dropout)

    def forward(self, x_BSD: Tensor, source_mask: Tensor) -> Tensor:
        if self.norm_first:
            h = self.norm1(x_BSD)
            x_BSD = x_BSD + self.dropout(self.self_attention(h, h, source_mask)[0])
            return x_BSD + self.dropout(self.feed_forward(self.norm2(x_BSD)))
        x_BSD = self.norm1(x_BSD + self.dropout(self.self_attention(x_BSD, x_BSD, source_mask)[0]))
        return self.norm2(x_BSD + self.dropout(self.feed_forward(x_BSD)))


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention to the encoder's output, feed-forward (paper §3.1)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.norm_first = config.norm_first
        self.self_attention = _attention(config)
        self.cross_attention = _attention(config)
        self.feed_forward = FeedForward(config)
        self.norm1, self.norm2, self.norm3 = _norm(config), _norm(config), _norm(config)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x_BTD: Tensor, memory_BSD: Tensor, target_mask: Tensor, source_mask: Tensor
    ) -> Tensor:
        if self.norm_first:
            h = self.norm1(x_BTD)
            x_BTD = x_BTD + self.dropout(self.self_attention(h, h, target_mask)[0])
            h = self.norm2(x_BTD)
            x_BTD = x_BTD + self.dropout(self.cross_attention(h, memory_BSD, source_mask)[0])
            return x_BTD + self.dropout(self.feed_forward(self.norm3(x_BTD)))
        x_BTD = self.norm1(x_BTD + self.dropout(self.self_attention(x_BTD, x_BTD, target_mask)[0]))
        x_BTD = self.norm2(
            x_BTD + self.dropout(self.cross_attention(x_BTD, memory_BSD, source_mask)[0])
        )
        return self.norm3(x_BTD + self.dropout(self.feed_forward(x_BTD)))

    def step(
        self, x_B1D: Tensor, cache: "LayerCache", source_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One new position at inference: `forward` for the last row, with cached keys and values.

        Returns the output [B, 1, D] and the grown self-attention keys and values [B, H, t+1, E].
        """

        def look_back(h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            k, v = self.self_attention.keys_values(h)
            k, v = torch.cat((cache.k, k), dim=2), torch.cat((cache.v, v), dim=2)
            return self.self_attention.attend(h, k, v, None, False)[0], k, v

        def look_across(h: Tensor) -> Tensor:
            return self.cross_attention.attend(h, cache.cross_k, cache.cross_v, source_mask, False)[
                0
            ]

        if self.norm_first:
            h, k, v = look_back(self.norm1(x_B1D))
            x_B1D = x_B1D + h
            x_B1D = x_B1D + look_across(self.norm2(x_B1D))
            return x_B1D + self.feed_forward(self.norm3(x_B1D)), k, v
        h, k, v = look_back(x_B1D)
        x_B1D = self.norm1(x_B1D + h)
        x_B1D = self.norm2(x_B1D + look_across(x_B1D))
        return self.norm3(x_B1D + self.feed_forward(x_B1D)), k, v


@dataclass(frozen=True)
class LayerCache:
    """One decoder layer's keys and values: its own so far, and the encoder's; all [B, H, ·, E]."""

    k: Tensor
    v: Tensor
    cross_k: Tensor
    cross_v: Tensor

    def select(self, rows_N: Tensor) -> "LayerCache":
        return LayerCache(
            self.k[rows_N], self.v[rows_N], self.cross_k[rows_N], self.cross_v[rows_N]
        )


@dataclass(frozen=True)
class DecoderState:
    """All that decoding one more token needs; a value, so a search may reorder it freely."""

    layers: tuple[LayerCache, ...]
    source_mask: Tensor
    length: int

    def select(self, rows_N: Tensor) -> "DecoderState":
        """The state whose row i is this state's row rows[i]: how a beam follows its survivors."""
        return replace(
            self,
            layers=tuple(layer.select(rows_N) for layer in self.layers),
            source_mask=self.source_mask[rows_N],
        )


class Transformer(nn.Module):
    """Encoder, decoder, and the projection to the target vocabulary (paper figure 1)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.encoder_norm = _norm(config)
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        self.decoder_norm = _norm(config)

    def encode(self, source_BS: Tensor) -> tuple[Tensor, Tensor]:
        """Source ids → memory [B, S, D] and its padding mask [B, 1, 1, S]."""
        source_mask = padding_mask(source_BS, PAD)
        x_BSD = self.embeddings.source(source_BS)
        for layer in self.encoder:
            x_BSD = layer(x_BSD, source_mask)
        return self.encoder_norm(x_BSD), source_mask

    def decode(self, target_BT: Tensor, memory_BSD: Tensor, source_mask: Tensor) -> Tensor:
        """Target ids so far → hidden states [B, T, D]; row t knows tokens 0…t only."""
        mask = target_mask(target_BT, PAD)
        x_BTD = self.embeddings.target(target_BT)
        for layer in self.decoder:
            x_BTD = layer(x_BTD, memory_BSD, mask, source_mask)
        return self.decoder_norm(x_BTD)

    def classify(self, hidden: Tensor) -> Tensor:
        """Hidden states [..., D] → logits [..., V]."""
        return self.embeddings.classify(hidden)

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Teacher forcing: source and target-in ids → logits [B, T, V] for the next tokens."""
        return self.classify(self.decode(target_BT, *self.encode(source_BS)))

    def start(self, source_BS: Tensor) -> DecoderState:
        """Encode once and project the memory to every layer's cross keys and values."""
        memory_BSD, source_mask = self.encode(source_BS)
        caches = []
        for layer in self.decoder:
            cross_k, cross_v = layer.cross_attention.keys_values(memory_BSD)
            nothing_yet = cross_k[:, :, :0]
            caches.append(LayerCache(nothing_yet, nothing_yet, cross_k, cross_v))
        return DecoderState(tuple(caches), source_mask, 0)

    def step(self, token_B: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Feed one token a row: logits [B, V] for the next, and the state that includes it."""
        x_B1D = self.embeddings.target(token_B[:, None], state.length)
        caches = []
        for layer, cache in zip(self.decoder, state.layers, strict=True):
            x_B1D, k, v = layer.step(x_B1D, cache, state.source_mask)
            caches.append(replace(cache, k=k, v=v))
        logits_BV = self.classify(self.decoder_norm(x_B1D))[:, 0]
        return logits_BV, replace(state, layers=tuple(caches), length=state.length + 1)

    def attention_sites(self) -> list[AttentionSite]:
        """Every place where attention happens, by kind and layer."""
        ask = {"need_weights": True}
        return [
            *(
                AttentionSite("encoder", i, e.self_attention, ask)
                for i, e in enumerate(self.encoder)
            ),
            *(
                AttentionSite("decoder", i, d.self_attention, ask)
                for i, d in enumerate(self.decoder)
            ),
            *(
                AttentionSite("cross", i, d.cross_attention, ask)
                for i, d in enumerate(self.decoder)
            ),
        ]
