"""One attention of one real pass: what it was fed, its weight matrices, and the map it made.

Axes: Q query, K key, D d_model, H head.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.analysis.inside_head import Site
from core.experiments.asking import about_pass
from core.model.interface import Kind, Projection, Seq2Seq
from core.record.capture import Look, capture
from core.record.checks import masks_of
from core.text.tokenizer import BOS

Doubles = NDArray[np.float64]


@about_pass
@torch.inference_mode()
def site(
    model: Seq2Seq, source: Sequence[int], target: Sequence[int], kind: Kind, layer: int
) -> Site:
    """Run the pass that a record shows, over both sides' ids, and keep one attention of it.

    Asked of (translator, record, kind, layer); or of a network, ids, kind and layer, while the
    caller holds its lock, for hooks are process-wide. Raises KeyError for a layer that the
    model does not have.
    """
    device = next(model.parameters()).device
    target_in = (BOS, *target[:-1])
    with capture(model) as captured:
        model(torch.tensor([source], device=device), torch.tensor([target_in], device=device))
    looks = {(look.site.kind, look.site.layer): look for look in captured.looks()}
    look = looks[kind, layer]
    mask_QK = np.array(masks_of(tuple(source), target_in)[kind])
    return sites_of(model, look, [mask_QK])[0]


def sites_of(model: Seq2Seq, look: Look, masks: Sequence[NDArray[np.bool_]]) -> list[Site]:
    """One attention of a batch's rows, each as long as its mask [Q, K], without the padding.

    The rows share the weight matrices.
    """
    query, key, value, output = look.site.projections()
    score = model.config.mask_score
    matrices = {
        "to_query": double(query.weight),
        "to_key": double(key.weight),
        "to_value": double(value.weight),
        "to_output": double(output.weight),
        "query_bias": _bias(query),
        "key_bias": _bias(key),
        "value_bias": _bias(value),
        "output_bias": _bias(output),
    }
    found = []
    for row, mask_QK in enumerate(masks):
        Q, K = mask_QK.shape
        found.append(
            Site(
                kind=look.site.kind,
                layer=look.site.layer,
                num_heads=look.site.num_heads,
                inputs_QD=double(look.query[row, :Q]),
                memory_KD=double(look.memory[row, :K]),
                mask_QK=mask_QK,
                mask_score=-math.inf if score is None else score,
                maps_HQK=look.weights[row, :, :Q, :K].cpu().numpy().astype(np.float32),
                **matrices,
            )
        )
    return found


def _bias(projection: Projection) -> Doubles:
    """The bias, or the zeros that having none comes to."""
    bias = projection.bias
    return np.zeros(len(projection.weight)) if bias is None else double(bias)


def double(tensor: Tensor) -> Doubles:
    """The numbers of a tensor in float64."""
    return tensor.detach().cpu().numpy().astype(np.float64)
