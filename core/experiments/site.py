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
from core.experiments.experiment import of_pass
from core.kinds import Kind
from core.model.interface import Projection, Seq2Seq
from core.record.capture import AttentionCall, capture
from core.record.checks import masks_of
from core.record.edits import Edits
from core.text.tokenizer import BOS

Doubles = NDArray[np.float64]


@of_pass
@torch.inference_mode()
def site(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    kind: Kind,
    layer: int,
    edits: Edits = Edits(),
) -> Site:
    """Run the pass that a record shows, over both sides' ids, and keep one attention of it.

    Asked of (translator, record, kind, layer); or of a network, ids, kind and layer, while the
    caller holds its lock, for hooks are process-wide. `edits` are those that the network runs
    under already. Raises KeyError for a layer that the model does not have, and ValueError for one
    whose weights are edited: they are not the softmax that is shown step by step.
    """
    if edits.of_site(kind, layer).changes_weights:
        raise ValueError(
            f"weights of {kind} layer {layer} are edited: they are not the softmax of its scores, "
            "so undo these edits to call inside"
        )
    device = next(model.parameters()).device
    target_in = (BOS, *target[:-1])
    with capture(model) as captured:
        model(torch.tensor([source], device=device), torch.tensor([target_in], device=device))
    calls = {(call.site.kind, call.site.layer): call for call in captured.calls()}
    call = calls[kind, layer]
    mask_QK = np.array(masks_of(tuple(source), target_in, edits)[kind])
    return sites_of(model, call, [mask_QK])[0]


def sites_of(model: Seq2Seq, call: AttentionCall, masks: Sequence[NDArray[np.bool_]]) -> list[Site]:
    """One attention of a batch's rows, each as long as its mask [Q, K], without the padding.

    The rows share the weight matrices.
    """
    query, key, value, output = call.site.projections()
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
                kind=call.site.kind,
                layer=call.site.layer,
                num_heads=call.site.num_heads,
                inputs_QD=double(call.query[row, :Q]),
                memory_KD=double(call.memory[row, :K]),
                mask_QK=mask_QK,
                mask_score=-math.inf if score is None else score,
                maps_HQK=call.weights[row, :, :Q, :K].cpu().numpy().astype(np.float32),
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
