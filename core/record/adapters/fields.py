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

    A missing kind is None. Raises ValueError, in one line, if there are no maps, if maps do not fit
    the tokens, or if a name is not a text.
    """
    if all(weights is None for weights in maps.values()):
        raise ValueError("no attention: pass encoder, decoder or cross, [layer, head, query, key]")
    for name, value in (("model", model), *(("a language", one) for one in languages)):
        if not isinstance(value, str):
            raise ValueError(f"{name} is {type(value).__name__}, not a text: pass its name")
    arrays: dict[Kind, Floats] = {}
    for kind, size in map_sizes(len(source), len(target)).items():
        given = maps.get(kind)
        weights = np.zeros((0, 0, *size), np.float32) if given is None else given
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
