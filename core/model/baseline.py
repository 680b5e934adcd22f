"""torch.nn.Transformer behind the same interface; the only file that inverts masks.

torch's masks say True = may NOT attend; the interface's say True = may attend.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.config import ModelConfig
from core.model.interface import AttentionSite, Call, Projection, Projections, Side, Stack, Weigh
from core.model.masks import causal_mask, padding_mask
from core.model.top_tokens import TopTokens
from core.model.transformer import Embeddings, Transformer
from core.text.tokenizer import PAD


@dataclass(frozen=True)
class BaselineState:
    """The prefix so far and the encoder's output: nn.Transformer has no cache."""

    prefix_BT: Tensor
    memory_BSD: Tensor
    source_mask: Tensor

    def select(self, rows_N: Tensor) -> "BaselineState":
        """The state whose row i is this state's row rows[i]."""
        return BaselineState(
            self.prefix_BT[rows_N], self.memory_BSD[rows_N], self.source_mask[rows_N]
        )


def forbidden(mask: Tensor, mask_score: float | None, like: Tensor) -> Tensor:
    """torch's form of a mask: True = may not attend; with `mask_score`, what is added there.

    The library can only add: a query that may attend to nothing then looks as if unmasked,
    where the scratch model looks at every key alike. Every other query sees the same.
    """
    if mask_score is None:
        return ~mask
    return like.new_zeros(mask.shape).masked_fill(~mask, mask_score)


@dataclass(frozen=True)
class LibrarySite(AttentionSite):
    """An nn.MultiheadAttention: three projections packed in one, and two masks, both inverted."""

    module: nn.MultiheadAttention
    mask_score: float | None = None

    def projections(self) -> Projections:
        module = self.module
        weights, bias = module.in_proj_weight.chunk(3), module.in_proj_bias
        biases = (None,) * 3 if bias is None else bias.chunk(3)
        packed = [Projection(w, b) for w, b in zip(weights, biases, strict=True)]
        return Projections(*packed, Projection(module.out_proj.weight, module.out_proj.bias))

    def with_mask(self, call: Call, mask_B1QK: Tensor, causal: bool) -> Call:
        padding_BK = mask_B1QK[:, 0, -1]  # what the last query sees, who has no future
        keywords = {"key_padding_mask": forbidden(padding_BK, self.mask_score, call.args[0])}
        if not causal:
            keywords |= {"attn_mask": None, "is_causal": False}
        return Call(call.args, {**call.kwargs, **keywords})

    def mask(self, call: Call) -> Tensor:
        query, key = call.args[:2]
        shape = len(query), query.shape[1], key.shape[1]
        allowed = torch.ones(shape, dtype=torch.bool, device=query.device)
        padding = call.kwargs.get("key_padding_mask")
        padding = None if padding is None else padding[:, None, :]
        for mask in (call.kwargs.get("attn_mask"), padding):
            if mask is not None:  # True, or a score to be added
                allowed = allowed & ~(mask if mask.dtype == torch.bool else mask < 0)
        return allowed

    def override_softmax(self, weigh: Weigh) -> Callable[[], object]:
        def split(x_BTD: Tensor, to: Projection) -> Tensor:
            return F.linear(x_BTD, *to).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

        def forward(
            query: Tensor,
            key: Tensor,
            value: Tensor,
            need_weights: bool = True,
            average_attn_weights: bool = True,
            **masks: Any,
        ) -> tuple[Tensor, Tensor | None]:
            to_query, to_key, to_value, output = self.projections()
            heads_BHTE, weights_BHTS = self._attend(
                split(query, to_query),
                split(key, to_key),
                split(value, to_value),
                self.mask(Call((query, key), masks))[:, None],
                weigh,
            )
            output_BTD = F.linear(heads_BHTE.transpose(1, 2).flatten(2), *output)
            if not need_weights:
                return output_BTD, None
            return output_BTD, weights_BHTS.mean(1) if average_attn_weights else weights_BHTS

        remove = self._put("forward", forward)
        # In evaluation torch's encoder layer passes its modules by, unless one of them has a hook.
        hook = self.module.register_forward_pre_hook(lambda module, args: None)
        return lambda: (remove(), hook.remove())


