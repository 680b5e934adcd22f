"""The Transformer of Vaswani et al. 2017, from scratch, in the order of a forward pass.

Axes: B batch, S source length, T target length, D d_model, V vocabulary, H head, E = d_k = d_v (the
size of one head). In a mask True = may attend. `core.accelerate` speeds up this model on a CPU.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.config import ModelConfig
from core.kinds import Kind
from core.model import decoding
from core.model.interface import AttentionSite, Projection, Side, Stack
from core.model.masks import padding_mask, target_mask
from core.model.parts import ACTIVATIONS, DeviationNorm, RMSNorm, ScoreBias
from core.model.positions import positions_of
from core.model.top_tokens import TopTokens
from core.text.tokenizer import PAD


class Embeddings(nn.Module):
    """Token and position embeddings of both sides, and the output projection (§3.4, §3.5)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.shared = config.share_embeddings
        self.tied = config.tie_classifier
        self.source_table = nn.Embedding(config.source_vocab_size, config.d_model)
        if not self.shared:
            self.target_table = nn.Embedding(config.target_vocab_size, config.d_model)
        self.source_positions, self.target_positions = positions_of(config), positions_of(config)
        self.source_norm, self.target_norm = None, None
        if config.embedding_norm:
            self.source_norm, self.target_norm = (
                LayerNorm(config.d_model, config.layer_norm_eps) for _ in range(2)
            )
        if not self.tied:
            self.classifier = nn.Linear(config.d_model, config.target_vocab_size)
        self.tied_bias: nn.Parameter | None = None
        if config.tied_bias:
            self.tied_bias = nn.Parameter(torch.zeros(config.target_vocab_size))
        self.dropout = nn.Dropout(config.dropout)

    def reset_parameters(self, xavier: bool = False) -> None:
        """Draw tables from N(0, 1/d_model) or, as in many tutorials, by Xavier's rule."""
        for name, module in self.named_children():
            if isinstance(module, LayerNorm):
                module.reset_parameters()
            elif xavier or name == "classifier":
                _xavier(module)
            else:
                for table in module.parameters():
                    nn.init.normal_(table, std=table.shape[-1] ** -0.5)
        if self.tied_bias is not None:
            nn.init.zeros_(self.tied_bias)

    @property
    def target_weight(self) -> Tensor:
        """The target embedding table [V, D], which is the source table if they are shared."""
        return self.source_table.weight if self.shared else self.target_table.weight

    @property
    def projection(self) -> Projection:
        """The output projection; if tied, its weight [V, D] is the target table (§3.4)."""
        if self.tied:
            return Projection(self.target_weight, self.tied_bias)
        return Projection(self.classifier.weight, self.classifier.bias)

    def source(self, ids_BS: Tensor) -> Tensor:
        """Return embedding·√d_model (if scaled) + position: ids [B, S] → [B, S, D]."""
        x_BSD = self.look_up(ids_BS, self.source_table.weight)
        x_BSD = x_BSD + self.source_positions(ids_BS.shape[1])
        return self.dropout(x_BSD if self.source_norm is None else self.source_norm(x_BSD))

    def target(self, ids_BT: Tensor, offset: int = 0) -> Tensor:
        """Embed target ids [B, T] → [B, T, D]; `offset` is the position of the first column."""
        x_BTD = self.look_up(ids_BT, self.target_weight)
        x_BTD = x_BTD + self.target_positions(ids_BT.shape[1], offset)
        return self.dropout(x_BTD if self.target_norm is None else self.target_norm(x_BTD))

    def target_token(self, ids_B: Tensor, position: int) -> Tensor:
        """Embed one unpadded target token per row at `position`, without dropout: [B, D]."""
        rows_BD = F.embedding(ids_B, self.target_weight) * self.scale
        rows_BD = rows_BD + self.target_positions(1, position)
        return rows_BD if self.target_norm is None else self.target_norm(rows_BD)

    def look_up(self, ids: Tensor, table_VD: Tensor) -> Tensor:
        """Look up and scale rows of a table; <pad> becomes 0, whatever its row holds."""
        rows = F.embedding(ids, table_VD) * self.scale
        return rows.masked_fill((ids == PAD)[..., None], 0.0)

    def classify(self, hidden: Tensor) -> Tensor:
        """Project hidden states [..., D] to logits [..., V]; if tied, by the target table."""
        if self.tied:
            return F.linear(hidden, self.target_weight, self.tied_bias)
        return self.classifier(hidden)


