"""The label-smoothed loss and its gradient, without ever holding all logits at once."""

import torch
import torch.nn.functional as F
from torch import Tensor

from core.batches import Batch
from core.model.interface import Seq2Seq
from core.text.tokenizer import PAD

_CHUNK = 512  # rows of logits held at a time: 512 × 6,000 floats stay in the processor's cache


def backward(model: Seq2Seq, batch: Batch, smoothing: float) -> Tensor:
    """One forward and backward pass; gradients are of the mean over the batch's real tokens.

    Equal to cross_entropy(model(source, target_in), target_out, ignore_index=PAD, label_smoothing)
    followed by backward(), but the classifier sees non-pad positions only, a chunk at a time: the
    full logits are the largest tensor of the step, and paging them in dominated its time.
    Returns the loss, a scalar on the batch's device.
    """
    hidden_BTD = model.decode(batch.target_in, *model.encode(batch.source))
    real = batch.target_out != PAD
    hidden_ND, target_N = hidden_BTD[real], batch.target_out[real]
    # The classifier's part of the graph is freed chunk by chunk; the stacks' part runs once, below.
    leaf_ND = hidden_ND.detach().requires_grad_()
    total = torch.zeros((), device=hidden_ND.device)
    for leaf, target in zip(leaf_ND.split(_CHUNK), target_N.split(_CHUNK), strict=True):
        logits = model.classify(leaf)
        loss = F.cross_entropy(
            logits.to(torch.promote_types(logits.dtype, torch.float32)),
            target,
            label_smoothing=smoothing,
            reduction="sum",
        ) / len(target_N)
        loss.backward()
        total += loss.detach()
    hidden_ND.backward(leaf_ND.grad)
    return total


@torch.inference_mode()
def negative_log_likelihood(model: Seq2Seq, batch: Batch) -> tuple[float, int]:
    """Unsmoothed loss summed over the batch's real tokens, and how many there are."""
    hidden_BTD = model.decode(batch.target_in, *model.encode(batch.source))
    real = batch.target_out != PAD
    hidden_ND, target_N = hidden_BTD[real], batch.target_out[real]
    total = 0.0
    for hidden, target in zip(hidden_ND.split(_CHUNK), target_N.split(_CHUNK), strict=True):
        total += F.cross_entropy(model.classify(hidden).float(), target, reduction="sum").item()
    return total, len(target_N)
