"""Label-smoothed cross-entropy and its gradient, computed in chunks of the logits."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from core.accelerate.kernels import smoothed_cross_entropy
from core.data.batches import Batch
from core.model.build import Model
from core.model.interface import Seq2Seq
from core.text.tokenizer import PAD

_CHUNK = 128  # rows of float32 logits at a time: 128 × 8,000 fit a processor's cache
_GROUP = 1024  # rows of the logits' gradient per matmul that adds to the weights' gradient


class Objective(nn.Module):
    """A network and its training loss in one forward pass, as DistributedDataParallel requires."""

    def __init__(self, model: Model, smoothing: float, compiled: bool = False):
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        # Compile the methods, not the module, to keep the parameters' names.
        self.encode = torch.compile(model.encode, dynamic=True) if compiled else model.encode
        self.decode = torch.compile(model.decode, dynamic=True) if compiled else model.decode

    def forward(self, batch: Batch, count: float) -> Tensor:
        """Return the smoothed loss summed over the batch's real tokens, divided by `count`.

        If `count` is the number of real tokens, the result equals cross_entropy(model(source,
        target_in), target_out, ignore_index=PAD, label_smoothing). The classifier runs in chunks
        over non-pad positions, forward and backward together. The full logits, the largest tensor
        of a step, are thus never in memory.
        """
        hidden_BTD = self.decode(batch.target_in, *self.encode(batch.source))
        real = batch.target_out != PAD
        hidden_ND, target_N = hidden_BTD[real], batch.target_out[real]
        weight, bias = self.model.embeddings.projection
        inputs = [hidden_ND, weight] if bias is None else [hidden_ND, weight, bias]
        loss, gradients = _classified(target_N, self.smoothing, count, *inputs)
        return _WithGradients.apply(loss, gradients, *inputs)


class _WithGradients(torch.autograd.Function):
    """A scalar with precomputed gradients with respect to `inputs`."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: list[Tensor], *inputs: Tensor) -> Tensor:
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(gradient * outer for gradient in ctx.gradients)


@torch.no_grad()
def _classified(
    target_N: Tensor,
    smoothing: float,
    count: float,
    hidden_ND: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """Return the loss of logits = hidden Wᵀ + b and its gradients for hidden, W and b.

    With G the gradient of the logits, these are G W, Gᵀ hidden and the sum of G's rows.
    """
    kind = hidden_ND.device.type
    mixed = torch.is_autocast_enabled(kind) and weight_VD.dtype != torch.float64  # as torch does
    dtype = torch.get_autocast_dtype(kind) if mixed else weight_VD.dtype
    chunk, group = (_CHUNK, _GROUP) if kind == "cpu" else (4 * _GROUP, 4 * _GROUP)
    weight = weight_VD.to(dtype)
    bias = None if bias_V is None else bias_V.to(dtype)
    total = torch.zeros((), device=hidden_ND.device)
    of_hidden = torch.empty_like(hidden_ND)
    of_weight = torch.zeros_like(weight_VD)
    of_bias = None if bias_V is None else torch.zeros_like(bias_V)
    for start in range(0, len(hidden_ND), group):
        rows = slice(start, start + group)
        hidden, target = hidden_ND[rows].to(dtype), target_N[rows]
        gradient_NV = hidden.new_empty(len(hidden), len(weight))
        for h, t, g in zip(*(x.split(chunk) for x in (hidden, target, gradient_NV)), strict=True):
            logits = F.linear(h, weight, bias)
            loss = smoothed_cross_entropy(logits, t, smoothing, count, g)
            if loss is None:
                loss, gradient = _smoothed(logits, t, smoothing, count)
                g.copy_(gradient)
            total = total + loss
        of_hidden[rows] = gradient_NV @ weight
        of_weight += gradient_NV.t() @ hidden
        if of_bias is not None:
            of_bias += gradient_NV.sum(0, dtype=of_bias.dtype)
    return total, [of_hidden, of_weight, *([] if of_bias is None else [of_bias])]


def _smoothed(
    logits_NV: Tensor, target_N: Tensor, smoothing: float, count: float
) -> tuple[Tensor, Tensor]:
    """Return summed label-smoothed cross-entropy (paper §5.4) and its gradient, divided by `count`.

    The gradient is softmax(logits) minus the smoothed target, (1 − ε)·onehot + ε/V; autograd would
    keep four more arrays of this size. Logits in float32 or float64 are overwritten.
    """
    dtype = torch.promote_types(logits_NV.dtype, torch.float32)
    shifted_NV = logits_NV.to(dtype)
    shifted_NV.sub_(shifted_NV.amax(-1, keepdim=True))
    at_N1 = target_N[:, None]
    wanted = (1 - smoothing) * shifted_NV.gather(-1, at_N1).sum()
    spread = smoothing * shifted_NV.mean(-1).sum()
    gradient_NV = shifted_NV.exp_()
    sum_N1 = gradient_NV.sum(-1, keepdim=True)
    loss = (sum_N1.log().sum() - wanted - spread) / count
    gradient_NV.mul_(1 / (sum_N1 * count)).sub_(smoothing / (logits_NV.shape[-1] * count))
    minus_N1 = torch.full_like(at_N1, (smoothing - 1) / count, dtype=dtype)
    return loss, gradient_NV.scatter_add_(-1, at_N1, minus_N1)


@torch.inference_mode()
def negative_log_likelihood(model: Seq2Seq, batch: Batch) -> tuple[float, int]:
    """Return the unsmoothed loss summed over the batch's real tokens, and their number."""
    hidden_BTD = model.decode(batch.target_in, *model.encode(batch.source))
    real = batch.target_out != PAD
    hidden_ND, target_N = hidden_BTD[real], batch.target_out[real]
    total, rows = 0.0, _CHUNK if hidden_ND.device.type == "cpu" else 4 * _GROUP
    for hidden, target in zip(hidden_ND.split(rows), target_N.split(rows), strict=True):
        total += F.cross_entropy(model.classify(hidden).float(), target, reduction="sum").item()
    return total, len(target_N)
