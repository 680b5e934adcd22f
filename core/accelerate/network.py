"""Entry point: `accelerate(network)` speeds up forward passes and decoding, in place.

It does nothing without a C compiler or with `HEADLIGHT_COMPILED=0` in the environment.
"""

from __future__ import annotations

from torch import Tensor, nn

from core.accelerate import kernels
from core.accelerate.decoder import FastTransformer
from core.accelerate.kernels import supports
from core.accelerate.layers import FastEmbeddings, Linear
from core.accelerate.library import library
from core.model.build import Model
from core.model.top_tokens import NEVER_WRITTEN, TopTokens
from core.model.transformer import Transformer


def accelerate(network: Model) -> None:
    """Make a network use step.c where possible; weights and names stay, only rounding changes.

    For the baseline, only the classifier and the token selection are replaced.
    """
    if library() is None:
        return
    network.top_tokens = FastTopTokens()
    is_scratch = type(network) is Transformer
    if is_scratch:
        network.__class__ = FastTransformer
    network.embeddings.__class__ = FastEmbeddings
    root: nn.Module = network if is_scratch else network.embeddings
    for module in root.modules():
        if type(module) is nn.Linear:
            module.__class__ = Linear


class FastTopTokens(TopTokens):
    """TopTokens that computes log-probabilities only for the chosen tokens."""

    def best(self, logits_NV: Tensor) -> tuple[Tensor, Tensor]:
        if not supports(logits_NV):
            return super().best(logits_NV)
        best_N1, id_N1 = kernels.top_k_log_probs(logits_NV, NEVER_WRITTEN.stop, 1)
        return best_N1[:, 0], id_N1[:, 0]

    def beam_candidates(
        self, logits_NKV: Tensor, total_NK: Tensor, per_row: int, count: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        if not supports(logits_NKV):
            return super().beam_candidates(logits_NKV, total_NK, per_row, count)
        return kernels.beam_candidates(logits_NKV, total_NK, NEVER_WRITTEN.stop, per_row, count)
