"""The interface of every translation network: the Seq2Seq protocol and its attention sites."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

import torch.nn.functional as F
from torch import Tensor, nn

from core.config import ModelConfig
from core.kinds import Kind, Side
from core.model.top_tokens import TopTokens


class Projection(NamedTuple):
    """W [out, in] and b [out] of x ↦ W x + b; the bias may be None."""

    weight: Tensor
    bias: Tensor | None


class Projections(NamedTuple):
    """W^Q, W^K and W^V, with the heads stacked along the output axis, and W^O."""

    query: Projection
    key: Projection
    value: Projection
    output: Projection


class Call(NamedTuple):
    """Positional and keyword arguments of a module call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


Weigh = Callable[[Tensor, Tensor], Tensor]
"""Scores q·k/√d_k + bias [batch, head, query, key] and a broadcastable mask → weights."""


@dataclass(frozen=True)
class AttentionSite:
    """One attention module, by kind and layer.

    Its forward returns (output, weights). The weights [batch, head, query, key] are None unless
    requested by the keyword arguments `weights_kwargs`. The methods of this class fit the scratch
    model, whose modules are called with queries, memory, and a mask with True = may attend.
    """

    kind: Kind
    layer: int
    module: nn.Module
    weights_kwargs: dict[str, Any] = field(default_factory=lambda: {"need_weights": True})

    @classmethod
    def each(cls, kind: Kind, layers: Iterable[nn.Module], name: str, *call: Any) -> Iterator[Self]:
        """Yield a site for the attention `name` of each layer; `call` has the remaining fields."""
        return (cls(kind, i, getattr(x, name), *call) for i, x in enumerate(layers))

    @property
    def num_heads(self) -> int:
        """The number of heads H."""
        module: Any = self.module  # torch types every module attribute as Tensor or Module
        return module.num_heads

    @property
    def divisor(self) -> float:
        """What scores are divided by: √d_k (paper §3.2.1), or 1 in T5."""
        if not getattr(self.module, "scale_scores", True):
            return 1.0
        return math.sqrt(len(self.projections().query.weight) // self.num_heads)

    @property
    def distances(self) -> Tensor | None:
        """The table of score biases by distance [bucket, head], which a stack's layers share."""
        score_bias: Any = getattr(self.module, "score_bias", None)
        return None if score_bias is None else score_bias.weight

    def bias(self, queries: int, keys: int) -> Tensor | None:
        """Return what is added to the scores of `queries` and `keys` [head, query, key], if any."""
        score_bias: Any = getattr(self.module, "score_bias", None)
        return None if score_bias is None else score_bias(queries, keys)

    def projections(self) -> Projections:
        """Return the module's projection tensors, which share its memory."""
        layers = (getattr(self.module, name) for name in Projections._fields)
        return Projections(*(Projection(layer.weight, layer.bias) for layer in layers))

    def with_mask(self, call: Call, mask_B1QK: Tensor, causal: bool) -> Call:
        """Return the call with another mask; `causal` says whether this mask is causal."""
        return Call((*call.args[:2], mask_B1QK), call.kwargs)

    def mask(self, call: Call) -> Tensor:
        """Return the mask of a call: bool [batch, query, key], True = may attend."""
        query, memory, mask = call.args
        return mask[:, 0].expand(len(query), query.shape[1], memory.shape[1])

    def before_output(self, change: Callable[[Tensor], Tensor | None]) -> Callable[[], object]:
        """Run `change` on the heads' outputs [batch, query, d_model], side by side, before W^O.

        What it returns replaces them. Return a function that undoes this.
        """
        module: Any = self.module
        return module.output.register_forward_pre_hook(lambda _, args: change(args[0])).remove

    def override_softmax(self, weigh: Weigh) -> Callable[[], object]:
        """Replace the masked softmax with `weigh`; return a function that undoes it.

        Sets an instance method that hides the class's. Whole passes call it, and so do decoding
        steps, which give it keys and values from the KV cache.
        """
        module: Any = self.module

        def attend(
            x_BTD: Tensor, k_BHSE: Tensor, v_BHSE: Tensor, mask: Tensor, need_weights: bool
        ) -> tuple[Tensor, Tensor | None]:
            q_BHTE = module.split_heads(module.query(x_BTD))
            heads_BHTE, weights_BHTS = self._attend(q_BHTE, k_BHSE, v_BHSE, mask, weigh)
            output_BTD = module.output(heads_BHTE.transpose(1, 2).flatten(2))
            return output_BTD, weights_BHTS if need_weights else None

        return self._override_method("attend", attend)

    def _attend(
        self, q_BHTE: Tensor, k_BHSE: Tensor, v_BHSE: Tensor, mask: Tensor, weigh: Weigh
    ) -> tuple[Tensor, Tensor]:
        module: Any = self.module
        scores_BHTS = (q_BHTE / self.divisor) @ k_BHSE.transpose(-2, -1)
        bias_HTS = self.bias(*scores_BHTS.shape[-2:])
        weights_BHTS = weigh(scores_BHTS if bias_HTS is None else scores_BHTS + bias_HTS, mask)
        dropped_BHTS = F.dropout(weights_BHTS, module.dropout, training=module.training)
        return dropped_BHTS @ v_BHSE, weights_BHTS

    def _override_method(self, name: str, method: Callable[..., Any]) -> Callable[[], object]:
        attributes = vars(self.module)
        if name in attributes:
            raise RuntimeError(
                "the weights of this attention are already edited: weight edits cannot be nested"
            )
        attributes[name] = method
        return lambda: attributes.pop(name)


class Stack(NamedTuple):
    """The layers of one side, and the norm after the last of them."""

    layers: Sequence[nn.Module]
    norm: nn.Module


class Embeddings(Protocol):
    """Token embeddings; see core.model.transformer."""

    @property
    def source_table(self) -> nn.Embedding: ...
    @property
    def source_positions(self) -> nn.Module: ...
    @property
    def source_norm(self) -> nn.Module | None: ...
    @property
    def target_norm(self) -> nn.Module | None: ...
    @property
    def target_positions(self) -> nn.Module: ...
    @property
    def target_weight(self) -> Tensor: ...
    @property
    def projection(self) -> Projection: ...
    def source(self, ids_BS: Tensor) -> Tensor: ...
    def target(self, ids_BT: Tensor, offset: int = 0) -> Tensor: ...
    def target_token(self, ids_B: Tensor, position: int) -> Tensor: ...
    def look_up(self, ids: Tensor, table_VD: Tensor) -> Tensor: ...


class State(Protocol):
    """Opaque immutable decoding state with one row per hypothesis."""

    def select(self, rows_N: Tensor, /) -> "State": ...


class Seq2Seq(Protocol):
    """An encoder-decoder network. B batch, S/T source/target length, D d_model, V vocabulary.

    Source ids end with <eos>, target-in ids begin with <bos>; both are padded on the right.
    """

    config: ModelConfig
    top_tokens: TopTokens

    @property
    def embeddings(self) -> Embeddings: ...
    def parameters(self) -> Iterator[nn.Parameter]: ...
    def encode(self, source_BS: Tensor) -> tuple[Tensor, Tensor]: ...
    def decode(self, target_BT: Tensor, memory_BSD: Tensor, source_mask: Tensor) -> Tensor: ...
    def classify(self, hidden: Tensor) -> Tensor: ...
    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor: ...
    def __call__(self, source_BS: Tensor, target_BT: Tensor) -> Tensor: ...
    def start(self, source_BS: Tensor) -> State: ...
    def step(
        self, token_B: Tensor, state: Any
    ) -> tuple[Tensor, State]: ...  # `state` comes from this network
    def stack(self, side: Side) -> Stack: ...
    def attention_sites(self) -> Sequence[AttentionSite]: ...
