"""The one entry point: make a network's passes and searches faster, in place.

`HEADLIGHT_COMPILED=0` in the environment turns it off; so does a machine without a C compiler.
"""

from __future__ import annotations

from torch import Tensor, nn

from core.accelerate import kernels
from core.accelerate.decoder import FastTransformer
from core.accelerate.kernels import takes
from core.accelerate.layers import FastEmbeddings, Linear
from core.accelerate.library import library
from core.model.build import Model
from core.model.top_tokens import NEVER_WRITTEN, TopTokens
from core.model.transformer import Transformer


def accelerate(network: Model) -> None:
    """Let a network compute with step.c where it can: same weights, same ids, other rounding.

    Of torch.nn.Transformer only the classifier and the choice of tokens: the rest stays torch's.
    """
    if library() is None:
        return
    network.top_tokens = FastTopTokens()
    whole = type(network) is Transformer
    if whole:
        network.__class__ = FastTransformer
    network.embeddings.__class__ = FastEmbeddings
    part: nn.Module = network if whole else network.embeddings
    for module in part.modules():
        if type(module) is nn.Linear:
            module.__class__ = Linear


class FastTopTokens(TopTokens):
    """Without the log-probabilities of all other tokens."""

    def best(self, logits_NV: Tensor) -> tuple[Tensor, Tensor]:
        if not takes(logits_NV):
            return super().best(logits_NV)
        best_N1, id_N1 = kernels.top_k_log_probs(logits_NV, NEVER_WRITTEN.stop, 1)
        return best_N1[:, 0], id_N1[:, 0]

    def continuations(
        self, logits_NKV: Tensor, total_NK: Tensor, each: int, wanted: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        if not takes(logits_NKV):
            return super().continuations(logits_NKV, total_NK, each, wanted)
        return kernels.continuations(logits_NKV, total_NK, NEVER_WRITTEN.stop, each, wanted)
