"""The mistakes, in page order: the broken line of code, and the number that shows the mistake."""

from __future__ import annotations

import random
from typing import NamedTuple


class Mistake(NamedTuple):
    """A healthy and a broken line of code, and the name of the number that shows the mistake."""

    healthy: str
    broken: str
    measure: str


_MISTAKES = {
    "unscaled": Mistake("scores = q @ k.mT / math.sqrt(d_k)", "scores = q @ k.mT", "scale"),
    "over_queries": Mistake(
        "weights = scores.softmax(dim=-1)", "weights = scores.softmax(dim=-2)", "column_sums"
    ),
    "inverted_mask": Mistake(
        "scores = scores.masked_fill(~mask, -math.inf)",
        "scores = scores.masked_fill(mask, -math.inf)",
        "on_allowed",
    ),
    "no_causal_mask": Mistake(
        "mask = (ids != PAD) & torch.ones(T, T).tril().bool()", "mask = (ids != PAD)", "on_future"
    ),
    "no_padding_mask": Mistake(
        "mask = (ids != PAD)", "mask = torch.ones_like(ids).bool()", "on_padding"
    ),
    "swapped": Mistake("q, k = W_q(x), W_k(memory)", "q, k = W_k(x), W_q(memory)", "transposed"),
    "shifted": Mistake("x = x + table[0:T]", "x = x + table[1 : T + 1]", "position"),
    "reshaped": Mistake(
        "q = q.reshape(B, T, H, d_k).transpose(1, 2)", "q = q.reshape(B, H, T, d_k)", "tokens_read"
    ),
}
MISTAKES = {bug: _MISTAKES[bug] for bug in random.Random(8).sample(list(_MISTAKES), len(_MISTAKES))}
"""Mistakes by bug name, in a fixed shuffled order, by which the page numbers them."""
