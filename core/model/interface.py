"""What every translation network offers: the Seq2Seq protocol, its attention sites, and `build`."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from torch import Tensor, nn

from core.config import ModelConfig

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")


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


@dataclass(frozen=True)
class AttentionSite:
    """One attention module, by kind and layer, and the keywords that make it return weights.

    Its forward returns (output, weights) with weights [batch, head, query, key], or None unasked.
    """

    kind: Kind
    layer: int
    module: nn.Module
    ask: dict[str, Any] = field(default_factory=dict)

    def projections(self) -> Projections:
        """The module's own tensors, which share its memory."""
        module = self.module
        if isinstance(module, nn.MultiheadAttention):  # the first three packed in one, in order
            weights, bias = module.in_proj_weight.chunk(3), module.in_proj_bias
            biases = (None,) * 3 if bias is None else bias.chunk(3)
            packed = [Projection(w, b) for w, b in zip(weights, biases, strict=True)]
            return Projections(*packed, Projection(module.out_proj.weight, module.out_proj.bias))
        layers = (module.query, module.key, module.value, module.output)
        return Projections(*(Projection(layer.weight, layer.bias) for layer in layers))


class State(Protocol):
    """Opaque decoding state: a value with one row a hypothesis."""

    def select(self, rows_N: Tensor) -> "State": ...


class Seq2Seq(Protocol):
    """An encoder-decoder network. B batch, S/T source/target length, D d_model, V vocabulary.

    Source ids end with <eos>, target-in ids begin with <bos>; both are padded on the right.
    """

    config: ModelConfig

    def encode(self, source_BS: Tensor) -> tuple[Tensor, Tensor]: ...
    def decode(self, target_BT: Tensor, memory_BSD: Tensor, source_mask: Tensor) -> Tensor: ...
    def classify(self, hidden: Tensor) -> Tensor: ...
    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor: ...
    def __call__(self, source_BS: Tensor, target_BT: Tensor) -> Tensor: ...
    def start(self, source_BS: Tensor) -> State: ...
    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]: ...
    def attention_sites(self) -> list[AttentionSite]: ...


def build(architecture: str, config: ModelConfig) -> nn.Module:
    """A network with fresh weights: "scratch" or "baseline". Raises ValueError for another name."""
    from core.model.baseline import Baseline
    from core.model.transformer import Transformer

    architectures = {"scratch": Transformer, "baseline": Baseline}
    if architecture not in architectures:
        raise ValueError(
            f"unknown model {architecture!r}: choose one of {', '.join(architectures)}"
        )
    model = architectures[architecture](config)
    initialise(model)
    return model


def initialise(model: nn.Module, xavier_embeddings: bool = False) -> None:
    """Xavier-uniform matrices (Glorot & Bengio 2010), embeddings N(0, 1/d_model), biases 0.

    With `xavier_embeddings` the tables count as matrices too, as in tutorials.

    The separate q, k, v matrices get gain 1/√2: exactly the range that Xavier gives to
    nn.MultiheadAttention's packed [3·d_model, d_model] matrix, so both models start alike.
    """
    for name, parameter in model.named_parameters():
        if not xavier_embeddings and name.endswith(("table.weight", "positions.weight")):
            nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
        elif parameter.dim() > 1:
            separate = any(f".{part}." in name for part in ("query", "key", "value"))
            nn.init.xavier_uniform_(parameter, gain=math.sqrt(0.5) if separate else 1.0)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
