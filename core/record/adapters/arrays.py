"""Build a record from arrays of attention weights, without the library that made them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from core.kinds import Kind
from core.record.adapters.fields import Languages, build
from core.record.adapters.tokens import begins_with_start, tokens_of
from core.record.adapters.values import dense, shape_of


def from_arrays(
    source: Sequence[str],
    target: Sequence[str],
    maps: Mapping[Kind, Any],
    start: str,
    model: str,
    languages: Languages,
) -> dict[str, Any]:
    """Return the record fields for `maps` by kind, [layer, head, query, key] after softmax.

    The maps of a kind may be None, an array, a tensor or a sequence with one [head, query, key] per
    layer, or one [1, head, query, key] as a forward pass of one sentence returns it; kinds may
    differ in layers and heads. `source` holds the tokens at the keys of cross-attention, `target`
    the tokens produced, one per decoder row, and `start` the token fed in first. Tokens may carry a
    tokenizer's word marks. A decoder without weight on later tokens counts as causally masked; no
    other cells count as masked.

    Raises ValueError, in one line, for wrong shapes or numbers of tokens, fed tokens in place of
    produced ones, weights that are non-finite or negative, and rows that do not sum to 1 within
    `map_checks.ROW_LIMIT`.
    """
    tokens = tokens_of(source, "source"), tokens_of(target, "target")
    (first,) = tokens_of([start], "start")
    if begins_with_start(tokens[1], first):
        raise ValueError(
            f"target begins with the start token {tokens[1][0].piece[:40]!r}: these are the fed "
            "tokens; pass the produced ones, target[1:] and the prediction of the last row, or "
            "name in start= what was fed before them"
        )
    arrays: dict[Kind, Any] = {kind: _layers(kind, given) for kind, given in maps.items()}
    return build(*tokens, arrays, first, model, languages, "arrays")


def _layers(kind: Kind, given: Any) -> np.ndarray | None:
    """Return [layer, head, query, key], or None for a missing kind; drop a batch axis of 1.

    Raises ValueError, in one line, that says how to get these axes from others.
    """
    if given is None:
        return None
    if isinstance(given, list | tuple) and any(one is None for one in given or (None,)):
        raise ValueError(
            f'{kind} holds no weights: load the model with attn_implementation="eager"; the '
            "default computes none"
        )
    shape = shape_of(given, kind)
    if len(shape) == 5 and shape[1] == 1:
        return dense(given, kind)[:, 0]
    if fix := _fix(kind, shape):
        raise ValueError(
            f"{kind} has {len(shape)} axes {shape}, not [layer, head, query, key]: {fix}"
        )
    return dense(given, kind)


def _fix(kind: Kind, shape: tuple[int, ...]) -> str:
    """Return how to get four axes; "" if there are four, or if nothing is known to help."""
    if len(shape) == 5 and shape[0] == 1:
        return (
            f"pass {kind}[0] if the first axis is the batch, or [layer[i] for layer in {kind}] for "
            "sentence i of a batch if it is the layer"
        )
    return {
        2: f"pass {kind}[None, None] for a single map",
        3: f"pass {kind}[:, None] for one map per layer, such as means over heads, or "
        f"{kind}[None] for the heads of one layer",
        5: f"the second is a batch: pass [layer[i] for layer in {kind}] for sentence i, from 0",
        6: "these are steps of generate: pass its outputs to from_generate",
    }.get(len(shape), "")
