"""torch.nn.Transformer behind the scratch model's interface; the only file that inverts masks.

In torch's masks, True means may NOT attend; in the interface's masks, it means may attend.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.config import ModelConfig
from core.kinds import SIDES
from core.model.interface import AttentionSite, Call, Projection, Projections, Side, Stack, Weigh
from core.model.masks import causal_mask, padding_mask
from core.model.parts import ACTIVATIONS
from core.model.top_tokens import TopTokens
from core.model.transformer import Embeddings, Transformer
from core.text.tokenizer import PAD


@dataclass(frozen=True)
class BaselineState:
    """The prefix so far and the encoder's output; nn.Transformer has no KV cache."""

    prefix_BT: Tensor
    memory_BSD: Tensor
    source_mask: Tensor

    def select(self, rows_N: Tensor) -> "BaselineState":
        """Reorder the state: new row i is old row rows_N[i]."""
        return BaselineState(
            self.prefix_BT[rows_N], self.memory_BSD[rows_N], self.source_mask[rows_N]
        )


def torch_mask(mask: Tensor, mask_score: float | None, like: Tensor) -> Tensor:
    """Convert a mask to torch's form: inverted, or with `mask_score` as an additive float mask.

    torch adds `mask_score` to a masked score; the scratch model replaces the score by it. A query
    with every key masked therefore attends as if unmasked here, but to all keys equally in the
    scratch model. For every other query both models compute the same weights.
    """
    if mask_score is None:
        return ~mask
    return like.new_zeros(mask.shape).masked_fill(~mask, mask_score)


@dataclass(frozen=True)
class LibrarySite(AttentionSite):
    """An nn.MultiheadAttention: packed q, k, v projections and two inverted masks."""

    module: nn.MultiheadAttention
    mask_score: float | None = None

    def projections(self) -> Projections:
        module = self.module
        weights, bias = module.in_proj_weight.chunk(3), module.in_proj_bias
        biases = (None,) * 3 if bias is None else bias.chunk(3)
        packed = [Projection(w, b) for w, b in zip(weights, biases, strict=True)]
        return Projections(*packed, Projection(module.out_proj.weight, module.out_proj.bias))

    def with_mask(self, call: Call, mask_B1QK: Tensor, causal: bool) -> Call:
        padding_BK = mask_B1QK[:, 0, -1]  # the last query's row, which the causal mask leaves alone
        keywords = {"key_padding_mask": torch_mask(padding_BK, self.mask_score, call.args[0])}
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
            if mask is not None:  # boolean, or a score to add
                allowed = allowed & ~(mask if mask.dtype == torch.bool else mask < 0)
        return allowed

    def before_output(self, change: Callable[[Tensor], Tensor | None]) -> Callable[[], object]:
        # torch's attention does not call this module, but an overridden softmax does.
        out = self.module.out_proj
        remove = [out.register_forward_pre_hook(lambda _, args: change(args[0])).remove]
        if "forward" not in vars(self.module):
            remove.append(self.override_softmax(self._softmax))
        return lambda: [undo() for undo in remove]

    def _softmax(self, scores_BHQK: Tensor, mask: Tensor) -> Tensor:
        forbidden = -math.inf if self.mask_score is None else self.mask_score
        weights_BHQK = scores_BHQK.masked_fill(~mask, forbidden).softmax(-1)
        return weights_BHQK if self.mask_score is not None else weights_BHQK.masked_fill(~mask, 0.0)

    def override_softmax(self, weigh: Weigh) -> Callable[[], object]:
        def split(x_BTD: Tensor, projection: Projection) -> Tensor:
            return F.linear(x_BTD, *projection).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

        def forward(
            query: Tensor,
            key: Tensor,
            value: Tensor,
            need_weights: bool = True,
            average_attn_weights: bool = True,
            **masks: Any,
        ) -> tuple[Tensor, Tensor | None]:
            to_query, to_key, to_value, _ = self.projections()
            heads_BHTE, weights_BHTS = self._attend(
                split(query, to_query),
                split(key, to_key),
                split(value, to_value),
                self.mask(Call((query, key), masks))[:, None],
                weigh,
            )
            output_BTD = self.module.out_proj(heads_BHTE.transpose(1, 2).flatten(2))
            if not need_weights:
                return output_BTD, None
            return output_BTD, weights_BHTS.mean(1) if average_attn_weights else weights_BHTS

        remove = self._override_method("forward", forward)
        # In eval mode torch's encoder layer bypasses its submodules unless one of them has a hook.
        hook = self.module.register_forward_pre_hook(lambda module, args: None)
        return lambda: (remove(), hook.remove())


