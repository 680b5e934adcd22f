"""Choose tokens from logits: the best token of each row, and the candidates of a beam.

Axes: N sentences, K beam, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from core.text.tokenizer import BOS, PAD

NEVER_WRITTEN = slice(PAD, BOS + 1)
"""Ids of <pad> and <bos>, which no translation contains."""


def log_probabilities(logits: Tensor) -> Tensor:
    """Return log-probabilities, at least in float32; those of <pad> and <bos> are −∞."""
    log_probs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    log_probs[..., NEVER_WRITTEN] = -torch.inf
    return log_probs


class TopTokens:
    """Token selection for a search; `core.accelerate` has a compiled subclass."""

    def best(self, logits_NV: Tensor) -> tuple[Tensor, Tensor]:
        """Return each row's largest log-probability and its id, both [N]; the lowest id if tied."""
        log_probs_N, id_N = log_probabilities(logits_NV).max(dim=-1)
        return log_probs_N, id_N

    def beam_candidates(
        self, logits_NKV: Tensor, total_NK: Tensor, per_row: int, count: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the `count` best continuations of each sentence: sums, rows 0…K−1, and ids.

        All are [N, count], best first. A sum is a hypothesis's total plus the log-probability of
        one of its `per_row` best tokens. Totals and sums are float64 on the CPU, because not all
        GPUs support float64.
        """
        log_probs_NKC, id_NKC = (x.cpu() for x in log_probabilities(logits_NKV).topk(per_row))
        best, index = (total_NK[:, :, None] + log_probs_NKC).flatten(1).topk(count)
        return best, index // per_row, id_NKC.flatten(1).gather(1, index)
