"""Value-weighted norms: how much each key adds to an attention's output (Kobayashi et al. 2020).

Axes: L layer, H head, Q query, K key, D d_model, E size of one head.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from core.experiments.experiment import model_inputs, of_pass
from core.frozen import Floats
from core.kinds import KINDS, Kind
from core.model.interface import Seq2Seq
from core.record.capture import AttentionCall, capture


def transformed_values(call: AttentionCall) -> Tensor:
    """Return v_k W_h^O, each key's contribution to the output at a weight of 1: [H, K, D].

    The site's output is the weighted sum of these contributions over heads and keys, plus the
    output bias. Only the batch's first sentence is read.
    """
    *_, value, output = call.site.projections()
    heads = call.weights.shape[1]
    v_KHE = nn.functional.linear(call.memory[0], *value).unflatten(-1, (heads, -1))
    return torch.einsum("khe,dhe->hkd", v_KHE, output.weight.unflatten(1, (heads, -1)))


def head_outputs(call: AttentionCall) -> Tensor:
    """Return each head's share of a site's output, without the bias: [B, H, Q, D]."""
    *_, value, output = call.site.projections()
    heads = call.weights.shape[1]
    v_BHKE = nn.functional.linear(call.memory, *value).unflatten(-1, (heads, -1)).transpose(1, 2)
    z_BHQE = call.weights @ v_BHKE
    return torch.einsum("bhqe,dhe->bhqd", z_BHQE, output.weight.unflatten(1, (heads, -1)))


def head_output(call: AttentionCall, head: int) -> Tensor:
    """Return one head's share of a site's output, without the bias: [B, Q, D]."""
    *_, value, output = call.site.projections()
    size = len(value.weight) // call.site.num_heads
    rows = slice(head * size, (head + 1) * size)
    bias = None if value.bias is None else value.bias[rows]
    v_BKE = nn.functional.linear(call.memory, value.weight[rows], bias)
    return call.weights[:, head] @ v_BKE @ output.weight[:, rows].T


def norms_of(call: AttentionCall) -> Tensor:
    """Return ‖α_qk · v_k W_h^O‖ of every cell of the batch's first sentence: [H, Q, K]."""
    length_HK = transformed_values(call).norm(dim=-1)
    return call.weights[0] * length_HK[:, None]


@of_pass
@torch.inference_mode()
def value_norms(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> dict[Kind, Floats]:
    """Return ‖α_qk · v_k W_h^O‖ of every cell, by kind: [L, H, Q, K] (Kobayashi et al. 2020, §2.2).

    A large weight on a short vector, often on <eos>, adds little. Call it with
    (translator, record), or with (model, source, target). In the second form, the ids end with
    <eos>, and the caller must hold the model's lock, because hooks are process-wide.
    """
    with capture(model) as captured:
        model(*model_inputs(model, source, target))
    norms = {kind: torch.stack([*map(norms_of, captured.of_kind(kind))]) for kind in KINDS}
    return {kind: norms_LHQK.float().cpu().numpy() for kind, norms_LHQK in norms.items()}
