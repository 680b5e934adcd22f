"""Build a record from the cache of an encoder-decoder in TransformerLens 4."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from core.kinds import Kind
from core.record.adapters.fields import Languages, build
from core.record.adapters.tokens import tokens_of
from core.record.adapters.values import chosen, dense, shape_of
from core.record.limits import MAX_RECORD_MAPS

_SITES: dict[str, Kind] = {
    "encoder_blocks attn": "encoder",
    "decoder_blocks self_attn": "decoder",
    "decoder_blocks cross_attn": "cross",
}
_NAME = re.compile(r"(encoder_blocks|decoder_blocks)\.([0-9]+)\.(\w+)\.hook_pattern")


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
    if not isinstance(tokens, tuple | list) or len(tokens) != 2:
        raise ValueError("tokens is not a pair: pass (source tokens, target tokens)")
    source, (start, *target) = tokens_of(tokens[0], "source"), tokens_of(tokens[1], "target")
    found = _patterns(cache, index)
    if not found or not target:
        raise ValueError(
            "the cache needs a hook_pattern of encoder_blocks or decoder_blocks, and the target "
            "needs two tokens: the start token and the one that the first row predicts"
        )
    maps: dict[Kind, Any] = {}
    for kind, layers in found.items():
        if missing := [layer for layer in range(len(layers)) if layer not in layers]:
            raise ValueError(f"the cache lacks the {kind} pattern of layer {missing[0] + 1}")
        maps[kind] = dense([layers[layer] for layer in sorted(layers)], kind)
    produced = [kind for kind in maps if kind != "encoder"]
    if all(maps[kind].shape[-2] == len(target) + 1 for kind in produced):
        for kind in produced:
            keys = len(target) if kind == "decoder" else None
            maps[kind] = maps[kind][..., :-1, :keys]
    return build(source, tuple(target), maps, start, model, languages, "TransformerLens")


def _patterns(cache: Any, index: int | None) -> dict[Kind, dict[int, Any]]:
    """Return the chosen sentence's patterns, [head, query, key], by kind and layer.

    Raises ValueError, in one line, for other axes and for patterns of different batches.
    """
    if not hasattr(cache, "keys") or not hasattr(cache, "__getitem__"):
        raise ValueError(f"the cache is {type(cache).__name__}: pass that of run_with_cache")
    found: dict[Kind, dict[int, Any]] = {}
    sizes: dict[int, str] = {}
    for name in cache.keys():  # noqa: SIM118 - an ActivationCache is no dict
        match = _NAME.fullmatch(name) if isinstance(name, str) else None
        if not match or not (kind := _SITES.get(f"{match[1]} {match[3]}")):
            continue
        if len(match[2]) > len(str(MAX_RECORD_MAPS)) or match[2] != str(int(match[2])):
            raise ValueError(
                f"the cache has a layer {match[2][:12]}: layers are 0 to {MAX_RECORD_MAPS - 1:,}"
            )
        pattern, shape = cache[name], shape_of(cache[name], name)
        if len(shape) not in (3, 4):
            raise ValueError(f"{name} is {shape}, not [batch, head, query, key]")
        size = shape[0] if len(shape) == 4 else 1  # with 3 axes, it has no batch axis
        sizes.setdefault(size, name)
        if len(sizes) > 1:
            first, second = sizes
            raise ValueError(
                f"{sizes[first]} holds {first} sentences and {sizes[second]} {second}: pass the "
                "cache of one run"
            )
        at = chosen(index, size, "sentence of the batch")
        found.setdefault(kind, {})[int(match[2])] = pattern[at] if len(shape) == 4 else pattern
    return found