def scaled_dot_product_attention(
    q_BHTE: Tensor,
    k_BHSE: Tensor,
    v_BHSE: Tensor,
    mask: Tensor | None,
    dropout: float = 0.0,
    mask_score: float | None = None,
    scale: bool = True,
    bias_HTS: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute softmax(QKᵀ/√d_k)V (§3.2.1, eq. 1), step by step.

    `mask` broadcasts to [B, H, T, S]. Returns the outputs [B, H, T, E] and the weights [B, H, T, S]
    after softmax and before dropout. A masked weight is exactly 0; a query with every key masked
    gets zeros, not NaN. With a finite `mask_score` instead of −∞, that query attends to all keys
    equally; other queries do not change. T5 does not `scale`, and adds a bias to the scores.
    """
    if scale:
        q_BHTE = q_BHTE / math.sqrt(q_BHTE.shape[-1])  # 1. scale
    scores_BHTS = q_BHTE @ k_BHSE.transpose(-2, -1)  # 2. QKᵀ
    if bias_HTS is not None:
        scores_BHTS = scores_BHTS + bias_HTS
    if mask is not None:
        forbidden = -math.inf if mask_score is None else mask_score
        scores_BHTS = scores_BHTS.masked_fill(~mask, forbidden)  # 3. mask
    weights_BHTS = scores_BHTS.softmax(dim=-1)  # 4. softmax
    if mask is not None and mask_score is None:
        weights_BHTS = weights_BHTS.masked_fill(~mask, 0.0)  # only affects fully masked rows
    return F.dropout(weights_BHTS, dropout, training=dropout > 0) @ v_BHSE, weights_BHTS  # 5. ·V


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_h)Wᴼ with head_i = Attention(QWᵢ^Q, KWᵢ^K, VWᵢ^V) (§3.2.2).

    `score_bias` is added to the scores, if there is one.
    """

    score_bias: ScoreBias | None = None

    def __init__(self, config: ModelConfig, kind: Kind):
        super().__init__()
        d_model, rate = config.d_model, config.attention_dropout
        self.num_heads = config.heads(kind)
        width = self.num_heads * config.size_of_head(kind)
        self.dropout = config.dropout if rate is None else rate
        self.mask_score, self.scale_scores = config.mask_score, config.scale_scores
        self.query = nn.Linear(d_model, width, bias=config.qkv_bias)
        self.key = nn.Linear(d_model, width, bias=config.qkv_bias)
        self.value = nn.Linear(d_model, width, bias=config.qkv_bias)
        self.output = nn.Linear(width, d_model, bias=config.linear_bias)

    def reset_parameters(self) -> None:
        """Use Xavier's rule; like torch, treat q, k and v as the rows of one matrix."""
        for layer in (self.query, self.key, self.value):
            _xavier(layer, gain=math.sqrt(0.5))
        _xavier(self.output)

    def split_heads(self, x_BTD: Tensor) -> Tensor:
        """Give each head its own slice of the features: [B, T, D] → [B, H, T, E]."""
        return x_BTD.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def keys_values(self, x_BSD: Tensor) -> tuple[Tensor, Tensor]:
        """Project memory [B, S, D] to keys and values, both [B, H, S, E], as kept in a KV cache."""
        return self.split_heads(self.key(x_BSD)), self.split_heads(self.value(x_BSD))

    def attend(
        self, x_BTD: Tensor, k_BHSE: Tensor, v_BHSE: Tensor, mask: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from x to projected keys and values: output [B, T, D] and, if needed, weights."""
        q_BHTE = self.split_heads(self.query(x_BTD))
        dropout = self.dropout if self.training else 0.0
        bias_HTS = None
        if self.score_bias is not None:
            bias_HTS = self.score_bias(x_BTD.shape[1], k_BHSE.shape[2])
        if need_weights or self.mask_score is not None or bias_HTS is not None:
            heads_BHTE, weights_BHTS = scaled_dot_product_attention(
                *(q_BHTE, k_BHSE, v_BHSE, mask, dropout, self.mask_score),
                *(self.scale_scores, bias_HTS),
            )
        else:  # the fused kernel supports only −∞ and no bias
            heads_BHTE = F.scaled_dot_product_attention(
                *(q_BHTE, k_BHSE, v_BHSE, mask, dropout), scale=None if self.scale_scores else 1.0
            )
            weights_BHTS = None
        output_BTD = self.output(heads_BHTE.transpose(1, 2).flatten(2))
        return output_BTD, weights_BHTS if need_weights else None

    def forward(
        self, query: Tensor, memory: Tensor, mask: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from query [B, T, D] to memory [B, S, D]; returns what `attend` returns."""
        return self.attend(query, *self.keys_values(memory), mask, need_weights)


class FeedForward(nn.Module):
    """max(0, xW₁ + b₁)W₂ + b₂ at each position (§3.3), or with another activation than the max.

    A gated layer multiplies the activation by xV before W₂ (Shazeer 2020, eq. 6).
    """

    def __init__(self, config: ModelConfig, kind: Kind):
        super().__init__()
        size, has_bias = config.feedforward(kind), config.linear_bias
        self.activation = config.activation
        self.inner = nn.Linear(config.d_model, size, has_bias)
        self.gate = nn.Linear(config.d_model, size, has_bias) if config.gated else None
        self.outer = nn.Linear(size, config.d_model, has_bias)
        self.dropout = nn.Dropout(config.dropout)

    def reset_parameters(self) -> None:
        _xavier(self)

    def forward(self, x: Tensor) -> Tensor:
        hidden = ACTIVATIONS[self.activation](self.inner(x))
        if self.gate is not None:
            hidden = hidden * self.gate(x)
        return self.outer(self.dropout(hidden))


class LayerNorm(nn.LayerNorm):
    """Layer normalisation of each vector [..., D] (Ba et al. 2016).

    `forward` is torch's fused kernel; `formula` spells it out, with equal values and gradients.
    """

    def formula(self, x: Tensor) -> Tensor:
        """Return (x − mean) / √(variance + eps) · weight + bias."""
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return (x - mean) / torch.sqrt(variance + self.eps) * self.weight + self.bias


class _Layer(nn.Module):
    """Base of encoder and decoder layers: a residual connection and a norm around each sublayer."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.norm_first = config.norm_first
        self.dropout = nn.Dropout(config.dropout)

    def residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Return LayerNorm(x + Sublayer(x)) (§3.1); `norm_first` normalises the input instead."""
        if self.norm_first:
            return x + self.dropout(sublayer(norm(x)))
        return norm(x + self.dropout(sublayer(x)))


class EncoderLayer(_Layer):
    """Self-attention, then feed-forward (§3.1)."""

    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.self_attention = MultiHeadAttention(config, "encoder")
        self.feed_forward = FeedForward(config, "encoder")
        self.norm1, self.norm2 = _norm(config), _norm(config)

    def forward(self, x_BSD: Tensor, source_mask: Tensor) -> Tensor:
        attention = self.self_attention
        x_BSD = self.residual(x_BSD, self.norm1, lambda x: attention(x, x, source_mask)[0])
        return self.residual(x_BSD, self.norm2, self.feed_forward)


class DecoderLayer(_Layer):
    """Masked self-attention, cross-attention to the encoder's output, then feed-forward (§3.1)."""

    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.self_attention = MultiHeadAttention(config, "decoder")
        self.cross_attention = MultiHeadAttention(config, "cross")
        self.feed_forward = FeedForward(config, "decoder")
        self.norm1, self.norm2, self.norm3 = _norm(config), _norm(config), _norm(config)

    def forward(
        self, x_BTD: Tensor, memory_BSD: Tensor, target_mask: Tensor, source_mask: Tensor
    ) -> Tensor:
        attention, cross = self.self_attention, self.cross_attention
        x_BTD = self.residual(x_BTD, self.norm1, lambda x: attention(x, x, target_mask)[0])
        x_BTD = self.residual(x_BTD, self.norm2, lambda x: cross(x, memory_BSD, source_mask)[0])
        return self.residual(x_BTD, self.norm3, self.feed_forward)


class Transformer(nn.Module):
    """Encoder, decoder and output projection (figure 1)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.top_tokens = TopTokens()
        self.embeddings = Embeddings(config)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.encoder_norm = _norm(config) if config.final_norm else nn.Identity()
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        self.decoder_norm = _norm(config) if config.final_norm else nn.Identity()
        if config.scale_output:
            self.decoder_norm = RMSNorm(
                config.d_model, config.layer_norm_eps, factor=config.d_model**-0.5
            )
        if config.relative_buckets:
            self.encoder_bias = ScoreBias(config, causal=False)
            self.decoder_bias = ScoreBias(config, causal=True)
            for side, bias in (self.encoder, self.encoder_bias), (self.decoder, self.decoder_bias):
                for layer in side:
                    vars(layer.self_attention)["score_bias"] = bias  # not a child of each layer
        self.reset_parameters()

    def reset_parameters(self, xavier_embeddings: bool = False) -> None:
        """Initialise all weights; see the submodules for the distributions."""
        self.embeddings.reset_parameters(xavier_embeddings)
        for module in self.modules():
            if isinstance(module, _WITH_RESET):
                module.reset_parameters()

    def encode(self, source_BS: Tensor) -> tuple[Tensor, Tensor]:
        """Encode source ids to memory [B, S, D] and its padding mask [B, 1, 1, S]."""
        source_mask = padding_mask(source_BS, PAD)
        x_BSD = self.embeddings.source(source_BS)
        for layer in self.encoder:
            x_BSD = layer(x_BSD, source_mask)
        return self.encoder_norm(x_BSD), source_mask

    def decode(self, target_BT: Tensor, memory_BSD: Tensor, source_mask: Tensor) -> Tensor:
        """Decode target ids to hidden states [B, T, D]; row t depends on tokens 0…t only."""
        mask = target_mask(target_BT, PAD)
        x_BTD = self.embeddings.target(target_BT)
        for layer in self.decoder:
            x_BTD = layer(x_BTD, memory_BSD, mask, source_mask)
        return self.decoder_norm(x_BTD)

    def classify(self, hidden: Tensor) -> Tensor:
        """Project hidden states [..., D] to logits [..., V]."""
        return self.embeddings.classify(hidden)

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Run a teacher-forced pass: source and target-in ids → next-token logits [B, T, V]."""
        return self.classify(self.decode(target_BT, *self.encode(source_BS)))

    # End of the forward pass; the rest serves decoding step by step and introspection.

    def start(self, source_BS: Tensor) -> Any:
        """Encode a source for decoding; see `core.model.decoding`."""
        return decoding.start(self, source_BS)

    def step(self, token_B: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Feed one token per hypothesis; see `core.model.decoding`."""
        return decoding.step(self, token_B, state)

    def change_state(self, layer: int, state_B1D: Tensor) -> Tensor:
        """Return the decoder's state after a layer of a decoding step (0: the embeddings).

        Here it stays as it is; `core.record.editing` shadows this method, because decoding does not
        call the layers' forward and so runs none of their hooks.
        """
        return state_B1D

    def stack(self, side: Side) -> Stack:
        """Return the layers of the encoder or decoder and their final norm."""
        return Stack(getattr(self, side), getattr(self, f"{side}_norm"))

    def attention_sites(self) -> list[AttentionSite]:
        """Return every attention module, by kind and layer."""
        return [
            *AttentionSite.each("encoder", self.encoder, "self_attention"),
            *AttentionSite.each("decoder", self.decoder, "self_attention"),
            *AttentionSite.each("cross", self.decoder, "cross_attention"),
        ]


_NORMS = {"layer": LayerNorm, "rms": RMSNorm, "deviation": DeviationNorm}
_WITH_RESET = MultiHeadAttention, FeedForward, ScoreBias, *_NORMS.values()


def _norm(config: ModelConfig) -> nn.Module:
    return _NORMS[config.norm](config.d_model, config.layer_norm_eps)


def _xavier(module: nn.Module, gain: float = 1.0) -> None:
    """Initialise matrices by the rule of Glorot & Bengio 2010 and biases with 0."""
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter, gain)
        else:
            nn.init.zeros_(parameter)
