"""Log-probabilities of one target's tokens in every row of a batch.

Axes: B row, T target token, D d_model, V vocabulary.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from core.model.interface import AttentionSite, Call, Seq2Seq
from core.record.capture import before_attention

_LOGITS = 1 << 21  # logits computed at a time, few enough for the CPU's cache


def target_log_probs(model: Seq2Seq, hidden_BTD: Tensor, target: Sequence[int]) -> Tensor:
    """Return log P of target[t] from decoder states: float64 [B, T], in nats.

    The exponentials are summed in the model's precision; the rest is float64, because float32
    numbers near log P = −10 lie about 1e-6 apart. The logits are overwritten in place, so gradients
    are not supported.
    """
    ids_1T1 = torch.tensor(target, device=hidden_BTD.device)[None, :, None]
    V = model.config.target_vocab_size
    log_probs = []
    for part_BTD in hidden_BTD.split(max(1, _LOGITS // (len(target) * V))):
        logits_BTV = model.classify(part_BTD)
        chosen_BT = logits_BTV.gather(-1, ids_1T1.expand(len(part_BTD), -1, -1))[..., 0].double()
        largest_BT1 = logits_BTV.amax(-1, keepdim=True)
        total_BT = logits_BTV.sub_(largest_BT1).exp_().sum(-1).double()
        log_probs.append(chosen_BT - largest_BT1[..., 0].double() - total_BT.log())
    return torch.cat(log_probs)


def widened(model: Seq2Seq) -> AbstractContextManager[None]:
    """Let one target be decoded for many sources inside the block.

    At the first cross-attention, the target's single row is expanded to one row per source; before
    it, all sources share one computation. Each site's mask is broadcast over the rows. The hooks
    act on every thread that uses the model: the caller must hold the model's lock.
    """

    def widen(site: AttentionSite, call: Call) -> Call:
        query, *rest = call.args
        call = Call((query.expand(len(rest[0]), -1, -1), *rest), call.kwargs)
        return site.with_mask(call, site.mask(call)[:, None], True)

    return before_attention(model.attention_sites(), widen)
