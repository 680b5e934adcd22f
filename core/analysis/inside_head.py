"""Trace one head for one query: every number between its inputs and its share of the output.

Axes: Q query, K key, D d_model, H head, E = d_k = d_v (size of one head).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.frozen import Bools, Doubles, Frozen


@dataclass(frozen=True, eq=False)
class Site(Frozen):
    """The inputs, weights, mask and maps of one attention sub-layer; mask True = may attend.

    Matrices are [out, in] as in nn.Linear: queries are `inputs @ to_query.T + query_bias`. A score
    is q·k / `divisor`, usually √d_k, plus `bias_HQK` if the network has a bias by distance.
    """

    kind: str
    layer: int
    num_heads: int
    inputs_QD: Doubles
    memory_KD: Doubles
    to_query: Doubles
    to_key: Doubles
    to_value: Doubles
    to_output: Doubles
    query_bias: Doubles
    key_bias: Doubles
    value_bias: Doubles
    output_bias: Doubles
    mask_QK: Bools
    mask_score: float
    maps_HQK: NDArray[np.float32]
    divisor: float
    bias_HQK: Doubles | None = None


@dataclass(frozen=True, eq=False)
class InsideHead(Frozen):
    """The computation of one head for one query, step by step, with one row per key.

    `products_KE[k]` holds the terms of q·k, `scores_K` their sums, and `scaled_K` the sums divided
    by √d_k (`divisor`). `distance_K` is the bias by distance, None if the network has none.
    `masked_K` is the input of the softmax, `exps_K` is e^(score − largest score), and
    `weights_K` is `exps_K` divided by its sum. `z_E` is the sum of `weighted_KE`, the weighted
    values. `parts_HD` holds each head's z times its own columns of the output projection.
    `output_D`, the output of the attention, is the sum of all parts and `bias_D`.
    """

    head: int
    query: int
    x_D: Doubles
    memory_KD: Doubles
    q_E: Doubles
    k_KE: Doubles
    v_KE: Doubles
    products_KE: Doubles
    scores_K: Doubles
    scaled_K: Doubles
    divisor: float
    distance_K: Doubles | None
    open_K: Bools
    masked_K: Doubles
    exps_K: Doubles
    weights_K: Doubles
    weighted_KE: Doubles
    z_E: Doubles
    parts_HD: Doubles
    bias_D: Doubles
    output_D: Doubles


def inside_head(site: Site, head: int, query: int) -> InsideHead:
    """Compute softmax(qKᵀ/√d_k + M)V Wᴼ for one head and query (paper §3.2), in float64.

    A bias by distance is added to the scores if the network has one.
    `core.site(translator, record, kind, layer)` gives the site; see `InsideHead` for the axes.
    """
    q_HE = heads_of(site.inputs_QD[query] @ site.to_query.T + site.query_bias, site.num_heads)
    k_HKE = heads_of(site.memory_KD @ site.to_key.T + site.key_bias, site.num_heads)
    v_HKE = heads_of(site.memory_KD @ site.to_value.T + site.value_bias, site.num_heads)
    products_HKE = q_HE[:, None] * k_HKE
    scores_HK = products_HKE.sum(-1)
    scaled_HK = scores_HK / site.divisor
    bias_HK = None if site.bias_HQK is None else site.bias_HQK[:, query]
    open_K = site.mask_QK[query]
    complete_HK = scaled_HK if bias_HK is None else scaled_HK + bias_HK
    masked_HK = np.where(open_K, complete_HK, site.mask_score)
    exps_HK = np.exp(masked_HK - masked_HK.max(-1, keepdims=True))
    weights_HK = exps_HK / exps_HK.sum(-1, keepdims=True)
    z_HE = np.einsum("hk,hke->he", weights_HK, v_HKE)
    columns_HDE = heads_of(site.to_output, site.num_heads)
    parts_HD = np.einsum("he,hde->hd", z_HE, columns_HDE)
    return InsideHead(
        head=head,
        query=query,
        x_D=site.inputs_QD[query],
        memory_KD=site.memory_KD,
        q_E=q_HE[head],
        k_KE=k_HKE[head],
        v_KE=v_HKE[head],
        products_KE=products_HKE[head],
        scores_K=scores_HK[head],
        scaled_K=scaled_HK[head],
        divisor=site.divisor,
        distance_K=None if bias_HK is None else bias_HK[head],
        open_K=open_K,
        masked_K=masked_HK[head],
        exps_K=exps_HK[head],
        weights_K=weights_HK[head],
        weighted_KE=weights_HK[head, :, None] * v_HKE[head],
        z_E=z_HE[head],
        parts_HD=parts_HD,
        bias_D=site.output_bias,
        output_D=parts_HD.sum(0) + site.output_bias,
    )


def heads_of(x: ArrayLike, num_heads: int) -> Doubles:
    """Split the last axis into heads: [..., D] → [H, ..., E]."""
    x = np.asarray(x)
    return np.moveaxis(x.reshape(*x.shape[:-1], num_heads, -1), -2, 0)


def largest(values: ArrayLike, count: int) -> list[int]:
    """Return the indices of the `count` numbers with the largest magnitude, largest first."""
    return np.argsort(-np.abs(np.asarray(values)), kind="stable")[:count].tolist()


@dataclass(frozen=True)
class CodeLine:
    """A line of the code that ran, or of the referee, with its module and function."""

    module: str
    function: str
    line: str

    @property
    def file(self) -> str:
        return f"{self.module.replace('.', '/')}.py"


_ours = partial(CodeLine, "core.model.transformer")
_attend = partial(_ours, "MultiHeadAttention.attend")
_dot = partial(_ours, "scaled_dot_product_attention")
_bias = _dot("scores_BHTS = scores_BHTS + bias_HTS")
_referee = partial(CodeLine, "core.micro", "MultiHeadAttention.attend")
_theirs = partial(CodeLine, "torch.nn.functional", "multi_head_attention_forward")
_scores = "[dot(query[own], key[own]) / math.sqrt(d_k) for key in self.keys]"
_read_own = "layer.own.read(layer.norms[0](x))  # no later token has been read"
_powers = "return [power / sum(powers) for power in powers]"
_keys_values = "return self.split_heads(self.key(x_BSD)), self.split_heads(self.value(x_BSD))"
_projections = "q, k, v = _in_projection_packed(query, key, value, in_proj_weight, in_proj_bias)"
_additive_mask = 'torch.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))'

PLACES: dict[str, dict[str, tuple[CodeLine, ...]]] = {
    "scratch": {
        "project": (
            _attend("q_BHTE = self.split_heads(self.query(x_BTD))"),
            _ours("MultiHeadAttention.keys_values", _keys_values),
        ),
        "product": (_dot("scores_BHTS = q_BHTE @ k_BHSE.transpose(-2, -1)"),),
        "scale": (_dot("q_BHTE = q_BHTE / math.sqrt(q_BHTE.shape[-1])"),),
        "mask": (_dot("scores_BHTS = scores_BHTS.masked_fill(~mask, forbidden)"),),
        "softmax": (_dot("weights_BHTS = scores_BHTS.softmax(dim=-1)"),),
        "values": (_dot("F.dropout(weights_BHTS, dropout, training=dropout > 0) @ v_BHSE"),),
        "output": (_attend("output_BTD = self.output(heads_BHTE.transpose(1, 2).flatten(2))"),),
    },
    "baseline": {
        "project": (
            _theirs(_projections),
            _theirs("q = q.view(tgt_len, bsz * num_heads, head_dim).transpose(0, 1)"),
        ),
        "product": (_theirs("torch.baddbmm(attn_mask, q_scaled, k.transpose(-2, -1))"),),
        "scale": (_theirs("q_scaled = q * math.sqrt(1.0 / float(E))"),),
        "mask": (CodeLine("torch.nn.functional", "_canonical_mask", _additive_mask),),
        "softmax": (_theirs("attn_output_weights = softmax(attn_output_weights, dim=-1)"),),
        "values": (_theirs("attn_output = torch.bmm(attn_output_weights, v)"),),
        "output": (_theirs("attn_output = linear(attn_output, out_proj_weight, out_proj_bias)"),),
    },
    "referee": {
        "project": (
            _referee("query, heads = self.query(x), []"),
            CodeLine("core.micro", "MultiHeadAttention.read", "self.keys.append(self.key(x))"),
        ),
        "product": (CodeLine("core.micro", "dot", "return sum(map(mul, x, y))"),),
        "scale": (_referee(_scores),),
        "mask": (CodeLine("core.micro", "Transformer.decode", _read_own),),
        "softmax": (CodeLine("core.micro", "softmax", _powers),),
        "values": (_referee("heads += [dot(rows[-1], column) for column in columns]"),),
        "output": (_referee("return self.output(heads)"),),
    },
}
"""The lines of code that compute each stage, by architecture, and in the referee, core.micro.

Torch's source has no markers for these lines, so they are listed here. A test looks up each line in
the installed source, and fails if another torch version no longer contains it.
"""


def code_of(inside: InsideHead, architecture: str, stage: str) -> tuple[CodeLine, ...]:
    """Return the lines that compute a stage of a head; a score is scaled, gets a bias, or both."""
    places = PLACES[architecture]
    if stage != "scale":
        return places[stage]
    scaled = places["scale"] if inside.divisor != 1 else ()
    return scaled if inside.distance_K is None else (*scaled, _bias)
