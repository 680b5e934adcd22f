"""Read one attention site in a forward pass: its inputs, weight matrices, mask and maps.

Axes: Q query, K key, D d_model, H head.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from core.analysis.inside_head import Site
from core.experiments.experiment import model_inputs, of_pass
from core.frozen import Bools, Doubles
from core.kinds import Kind
from core.model.interface import Projection, Seq2Seq
from core.record.capture import AttentionCall, capture
from core.record.checks import masks_of
from core.record.edits import Edits
from core.text.tokenizer import BOS


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
    """Rerun a record's pass and return one of its attention sites.

    Call it with (translator, record, kind, layer), or with (model, source, target, kind, layer).
    In the second form, the caller must hold the model's lock, because hooks are process-wide.
    `edits` must be the ones already applied to the model, such as `record.edits`. Raises KeyError
    for a layer that the model does not have. Raises ValueError for a layer with edited weights,
    because edited weights are not the softmax of the scores.
    """
    if edits.of_site(kind, layer).changes_weights:
        raise ValueError(
            f"weights of {kind} layer {layer} are edited: they are not the softmax of its scores, "
            "so undo these edits to look inside"
        )
    with capture(model) as captured:
        model(*model_inputs(model, source, target))
    calls = {(call.site.kind, call.site.layer): call for call in captured.calls()}
    call = calls[kind, layer]
    mask_QK = np.array(masks_of(tuple(source), (BOS, *target[:-1]), edits)[kind])
    return sites_of(model, call, [mask_QK])[0]


def sites_of(model: Seq2Seq, call: AttentionCall, masks: Sequence[Bools]) -> list[Site]:
    """Split a batched attention call into one `Site` per row, cropped to its mask [Q, K].

    The sites share the weight matrices.
    """
    projections, score = call.site.projections()._asdict(), model.config.mask_score
    matrices = {f"to_{name}": double(one.weight) for name, one in projections.items()}
    matrices |= {f"{name}_bias": _bias(one) for name, one in projections.items()}
    sites = []
    for row, mask_QK in enumerate(masks):
        Q, K = mask_QK.shape
        sites.append(
            Site(
                kind=call.site.kind,
                layer=call.site.layer,
                num_heads=call.site.num_heads,
                inputs_QD=double(call.query[row, :Q]),
                memory_KD=double(call.memory[row, :K]),
                mask_QK=mask_QK,
                mask_score=-math.inf if score is None else score,
                divisor=call.site.divisor,
                bias_HQK=None if (bias := call.site.bias(Q, K)) is None else double(bias),
                maps_HQK=call.weights[row, :, :Q, :K].cpu().numpy().astype(np.float32),
                **matrices,
            )
        )
    return sites


def _bias(projection: Projection) -> Doubles:
    """Return the bias, or zeros if there is none."""
    bias = projection.bias
    return np.zeros(len(projection.weight)) if bias is None else double(bias)


def double(tensor: Tensor) -> Doubles:
    """Convert a tensor to a float64 NumPy array."""
    return tensor.detach().cpu().numpy().astype(np.float64)
