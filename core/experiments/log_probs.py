"""The log-probability of each token of one target in every row of a batch.

Axes: B row, T target token, D d_model, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from core.model.interface import Seq2Seq

_LOGITS = 1 << 21  # at once: what a processor's cache holds


def target_log_probs(model: Seq2Seq, hidden_BTD: Tensor, target: Sequence[int]) -> Tensor:
    """log P of target[t] from a decoder's states: float64 [B, T], in nats.

    It is as exact as the model's own logits: its logarithm is taken in 64 bits, where 32 would
    round log P = −10 to a millionth. Without gradients, for it writes over the logits.
    """
    ids_1T1 = torch.tensor(target, device=hidden_BTD.device)[None, :, None]
    V = model.config.target_vocab_size
    found = []
    for part_BTD in hidden_BTD.split(max(1, _LOGITS // (len(target) * V))):
        logits_BTV = model.classify(part_BTD)
        chosen_BT = logits_BTV.gather(-1, ids_1T1.expand(len(part_BTD), -1, -1))[..., 0].double()
        largest_BT1 = logits_BTV.amax(-1, keepdim=True)
        total_BT = logits_BTV.sub_(largest_BT1).exp_().sum(-1).double()
        found.append(chosen_BT - largest_BT1[..., 0].double() - total_BT.log())
    return torch.cat(found)
