"""The padding mask and the causal mask: boolean, True = may attend."""

import torch
from torch import Tensor


def padding_mask(ids_BS: Tensor, pad_id: int) -> Tensor:
    """Mark the keys that are not padding: ids [batch, length] → bool [batch, 1, 1, length].

    The head and query axes broadcast: padding is masked for every head and query.
    """
    return (ids_BS != pad_id)[:, None, None, :]


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Let query t attend to keys 0…t: bool [length, length], lower triangle (paper §3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def target_mask(ids_BT: Tensor, pad_id: int) -> Tensor:
    """Mask padding and the future: ids [batch, length] → bool [batch, 1, length, length]."""
    return padding_mask(ids_BT, pad_id) & causal_mask(ids_BT.shape[1], ids_BT.device)
