"""What every translation network offers: the Seq2Seq protocol and its attention sites."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, Self

import torch.nn.functional as F
from torch import Tensor, nn

from core.config import ModelConfig
from core.kinds import Kind
from core.model.top_tokens import TopTokens

Side = Literal["encoder", "decoder"]


class Projection(NamedTuple):
    """W [out, in] and b [out] of x ↦ W x + b; no bias is None."""

    weight: Tensor
    bias: Tensor | None


class Projections(NamedTuple):
    """W^Q, W^K and W^V, whose heads lie below each other, and the W^O behind the heads."""

    query: Projection
    key: Projection
    value: Projection
    output: Projection


class Call(NamedTuple):
    """What a module is called with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


Weigh = Callable[[Tensor, Tensor], Tensor]
"""Scores q·k/√d_k [batch, head, query, key], and a mask that broadcasts to them → weights."""


@dataclass(frozen=True)
class AttentionSite:
    """One attention module, by kind and layer, and how it is called.

    Its forward returns (output, weights) with weights [batch, head, query, key], or None unasked:
    `ask` are the keywords that ask. What stands here holds for the scratch model, whose modules
    are called with what looks, what is looked at, and a mask that says True = may attend.
    """

    kind: Kind
    layer: int
    module: nn.Module
    ask: dict[str, Any] = field(default_factory=lambda: {"need_weights": True})

    @classmethod
    def each(cls, kind: Kind, layers: Iterable[nn.Module], name: str, *call: Any) -> Iterator[Self]:
        """The attention of that name in each of some layers; `call` is how they are called."""
        return (cls(kind, i, getattr(x, name), *call) for i, x in enumerate(layers))

    @property
    def num_heads(self) -> int:
        """H of this attention."""
        module: Any = self.module  # torch takes an attribute of its own for a Tensor or a Module
        return module.num_heads

    def projections(self) -> Projections:
        """The module's own tensors, which share its memory."""
        layers = (getattr(self.module, name) for name in Projections._fields)
        return Projections(*(Projection(layer.weight, layer.bias) for layer in layers))

    def with_mask(self, call: Call, mask_B1QK: Tensor, causal: bool) -> Call:
        """The same call with another mask; `causal` says that the mask hides what is to come."""
        return Call((*call.args[:2], mask_B1QK), call.kwargs)

    def mask(self, call: Call) -> Tensor:
        """The mask that a call was made with: bool [batch, query, key], True = may attend."""
        query, memory, mask = call.args
        return mask[:, 0].expand(len(query), query.shape[1], memory.shape[1])

    def override_softmax(self, weigh: Weigh) -> Callable[[], object]:
        """Let `weigh` stand in place of the masked softmax, until what is returned is called.

        The module gets a method of its own in front of its class's: for whole passes, and for a
        search's steps, which come with keys and values that were projected before.
        """
        module: Any = self.module

        def attend(
            x_BTD: Tensor, k_BHSE: Tensor, v_BHSE: Tensor, mask: Tensor, need_weights: bool
        ) -> tuple[Tensor, Tensor | None]:
            q_BHTE = module.split_heads(module.query(x_BTD))
            heads_BHTE, weights_BHTS = self._attend(q_BHTE, k_BHSE, v_BHSE, mask, weigh)
            output_BTD = module.output(heads_BHTE.transpose(1, 2).flatten(2))
            return output_BTD, weights_BHTS if need_weights else None

        return self._put("attend", attend)

    def _attend(
        self, q_BHTE: Tensor, k_BHSE: Tensor, v_BHSE: Tensor, mask: Tensor, weigh: Weigh
    ) -> tuple[Tensor, Tensor]:
        module: Any = self.module
        q_BHTE = q_BHTE / math.sqrt(q_BHTE.shape[-1])
        weights_BHTS = weigh(q_BHTE @ k_BHSE.transpose(-2, -1), mask)
        kept_BHTS = F.dropout(weights_BHTS, module.dropout, training=module.training)
        return kept_BHTS @ v_BHSE, weights_BHTS

    def _put(self, name: str, method: Callable[..., Any]) -> Callable[[], object]:
        own = vars(self.module)
        if name in own:
            raise RuntimeError(
                "the weights of this attention are edited already: edits of weights do not nest"
            )
        own[name] = method
        return lambda: own.pop(name)


class Stack(NamedTuple):
    """The layers of one side, each of which returns its activations, and the norm behind them."""

    layers: Sequence[nn.Module]
    norm: nn.Module


class Embeddings(Protocol):
    """Ids to vectors; see core.model.transformer."""

    @property
    def source_table(self) -> nn.Embedding: ...
    @property
    def source_positions(self) -> nn.Module: ...
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
    """Opaque decoding state: a value with one row a hypothesis."""

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
    def step(self, token_B: Tensor, state: Any) -> tuple[Tensor, State]: ...  # a state of its own
    def stack(self, side: Side) -> Stack: ...
    def attention_sites(self) -> Sequence[AttentionSite]: ...
