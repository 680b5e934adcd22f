"""Plan a network with a word vocabulary: shapes from the file, heads and words from the user."""

from typing import Any

from core.config import ModelConfig
from core.foreign.family import Names, Options, Plan, count_layers
from core.foreign.sources import naming, shown
from core.foreign.weights import Weights
from core.foreign.words import word_vocabularies

_MAX_LENGTH = 256  # tokens; sinusoids set no limit


def plan(
    weights: Weights,
    options: Options,
    names: Names,
    *,
    position_tables: tuple[str, ...] = (),
    min_count: int = 1,
    lower: bool = False,
    **settings: Any,
) -> Plan:
    """Return the plan of a word-based network; `settings` of ModelConfig that no shape reveals.

    Raises ValueError for a missing tensor, a wrong number of heads, a size out of range or a wrong
    vocabulary.
    """

    def matrix(ours: str) -> tuple[int, ...]:
        name = names.theirs(ours)[0]
        shape = weights.shape(name)
        if len(shape) != 2:
            raise ValueError(
                f"{shown(weights.source)}: {name} is {list(shape)[:8]}, not a matrix: save the "
                "complete state dict again"
            )
        return shape

    source_size, d_model = matrix("embeddings.source_table.weight")
    target_size = matrix("embeddings.target_table.weight")[0]
    heads = options.heads
    if heads is None:
        raise ValueError("no tensor reveals the number of heads: give it with --heads")
    if heads < 1 or d_model % heads:
        raise ValueError(
            f"--heads {heads} does not divide the width {d_model} of "
            f"{shown(weights.source)}: give the number it was trained with"
        )
    inner = matrix("encoder.0.feed_forward.inner.weight")[0]
    sides = {
        side: count_layers(weights, names.layer.format(side=side, layer=""))
        for side in ("encoder", "decoder")
    }
    with naming(weights.source):
        config = ModelConfig(
            **settings,
            source_vocab_size=source_size,
            target_vocab_size=target_size,
            d_model=d_model,
            num_heads=heads,
            num_encoder_layers=sides["encoder"],
            num_decoder_layers=sides["decoder"],
            dim_feedforward=inner,
            max_length=_MAX_LENGTH,
        )
    source, target = word_vocabularies(options, (source_size, target_size), min_count, lower)
    note = (
        f"The number of heads, {heads}, comes from --heads: no tensor reveals it, and a wrong "
        "number changes every map."
    )
    return Plan(config, names, source, target, position_tables=position_tables, notes=(note,))