class Baseline(nn.Module):
    """The library's two stacks, between the same embeddings and classifier as the scratch ones."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.top_tokens = TopTokens()
        self.embeddings = Embeddings(config)
        shape: dict[str, Any] = dict(
            d_model=config.d_model,
            nhead=config.num_heads,
            dim_feedforward=config.dim_feedforward,
            dropout=config.dropout,
            layer_norm_eps=config.layer_norm_eps,
            batch_first=True,
            norm_first=config.norm_first,
        )
        # Nested tensors would turn padded query rows into zeros, so the encoder is built without.
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**shape),
            config.num_encoder_layers,
            nn.LayerNorm(config.d_model, config.layer_norm_eps),
            enable_nested_tensor=False,
        )
        self.transformer = nn.Transformer(
            **shape, custom_encoder=encoder, num_decoder_layers=config.num_decoder_layers
        )
        if not config.final_norm:
            encoder.norm, self.transformer.decoder.norm = nn.Identity(), nn.Identity()
        for site in self.attention_sites():
            if config.attention_dropout is not None:
                site.module.dropout = config.attention_dropout
            if not config.qkv_bias:
                site.module.register_parameter("in_proj_bias", None)
        self.reset_parameters()

    def reset_parameters(self, xavier_embeddings: bool = False) -> None:
        """Fresh weights, drawn as the scratch model's are; norms begin as the identity."""
        self.embeddings.reset_parameters(xavier_embeddings)
        for name, parameter in self.transformer.named_parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.ones_(parameter)

    def encode(self, source_BS: Tensor) -> tuple[Tensor, Tensor]:
        """Source ids → memory [B, S, D] and its padding mask [B, 1, 1, S]."""
        mask = padding_mask(source_BS, PAD)
        x_BSD = self.embeddings.source(source_BS)
        memory = self.transformer.encoder(x_BSD, src_key_padding_mask=self.forbidden(mask[:, 0, 0]))
        return memory, mask

    def decode(self, target_BT: Tensor, memory_BSD: Tensor, source_mask: Tensor) -> Tensor:
        """Target ids so far → hidden states [B, T, D]; row t knows tokens 0…t only."""
        return self.transformer.decoder(
            self.embeddings.target(target_BT),
            memory_BSD,
            tgt_mask=self.forbidden(causal_mask(target_BT.shape[1], target_BT.device)),
            tgt_key_padding_mask=self.forbidden(padding_mask(target_BT, PAD)[:, 0, 0]),
            memory_key_padding_mask=self.forbidden(source_mask[:, 0, 0]),
        )

    def forbidden(self, mask: Tensor) -> Tensor:
        """A mask in torch's form."""
        return forbidden(mask, self.config.mask_score, self.embeddings.target_weight)

    def classify(self, hidden: Tensor) -> Tensor:
        """Hidden states [..., D] → logits [..., V]."""
        return self.embeddings.classify(hidden)

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Teacher forcing: source and target-in ids → logits [B, T, V] for the next tokens."""
        return self.classify(self.decode(target_BT, *self.encode(source_BS)))

    def start(self, source_BS: Tensor) -> BaselineState:
        """Encode once; the prefix is empty."""
        return BaselineState(source_BS[:, :0], *self.encode(source_BS))

    def step(self, token_B: Tensor, state: BaselineState) -> tuple[Tensor, BaselineState]:
        """Feed one token a row, decode the whole prefix again, and keep the last row's logits."""
        prefix_BT = torch.cat((state.prefix_BT, token_B[:, None]), dim=1)
        hidden = self.decode(prefix_BT, state.memory_BSD, state.source_mask)
        state = BaselineState(prefix_BT, state.memory_BSD, state.source_mask)
        return self.classify(hidden[:, -1]), state

    def stack(self, side: Side) -> Stack:
        """The layers of the encoder or the decoder, and the norm behind them."""
        half = self.transformer.encoder if side == "encoder" else self.transformer.decoder
        return Stack(half.layers, half.get_submodule("norm"))

    def attention_sites(self) -> list[LibrarySite]:
        """Every place where attention happens, by kind and layer."""
        encoder, decoder = self.transformer.encoder.layers, self.transformer.decoder.layers
        call = {"need_weights": True, "average_attn_weights": False}, self.config.mask_score
        return [
            *LibrarySite.each("encoder", encoder, "self_attn", *call),
            *LibrarySite.each("decoder", decoder, "self_attn", *call),
            *LibrarySite.each("cross", decoder, "multihead_attn", *call),
        ]


