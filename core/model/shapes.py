"""Names and shapes of a network's weights, computed from its configuration without torch.

A file of weights can thus be checked before anything is allocated.
"""

from collections.abc import Callable, Iterator
from math import prod

from core.config import ModelConfig
from core.kinds import Side

Shapes = dict[str, tuple[int, ...]]


def weight_shapes(architecture: str, config: ModelConfig) -> Shapes:
    """Return name → shape of every parameter of "scratch" or "baseline".

    Raises ValueError for another architecture.
    """
    if architecture not in _STACKS:
        raise ValueError(
            f"unknown architecture {architecture!r}: choose one of {', '.join(_STACKS)}"
        )
    return dict([*_embeddings(config), *_STACKS[architecture](config)])


def count_parameters(shapes: Shapes) -> int:
    """Return the total number of elements."""
    return sum(map(prod, shapes.values()))


Named = Iterator[tuple[str, tuple[int, ...]]]


def _embeddings(config: ModelConfig) -> Named:
    source, target, d_model = config.source_vocab_size, config.target_vocab_size, config.d_model
    yield "embeddings.source_table.weight", (source, d_model)
    if not config.share_embeddings:
        yield "embeddings.target_table.weight", (target, d_model)
    if config.learned_positions:
        for side in ("source", "target"):
            yield f"embeddings.{side}_positions.weight", (config.max_length, d_model)
    if config.embedding_norm:
        yield from _norm("embeddings.source_norm", d_model)
        yield from _norm("embeddings.target_norm", d_model)
    if not config.tie_classifier:
        yield from _linear("embeddings.classifier", d_model, target)
    elif config.tied_bias:
        yield "embeddings.tied_bias", (target,)


def _linear(name: str, inputs: int, outputs: int, bias: bool = True) -> Named:
    yield f"{name}.weight", (outputs, inputs)
    if bias:
        yield f"{name}.bias", (outputs,)


def _norm(name: str, d_model: int, bias: bool = True) -> Named:
    yield f"{name}.weight", (d_model,)
    if bias:
        yield f"{name}.bias", (d_model,)


def _scratch(config: ModelConfig) -> Named:
    d_model, has_bias, has_shift = config.d_model, config.linear_bias, config.norm != "rms"
    for side, layers, attentions in _sides(config):
        inner, heads = config.feedforward(side), config.heads(side)
        width = heads * config.size_of_head(side)
        for layer in (f"{side}.{i}" for i in range(layers)):
            for attention in (f"{layer}.{name}_attention" for name in attentions):
                for part in ("query", "key", "value"):
                    yield from _linear(f"{attention}.{part}", d_model, width, config.qkv_bias)
                yield from _linear(f"{attention}.output", width, d_model, has_bias)
            yield from _linear(f"{layer}.feed_forward.inner", d_model, inner, has_bias)
            if config.gated:
                yield from _linear(f"{layer}.feed_forward.gate", d_model, inner, has_bias)
            yield from _linear(f"{layer}.feed_forward.outer", inner, d_model, has_bias)
            for i in range(len(attentions) + 1):
                yield from _norm(f"{layer}.norm{i + 1}", d_model, has_shift)
        if config.final_norm:
            yield from _norm(f"{side}_norm", d_model, has_shift)
        if config.relative_buckets:
            yield f"{side}_bias.weight", (config.relative_buckets, heads)


def _baseline(config: ModelConfig) -> Named:
    d_model = config.d_model
    library = {"self": "self_attn", "cross": "multihead_attn"}
    for side, layers, attentions in _sides(config):
        for layer in (f"transformer.{side}.layers.{i}" for i in range(layers)):
            for attention in (f"{layer}.{library[name]}" for name in attentions):
                yield f"{attention}.in_proj_weight", (3 * d_model, d_model)
                if config.qkv_bias:
                    yield f"{attention}.in_proj_bias", (3 * d_model,)
                yield from _linear(f"{attention}.out_proj", d_model, d_model)
            yield from _linear(f"{layer}.linear1", d_model, config.feedforward(side))
            yield from _linear(f"{layer}.linear2", config.feedforward(side), d_model)
            for i in range(len(attentions) + 1):
                yield from _norm(f"{layer}.norm{i + 1}", d_model)
        if config.final_norm:
            yield from _norm(f"transformer.{side}.norm", d_model)


def _sides(config: ModelConfig) -> tuple[tuple[Side, int, tuple[str, ...]], ...]:
    """Return each stack with its number of layers and the attentions of a layer."""
    return (
        ("encoder", config.num_encoder_layers, ("self",)),
        ("decoder", config.num_decoder_layers, ("self", "cross")),
    )


_STACKS: dict[str, Callable[[ModelConfig], Named]] = {"scratch": _scratch, "baseline": _baseline}
