"""What can be shown instead of a head's weights: value-weighted norms, and rollout over layers.

The scores before the softmax are in core.analysis.score_parts.
Axes: L layer, H head, Q query, K key, D d_model, E size of one head.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from core.capture import Look, capture
from core.model.interface import KINDS, Kind, Seq2Seq
from core.record import Floats, TranslationRecord
from core.text.tokenizer import BOS


def transformed_values(look: Look) -> Tensor:
    """v_k W_h^O: what each key would add to the output with a weight of 1, [H, K, D].

    Their sum over heads and keys, times the weights, plus the output's bias is what the site
    hands on.
    """
    *_, value, output = look.site.projections()
    heads = look.weights.shape[1]
    v_KHE = nn.functional.linear(look.memory[0], *value).unflatten(-1, (heads, -1))
    return torch.einsum("khe,dhe->hkd", v_KHE, output.weight.unflatten(1, (heads, -1)))


def head_outputs(look: Look) -> Tensor:
    """Each head's part of what a site hands on, without the bias: [B, H, Q, D]."""
    *_, value, output = look.site.projections()
    heads = look.weights.shape[1]
    v_BHKE = nn.functional.linear(look.memory, *value).unflatten(-1, (heads, -1)).transpose(1, 2)
    z_BHQE = look.weights @ v_BHKE
    return torch.einsum("bhqe,dhe->bhqd", z_BHQE, output.weight.unflatten(1, (heads, -1)))


@torch.inference_mode()
def value_norms(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> dict[Kind, Floats]:
    """‖α_qk · v_k W_h^O‖ of every cell, by kind: [L, H, Q, K] (Kobayashi et al. 2020, §2.2).

    A large weight on a short vector adds little: what rests on <eos> shows here.
    `source` and `target` are ids with their <eos>. Hooks are process-wide: the caller holds the
    model's lock.
    """
    device = next(model.parameters()).device  # type: ignore[attr-defined]
    source_1S = torch.tensor([list(source)], device=device)
    target_in_1T = torch.tensor([[BOS, *target[:-1]]], device=device)
    with capture(model) as captured:
        model(source_1S, target_in_1T)
    found: dict[Kind, list[Tensor]] = {kind: [] for kind in KINDS}
    for look in sorted(captured.looks(), key=lambda look: look.site.layer):
        length_HK = transformed_values(look).norm(dim=-1)
        found[look.site.kind].append(look.weights[0] * length_HK[:, None])
    return {kind: torch.stack(norms).float().cpu().numpy() for kind, norms in found.items()}


def rollout(record: TranslationRecord) -> dict[str, Floats]:
    """How much of each input reaches a layer's output, by kind: [L, 1, Q, K].

    Encoder and decoder self-attention: the product of ½(Ā + I) over the layers so far, Ā being the
    mean of a layer's heads and I the residual path (Abnar & Zuidema 2020, §3). A decoder column is
    the piece that was fed in. Between the two sides of cross-attention there is no residual path,
    so no product over its layers is defined: here one layer's mean weights are carried through the
    encoder's whole rollout, back from its output to the pieces read. Every row sums to 1.
    """
    found: dict[str, Floats] = {}
    for kind in ("encoder", "decoder"):
        mixed = 0.5 * record.maps(kind).mean(1, dtype=np.float64)
        mixed += 0.5 * np.eye(mixed.shape[-1])
        reached = [mixed[0]]
        for layer in mixed[1:]:
            reached.append(layer @ reached[-1])
        found[kind] = np.stack(reached)[:, None].astype(np.float32)
    read = record.cross.mean(1, dtype=np.float64) @ found["encoder"][-1, 0]
    found["cross"] = read[:, None].astype(np.float32)
    return found