_SAME = {
    "self_attn.out_proj": "self_attention.output",
    "multihead_attn.out_proj": "cross_attention.output",
    "linear1": "feed_forward.inner",
    "linear2": "feed_forward.outer",
}
_PACKED = {"self_attn.in_proj_": "self_attention", "multihead_attn.in_proj_": "cross_attention"}


def scratch_names(name: str) -> tuple[str, ...]:
    """The scratch name(s) for a baseline parameter: three for a packed q, k, v projection."""
    name = name.removeprefix("transformer.")
    name = name.replace("encoder.norm.", "encoder_norm.").replace("decoder.norm.", "decoder_norm.")
    name = name.replace(".layers.", ".")
    for theirs, ours in _SAME.items():
        name = name.replace(theirs, ours)
    for theirs, ours in _PACKED.items():
        if theirs in name:
            layer, part = name.split(theirs)
            return tuple(f"{layer}{ours}.{which}.{part}" for which in ("query", "key", "value"))
    return (name,)


def copy_to_scratch(baseline: Baseline, scratch: Transformer) -> None:
    """Give the scratch model the baseline's weights; the packed in_proj becomes three projections.

    Raises ValueError if a parameter is left over on either side.
    """
    ours = dict(scratch.named_parameters())
    with torch.no_grad():
        for parameter, names in _matched(baseline, ours):
            for name, part in zip(names, parameter.chunk(len(names)), strict=True):
                ours[name].copy_(part)


def copy_to_baseline(scratch: Transformer, baseline: Baseline) -> None:
    """The other way round: three projections become the packed in_proj. Raises ValueError."""
    ours = dict(scratch.named_parameters())
    with torch.no_grad():
        for parameter, names in _matched(baseline, ours):
            parameter.copy_(torch.cat([ours[name] for name in names]))


def copy_weights(source: Transformer | Baseline, target: Transformer | Baseline) -> None:
    """Give one network the weights of another, of either architecture. Raises ValueError."""
    if isinstance(source, Baseline) and isinstance(target, Transformer):
        copy_to_scratch(source, target)
    elif isinstance(source, Transformer) and isinstance(target, Baseline):
        copy_to_baseline(source, target)
    else:
        target.load_state_dict(source.state_dict())


def _matched(
    baseline: Baseline, ours: Mapping[str, Tensor]
) -> list[tuple[nn.Parameter, tuple[str, ...]]]:
    """Each baseline parameter beside the scratch names that it holds, after a full comparison."""
    matched = [(p, scratch_names(name)) for name, p in baseline.named_parameters()]
    theirs = {
        name: part.shape
        for parameter, names in matched
        for name, part in zip(names, parameter.chunk(len(names)), strict=True)
    }
    if odd := sorted(
        n for n in {*theirs, *ours} if n not in ours or theirs.get(n) != ours[n].shape
    ):
        raise ValueError(f"the two models do not match: {', '.join(odd[:5])}")
    return matched