def check_library_can(config: ModelConfig) -> None:
    """Raise a one-line ValueError if torch.nn.Transformer lacks a part of this network."""
    lacks = {
        f"norms of the kind {config.norm!r}": config.norm != "layer",
        "gated feed-forward layers": config.gated,
        "layers without biases": not config.linear_bias,
        "scores that are not divided by √d_k": not config.scale_scores,
        "scores with a bias by distance": bool(config.relative_buckets),
        "heads of a size of their own": any(
            config.size_of_head(side) * config.heads(side) != config.d_model for side in SIDES
        ),
    }
    if found := [part for part, is_set in lacks.items() if is_set]:
        raise ValueError(
            f"torch.nn.Transformer lacks {', '.join(found)}: this network runs in the from-scratch "
            "code only"
        )


class Baseline(nn.Module):
    """torch.nn.Transformer between the embeddings and classifier of the scratch model.

    Raises ValueError for a network that torch.nn.Transformer cannot express.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        check_library_can(config)
        self.config = config
        self.top_tokens = TopTokens()
        self.embeddings = Embeddings(config)
        shape: dict[str, Any] = dict(
            d_model=config.d_model,
            nhead=config.heads("decoder"),
            dim_feedforward=config.feedforward("decoder"),
            dropout=config.dropout,
            layer_norm_eps=config.layer_norm_eps,
            activation=ACTIVATIONS[config.activation],
            batch_first=True,
            norm_first=config.norm_first,
        )
        of_encoder: dict[str, Any] = dict(
            shape, nhead=config.num_heads, dim_feedforward=config.dim_feedforward
        )
        # Nested tensors would zero the padded query rows.
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**of_encoder),
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
        """Draw the weights from the scratch model's distributions (q, k and v as one matrix)."""
        self.embeddings.reset_parameters(xavier_embeddings)
        for name, parameter in self.transformer.named_parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.ones_(parameter)

    def encode(self, source_BS: Tensor) -> tuple[Tensor, Tensor]:
        """Encode source ids to memory [B, S, D] and its padding mask [B, 1, 1, S]."""
        mask = padding_mask(source_BS, PAD)
        x_BSD = self.embeddings.source(source_BS)
        memory = self.transformer.encoder(
            x_BSD, src_key_padding_mask=self.torch_mask(mask[:, 0, 0])
        )
        return memory, mask

    def decode(self, target_BT: Tensor, memory_BSD: Tensor, source_mask: Tensor) -> Tensor:
        """Decode target ids to hidden states [B, T, D]; row t depends on tokens 0…t only."""
        return self.transformer.decoder(
            self.embeddings.target(target_BT),
            memory_BSD,
            tgt_mask=self.torch_mask(causal_mask(target_BT.shape[1], target_BT.device)),
            tgt_key_padding_mask=self.torch_mask(padding_mask(target_BT, PAD)[:, 0, 0]),
            memory_key_padding_mask=self.torch_mask(source_mask[:, 0, 0]),
        )

    def torch_mask(self, mask: Tensor) -> Tensor:
        """Convert a mask to torch's form."""
        return torch_mask(mask, self.config.mask_score, self.embeddings.target_weight)

    def classify(self, hidden: Tensor) -> Tensor:
        """Project hidden states [..., D] to logits [..., V]."""
        return self.embeddings.classify(hidden)

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Run a teacher-forced pass: source and target-in ids → next-token logits [B, T, V]."""
        return self.classify(self.decode(target_BT, *self.encode(source_BS)))

    def start(self, source_BS: Tensor) -> BaselineState:
        """Encode the source; the prefix is empty."""
        return BaselineState(source_BS[:, :0], *self.encode(source_BS))

    def step(self, token_B: Tensor, state: BaselineState) -> tuple[Tensor, BaselineState]:
        """Append one token per row and decode the whole prefix; return the last logits [B, V]."""
        prefix_BT = torch.cat((state.prefix_BT, token_B[:, None]), dim=1)
        hidden = self.decode(prefix_BT, state.memory_BSD, state.source_mask)
        state = BaselineState(prefix_BT, state.memory_BSD, state.source_mask)
        return self.classify(hidden[:, -1]), state

    def stack(self, side: Side) -> Stack:
        """Return the layers of the encoder or decoder and their final norm."""
        half = self.transformer.encoder if side == "encoder" else self.transformer.decoder
        return Stack(half.layers, half.get_submodule("norm"))

    def attention_sites(self) -> list[LibrarySite]:
        """Return every attention module, by kind and layer."""
        encoder, decoder = self.transformer.encoder.layers, self.transformer.decoder.layers
        call = {"need_weights": True, "average_attn_weights": False}, self.config.mask_score
        return [
            *LibrarySite.each("encoder", encoder, "self_attn", *call),
            *LibrarySite.each("decoder", decoder, "self_attn", *call),
            *LibrarySite.each("cross", decoder, "multihead_attn", *call),
        ]


_RENAMED = {
    "self_attn.out_proj": "self_attention.output",
    "multihead_attn.out_proj": "cross_attention.output",
    "linear1": "feed_forward.inner",
    "linear2": "feed_forward.outer",
}
_PACKED = {"self_attn.in_proj_": "self_attention", "multihead_attn.in_proj_": "cross_attention"}


def scratch_names(name: str) -> tuple[str, ...]:
    """Map a baseline parameter to its scratch name, or to three for a packed q, k, v projection."""
    name = name.removeprefix("transformer.")
    name = name.replace("encoder.norm.", "encoder_norm.").replace("decoder.norm.", "decoder_norm.")
    name = name.replace(".layers.", ".")
    for theirs, ours in _RENAMED.items():
        name = name.replace(theirs, ours)
    for theirs, ours in _PACKED.items():
        if theirs in name:
            layer, part = name.split(theirs)
            return tuple(f"{layer}{ours}.{which}.{part}" for which in ("query", "key", "value"))
    return (name,)


def copy_to_scratch(baseline: Baseline, scratch: Transformer) -> None:
    """Copy the baseline's weights to the scratch model, splitting each packed in_proj in three.

    Raises ValueError if the names or shapes of the two models do not match.
    """
    ours = dict(scratch.named_parameters())
    with torch.no_grad():
        for parameter, names in _matched(baseline, ours):
            for name, part in zip(names, parameter.chunk(len(names)), strict=True):
                ours[name].copy_(part)


def copy_to_baseline(scratch: Transformer, baseline: Baseline) -> None:
    """Copy the scratch model's weights to the baseline, packing q, k and v in each in_proj.

    Raises ValueError if the names or shapes of the two models do not match.
    """
    ours = dict(scratch.named_parameters())
    with torch.no_grad():
        for parameter, names in _matched(baseline, ours):
            parameter.copy_(torch.cat([ours[name] for name in names]))


def copy_weights(source: Transformer | Baseline, target: Transformer | Baseline) -> None:
    """Copy weights between networks of any architectures.

    Raises ValueError on a mismatch, or RuntimeError if both have the same architecture.
    """
    if isinstance(source, Baseline) and isinstance(target, Transformer):
        copy_to_scratch(source, target)
    elif isinstance(source, Transformer) and isinstance(target, Baseline):
        copy_to_baseline(source, target)
    else:
        target.load_state_dict(source.state_dict())


def _matched(
    baseline: Baseline, ours: Mapping[str, Tensor]
) -> list[tuple[nn.Parameter, tuple[str, ...]]]:
    """Pair each baseline parameter with its scratch names, after comparing names and shapes."""
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
