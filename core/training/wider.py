"""A wider network that begins by doing nearly what a narrower trained one does.

The aim of Net2Net (Chen et al. 2016), but with fresh units instead of copies: the trained block of
each matrix stands among new rows and columns, and nothing of what was trained listens to what is
new. Only the layer norms, which are taken over all features, mix the two.
"""

import math

import torch
from torch import Tensor

from core.config import ModelConfig
from core.model.transformer import Transformer

WIDTHS = ("d_model", "num_heads", "dim_feedforward")

_READS = ("query.", "key.", "value.", "inner.")  # from the features of a layer norm
_WRITES = ("output.", "outer.")  # to the features of the residual stream


def may_grow(narrow: ModelConfig, wide: ModelConfig) -> bool:
    """Whether `widen` takes one shape to the other, if they differ in their `WIDTHS` alone."""
    return (
        wide.d_model > narrow.d_model
        and wide.d_model % narrow.d_model == 0
        and wide.head_size == narrow.head_size
        and wide.dim_feedforward >= narrow.dim_feedforward
        and wide.norm_first
        and wide.share_embeddings
        and wide.tie_classifier
        and wide.scale_embeddings
        and wide.final_norm
        and not wide.learned_positions
    )


def kept_features(narrow: int, wide: int) -> Tensor:
    """Where the features of the narrower network stand in the wider one, int64 [narrow].

    Sine/cosine pair i of the narrower table has the rate of pair i·wide/narrow of the wider one
    (paper §3.5), so that these columns of the wider table are the narrower one.
    """
    pair_I = torch.arange(narrow // 2) * (wide // narrow)
    return torch.stack((2 * pair_I, 2 * pair_I + 1), dim=-1).flatten()


@torch.no_grad()
def widen(narrow: Transformer, wide: Transformer) -> None:
    """Put the weights of one network into a fresh wider one, in place; see `may_grow`.

    New features are written at the scale of the old ones, so that the layer norms change little.
    """
    d_narrow, d_wide = narrow.config.d_model, wide.config.d_model
    scale = math.sqrt(d_wide / d_narrow)
    old_D = kept_features(d_narrow, d_wide).to(wide.embeddings.source_table.weight.device)
    is_new_D = torch.ones(d_wide, dtype=torch.bool, device=old_D.device)
    is_new_D[old_D] = False
    trained = dict(narrow.named_parameters())
    for name, parameter in wide.named_parameters():
        weight = trained[name]
        rows = slice(0, weight.shape[0])
        if name.endswith("table.weight"):
            weight = weight / scale  # embeddings are multiplied by √d_model
            parameter[:, is_new_D] *= _rms(weight) / _rms(parameter[:, is_new_D])
            parameter[:, old_D] = weight
        elif name.startswith("decoder_norm."):  # its features are compared with the embeddings
            parameter.zero_()
            parameter[old_D] = weight * scale
        elif "norm" in name or name.endswith(tuple(f"{part}bias" for part in _WRITES)):
            parameter[old_D] = weight
        elif name.endswith("bias"):
            parameter[rows] = weight
        elif any(part in name for part in _READS):
            parameter[rows] = 0
            parameter[rows, old_D] = weight
        else:
            columns = slice(0, weight.shape[1])
            new_rows = parameter[is_new_D]
            new_rows[:, columns] *= _rms(weight).mean() / _rms(new_rows[:, columns])
            parameter[is_new_D] = new_rows
            parameter[old_D] = 0
            parameter[old_D, columns] = weight


def _rms(rows: Tensor) -> Tensor:
    """The root mean square of each row, as a column."""
    return rows.square().mean(dim=-1, keepdim=True).sqrt()
