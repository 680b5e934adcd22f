"""Build the fields of a record from imported maps and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from core.frozen import Floats
from core.kinds import Kind, map_sizes
from core.record.adapters.map_checks import check_maps, imported_mask, reject_invalid
from core.record.adapters.tokens import join
from core.record.parts import RecordToken

Languages = tuple[str, str]
Tokens = tuple[RecordToken, ...]


def build(
    source: Tokens,
    target: Tokens,
    maps: Mapping[Kind, Any],
    start: RecordToken,
    model: str,
    languages: Languages,
    origin: str,
) -> dict[str, Any]:
    """Return the record fields for maps by kind, including the checks; see `from_arrays`.

    Raises ValueError, in one line, if there are no maps or if maps do not fit the tokens.
    """
    if all(weights is None for weights in maps.values()):
        raise ValueError("no attention: pass encoder, decoder or cross, [layer, head, query, key]")
    arrays: dict[Kind, Floats] = {}
    for kind, size in map_sizes(len(source), len(target)).items():
        given = maps.get(kind)
        weights = np.zeros((0, 0, *size), np.float32) if given is None else stacked(given)
        reject_invalid(kind, weights, size)
        arrays[kind] = weights.astype(np.float32)
    S, T = len(source), len(target)
    return arrays | {f"{kind}_mask": imported_mask(kind, arrays[kind]) for kind in arrays} | dict(
        model=model, weights_sha256="", source_language=languages[0], target_language=languages[1],
        decode=None, source_text=join(source), translation=join(target), source=source,
        target_in=(replace(start, special=True), *target[:-1]), target_out=target, hypotheses=(),
        source_positions=np.zeros((S, 0), np.float32), alternatives=((),) * T, origin=origin,
        target_positions=np.zeros((T, 0), np.float32), log_probs=np.zeros(0, np.float32),
        alternative_log_probs=np.zeros((T, 0), np.float32), checks=check_maps(arrays),
    )  # fmt: skip


def stacked(weights: Any) -> Any:
    """Convert an array, a tensor, or a sequence with one of them per layer to a NumPy array.

    Raises ValueError, in one line, if the layers differ in shape.
    """
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
    """Return `index`; None means the only item.

    Raises ValueError, in one line, if the index is out of range, or None and `count` is not 1.
    """
    if index is None and count == 1:
        return 0
    if index is None or not 0 <= index < count:
        raise ValueError(f"choose one {what} of {count}: index=0 to {count - 1}, not {index}")
    return index
