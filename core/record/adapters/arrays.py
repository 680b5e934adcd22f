"""Build a record from arrays of attention weights: no weights of a network, no library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from core.kinds import Kind, map_sizes
from core.record.adapters.map_checks import check_maps, reject_invalid
from core.record.adapters.tokens import join, tokens_of
from core.record.record import RecordToken, TranslationRecord, imported_mask

Languages = tuple[str, str]
Tokens = tuple[RecordToken, ...]


def from_arrays(
    source: Sequence[str],
    target: Sequence[str],
    maps: Mapping[Kind, Any],
    start: str,
    model: str,
    languages: Languages,
    origin: str = "arrays",
) -> TranslationRecord:
    """Return the record of `maps` by kind, each None or [layer, head, query, key] after softmax.

    A map may be an array, a tensor or one [head, query, key] per layer; kinds may differ in layers
    and heads. `source` are the keys of cross-attention. `target` are the tokens produced, one per
    decoder row; `start` is the token fed in first. Tokens may carry a tokenizer's word marks. A
    decoder without weight on later tokens is causal; otherwise no cell counts as masked.

    Raises ValueError, in one line, for wrong shapes or numbers of tokens, and for weights that are
    non-finite or negative, and rows that do not sum to 1 within
    `ROW_LIMIT`.
    """
    tokens = tokens_of(source, "source"), tokens_of(target, "target")
    (first,) = tokens_of([start], "start")
    return build(*tokens, maps, first, model, languages, origin)


def build(
    source: Tokens,
    target: Tokens,
    maps: Mapping[Kind, Any],
    start: RecordToken,
    model: str,
    languages: Languages,
    origin: str,
) -> TranslationRecord:
    """Return the checked record of maps with tokens: see `from_arrays`."""
    if all(weights is None for weights in maps.values()):
        raise ValueError("no attention: pass encoder, decoder or cross, [layer, head, query, key]")
    arrays: dict[str, Any] = {}
    for kind, size in map_sizes(len(source), len(target)).items():
        given = maps.get(kind)
        weights = np.zeros((0, 0, *size), np.float32) if given is None else stacked(given)
        reject_invalid(kind, weights, size)
        arrays[kind] = weights.astype(np.float32)
        arrays[f"{kind}_mask"] = imported_mask(kind, arrays[kind])
    S, T = len(source), len(target)
    record = TranslationRecord(
        model=model, weights_sha256="", source_language=languages[0], target_language=languages[1],
        decode=None, source_text=join(source), translation=join(target), source=source,
        target_in=(replace(start, special=True), *target[:-1]), target_out=target, **arrays,
        source_positions=np.zeros((S, 0), np.float32), hypotheses=(), origin=origin,
        target_positions=np.zeros((T, 0), np.float32), log_probs=np.zeros(0, np.float32),
        alternatives=((),) * T, alternative_log_probs=np.zeros((T, 0), np.float32),
    )  # fmt: skip
    return check_maps(record)


def stacked(weights: Any) -> Any:
    """Return maps as a NumPy array: of an array, a tensor, or a sequence of one per layer."""
    if hasattr(weights, "detach"):
        return weights.detach().float().cpu().numpy()
    if isinstance(weights, list | tuple) and any(hasattr(one, "shape") for one in weights):
        weights = [stacked(layer) for layer in weights]
    try:
        return np.asarray(weights)
    except ValueError:
        raise ValueError(
            "the layers of one kind differ in shape: pass equal numbers of heads"
        ) from None


def chosen(index: int | None, count: int, what: str) -> int:
    """Return an index that exists; None means the only one. Raises ValueError, in one line."""
    if index is None and count == 1:
        return 0
    if index is None or not 0 <= index < count:
        raise ValueError(f"choose one {what} of {count}: index=0 to {count - 1}, not {index}")
    return index
