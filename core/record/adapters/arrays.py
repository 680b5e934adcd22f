"""Build a record from arrays of attention weights, without the library that made them."""

from collections.abc import Mapping, Sequence
from typing import Any

from core.kinds import Kind
from core.record.adapters.fields import Languages, build
from core.record.adapters.tokens import tokens_of


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
    layer; kinds may differ in layers and heads. `source` holds the tokens at the keys of
    cross-attention, `target` the tokens produced, one per decoder row, and `start` the token fed in
    first. Tokens may carry a tokenizer's word marks. A decoder without weight on later tokens
    counts as causally masked; no other cells count as masked.

    Raises ValueError, in one line, for wrong shapes or numbers of tokens, weights that are
    non-finite or negative, and rows that do not sum to 1 within `map_checks.ROW_LIMIT`.
    """
    tokens = tokens_of(source, "source"), tokens_of(target, "target")
    (first,) = tokens_of([start], "start")
    return build(*tokens, maps, first, model, languages, "arrays")
