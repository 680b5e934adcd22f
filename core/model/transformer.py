"""The Transformer of Vaswani et al. 2017, from scratch, in the paper's order.

Axes: B batch, S source length, T target length, D d_model, V vocabulary, H head, E head size; in a
search B rows are K hypotheses of each of N sentences, and M are the tokens written so far.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.config import ModelConfig
from core.model.attention import MultiHeadAttention
from core.model.dropout import Dropout
from core.model.embeddings import Embeddings
from core.model.growing import Growing
from core.model.interface import AttentionSite
from core.model.linear import Linear
from core.model.masks import padding_mask, target_mask
from core.text.tokenizer import PAD


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """(x − mean) / √(variance + eps), scaled and shifted (Ba et al. 2016): [..., D] → [..., D].

    The formula to read; `LayerNorm` runs it as torch's one kernel, and a test holds them equal.
    """
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


class LayerNorm(nn.Module):
    """`layer_norm` with learned weight and bias, in one kernel: several times as fast."""

    def __init__(self, size: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class FeedForward(nn.Module):
    """max(0, xW₁ + b₁)W₂ + b₂, at each position alike (paper §3.3)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.inner = Linear(config.d_model, config.dim_feedforward)
        self.outer = Linear(config.dim_feedforward, config.d_model)
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
        self, x_NKD: Tensor, cache: "LayerCache", path_mask: Tensor, source_mask: Tensor
    ) -> tuple[Tensor, "LayerCache"]:
        """One new position of K hypotheses of each sentence, at inference: `forward` for that row.

        Returns the output [N, K, D] and the cache with the new position's keys and values.
        """

        def look_back(h: Tensor) -> tuple[Tensor, LayerCache]:
            k_NHKE, v_NHKE = self.self_attention.keys_values(h)
            k = cache.k.append(k_NHKE.transpose(1, 2))
            v = cache.v.append(v_NHKE.transpose(1, 2))
            k_NHME, v_NHME = k.tensor.transpose(1, 2), v.tensor.transpose(1, 2)
            looked = self.self_attention.attend(h, k_NHME, v_NHME, path_mask, False)[0]
            return looked, replace(cache, k=k, v=v)

        def look_across(h: Tensor) -> Tensor:
            cross = self.cross_attention
            return cross.attend(h, cache.cross_k, cache.cross_v, source_mask, False)[0]

        if self.norm_first:
            h, grown = look_back(self.norm1(x_NKD))
            x_NKD = x_NKD + h
            x_NKD = x_NKD + look_across(self.norm2(x_NKD))
            return x_NKD + self.feed_forward(self.norm3(x_NKD)), grown
        h, grown = look_back(x_NKD)
        x_NKD = self.norm1(x_NKD + h)
        x_NKD = self.norm2(x_NKD + look_across(x_NKD))
        return self.norm3(x_NKD + self.feed_forward(x_NKD)), grown


@dataclass(frozen=True)
class LayerCache:
    """One decoder layer's keys and values: of the M tokens written, and of the memory."""

    k: Growing  # [N, M, H, E]
    v: Growing
    cross_k: Tensor  # [N, H, S, E]
    cross_v: Tensor

    def select(self, rows_N: Tensor) -> "LayerCache":
        written = (Growing.of(x.tensor.index_select(0, rows_N)) for x in (self.k, self.v))
        memory = (x.index_select(0, rows_N) for x in (self.cross_k, self.cross_v))
        return LayerCache(*written, *memory)


@dataclass(frozen=True)
class DecoderState:
    """All that decoding one more token needs; a value, so a search may reorder it freely.

    Its rows are B = N · K hypotheses: K of each of N sentences, one sentence after the other. They
    are paths through a tree of M tokens, K more with each step. All of a sentence's hypotheses are
    queries of one attention, over the whole tree, and a mask keeps each one to its path: so to
    follow the survivors of a beam nothing is copied but that mask.
    """

    layers: tuple[LayerCache, ...]
    source_mask: Tensor  # [N, 1, 1, S]
    path_BM: Tensor  # bool
    length: int

    def select(self, rows_B: Tensor) -> "DecoderState":
        """The state whose row i is this state's row rows[i]: how a beam follows its survivors.

        Rows that are not as many of each sentence become sentences of their own.
        """
        N = len(self.source_mask)
        state = replace(self, path_BM=self.path_BM.index_select(0, rows_B))
        sentence_B = rows_B // (len(self.path_BM) // N)
        sentences, rows_each = sentence_B.unique_consecutive(return_counts=True)
        if (rows_each != rows_each[:1]).any():
            sentences = sentence_B
        if torch.equal(sentences, torch.arange(N, device=sentences.device)):
            return state
        return replace(
            state,
            layers=tuple(layer.select(sentences) for layer in self.layers),
            source_mask=self.source_mask.index_select(0, sentences),
        )


class Transformer(nn.Module):
    """Encoder, decoder, and the projection to the target vocabulary (paper figure 1)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.encoder_norm = _norm(config) if config.final_norm else nn.Identity()
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        self.decoder_norm = _norm(config) if config.final_norm else nn.Identity()

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
            nothing_yet = Growing.of(cross_k.transpose(1, 2)[:, :0])
            caches.append(LayerCache(nothing_yet, nothing_yet, cross_k, cross_v))
        path_BM = source_mask.new_empty(len(source_BS), 0)
        return DecoderState(tuple(caches), source_mask, path_BM, 0)

    def step(self, token_B: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Feed one token a row: logits [B, V] for the next, and the state that includes it."""
        N, B = len(state.source_mask), len(token_B)
        itself_BK = torch.eye(B // N, dtype=torch.bool, device=token_B.device).repeat(N, 1)
        path_BM = torch.cat((state.path_BM, itself_BK), dim=1)
        path_mask = path_BM.view(N, 1, B // N, -1)
        x_NKD = self.embeddings.target(token_B[:, None], state.length).view(N, B // N, -1)
        caches = []
        for layer, cache in zip(self.decoder, state.layers, strict=True):
            x_NKD, cache = layer.step(x_NKD, cache, path_mask, state.source_mask)
            caches.append(cache)
        logits_BV = self.classify(self.decoder_norm(x_NKD)).flatten(0, 1)
        length = state.length + 1
        return logits_BV, DecoderState(tuple(caches), state.source_mask, path_BM, length)

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
