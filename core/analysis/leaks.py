"""Measure how information leaks from future tokens when the causal mask is off."""

from dataclasses import dataclass

import numpy as np

from core.frozen import Doubles, Frozen
from core.record.record import TranslationRecord


@dataclass(frozen=True, eq=False)
class Leak(Frozen):
    """Probability of each correct next token [T] under teacher forcing, with and without the mask.

    `on_future` [T] is the share of each row's attention on future tokens when the mask is off,
    averaged over all layers and heads of the decoder.
    """

    masked: Doubles
    open: Doubles
    on_future: Doubles

    @property
    def gained(self) -> float:
        """The mean probability gained by seeing future tokens; negative for a loss."""
        return float((self.open - self.masked).mean())


def leak(masked: TranslationRecord, opened: TranslationRecord) -> Leak:
    """Compare two records of one target; the second was made without the causal mask.

    Raises ValueError if the targets differ, or for imported maps, which have no probabilities.
    """
    if masked.origin or opened.origin:
        raise ValueError("imported maps have no log-probabilities: these need the network")
    if masked.target_out != opened.target_out:
        raise ValueError("the two records hold different targets")
    future = np.triu(np.ones(opened.decoder_mask.shape, bool), 1)
    return Leak(
        masked=np.exp(masked.log_probs.astype(np.float64)),
        open=np.exp(opened.log_probs.astype(np.float64)),
        on_future=np.where(future, opened.decoder.mean((0, 1), dtype=np.float64), 0).sum(-1),
    )
