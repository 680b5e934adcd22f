"""x ↦ xWᵀ + b, in the order of multiplication that is fast for the few rows of a search, too."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_FEW = 8  # rows of x: a beam and more; from about ten on the usual order is the faster one


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., in], weight [out, in], bias [out] → [..., out].

    On a CPU (Wxᵀ + b)ᵀ is the faster order for few rows, where no gradient is wanted.
    """
    if x.shape[:-1].numel() > _FEW or torch.is_grad_enabled() or x.device.type != "cpu":
        return F.linear(x, weight, bias)
    columns = x.reshape(-1, x.shape[-1]).t()
    product = weight @ columns if bias is None else torch.addmm(bias[:, None], weight, columns)
    return product.t().contiguous().view(*x.shape[:-1], len(weight))


class Linear(nn.Linear):
    """torch's layer, by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)
