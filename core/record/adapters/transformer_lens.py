"""Build a record from the cache of an encoder-decoder in TransformerLens 4."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from core.kinds import Kind
from core.record.adapters.fields import Languages, build, chosen, stacked
from core.record.adapters.tokens import tokens_of

_SITES: dict[str, Kind] = {
    "encoder_blocks attn": "encoder",
    "decoder_blocks self_attn": "decoder",
    "decoder_blocks cross_attn": "cross",
}
_NAME = re.compile(r"(encoder_blocks|decoder_blocks)\.(\d+)\.(\w+)\.hook_pattern")


def from_transformer_lens(
    cache: Mapping[str, Any],
    tokens: tuple[Sequence[str], Sequence[str]],
    index: int | None,
    model: str,
    languages: Languages,
) -> dict[str, Any]:
    """Return the record fields for the attention patterns in a cache.

    The cache comes from `run_with_cache(source, decoder_input=…)`. `tokens` are the source tokens
    and the tokens fed to the decoder, including the start token. Append the token that the last row
    predicts; without it, that row is dropped. `index` chooses a sentence of a batch.
    Raises ValueError, in one line, for missing patterns and for what `from_arrays` rejects.
    """
    found: dict[Kind, dict[int, Any]] = {}
    for name in cache.keys():  # noqa: SIM118 - an ActivationCache is no dict
        match = _NAME.fullmatch(name)
        if match and (kind := _SITES.get(f"{match[1]} {match[3]}")):
            pattern = stacked(cache[name])
            if pattern.ndim == 4:  # with 3 axes, it has no batch axis
                pattern = pattern[chosen(index, len(pattern), "sentence of the batch")]
            found.setdefault(kind, {})[int(match[2])] = pattern
    for kind, layers in found.items():
        if missing := sorted(set(range(max(layers))) - set(layers)):
            raise ValueError(f"the cache lacks the {kind} pattern of layer {missing[0] + 1}")
    maps: dict[Kind, Any] = {k: stacked([v[i] for i in sorted(v)]) for k, v in found.items()}
    source, (start, *target) = tokens_of(tokens[0], "source"), tokens_of(tokens[1], "target")
    for kind, weights in maps.items():
        if kind != "encoder" and weights.shape[-2] == len(target) + 1:
            keys = len(target) if kind == "decoder" else None
            maps[kind] = weights[..., :-1, :keys]
    if not maps or not target:
        raise ValueError(
            "the cache needs a hook_pattern of encoder_blocks or decoder_blocks, and the target "
            "needs two tokens: the start token and the one that the first row predicts"
        )
    return build(source, tuple(target), maps, start, model, languages, "TransformerLens")
