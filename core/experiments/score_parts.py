"""Attention scores before the mask, and a first layer's scores split into content and position.

Axes: L layer, H head, Q query, K key, N token, D d_model, E size of one head.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from core.analysis.inside_head import heads_of
from core.experiments.experiment import of_pass, of_side
from core.experiments.site import double
from core.experiments.tracing import traces
from core.frozen import Bools, Doubles, Frozen
from core.kinds import KINDS, Kind
from core.model.interface import Seq2Seq
from core.record.teacher_forced import site_scores, teacher_forced_pass

SOURCES = ("content", "position", "bias")


@dataclass(frozen=True, eq=False)
class ScoreParts(Frozen):
    """A first layer's scores q·k/√d_k, split by the sources of query and key.

    `parts` [3, 3, H, Q, K] is in the order of SOURCES, query first, then key. With `distance`
    [H, Q, K], the bias by distance of networks that have one, else 0, the parts sum to `scores`
    [H, Q, K], which are computed from the layer's input. `weights` are the attention
    weights of the pass; in `mask` [Q, K], True = may attend. With `norm_first`, a LayerNorm
    precedes the projections.
    """

    parts: Doubles
    distance: Doubles
    scores: Doubles
    weights: NDArray[np.float32]
    mask: Bools
    norm_first: bool

    def part(self, query: str, key: str) -> Doubles:
        """Return one of the nine parts [H, Q, K], such as ("content", "position")."""
        return self.parts[SOURCES.index(query), SOURCES.index(key)]

    @property
    def with_bias(self) -> Doubles:
        """The sum of the five parts that involve a bias: [H, Q, K]."""
        return self.parts[2].sum(0) + self.parts[:2, 2].sum(0)

    @property
    def largest_error(self) -> float:
        """The largest deviation of the sum of the parts from the score."""
        return float(np.abs(self.parts.sum((0, 1)) + self.distance - self.scores).max())


@of_pass
def scores(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> dict[Kind, Doubles]:
    """Return the scores q·k/√d_k of every head before masking, by kind: [L, H, Q, K].

    They contain the bias by distance, if the network has one.

    Call it with (translator, record), or with (model, source, target) and ids that end with <eos>.
    """
    evidence, scaled = (
        teacher_forced_pass(model, source, target).evidence,
        model.config.scale_scores,
    )
    return {
        kind: np.stack([site_scores(site, scaled) for site in evidence.sites_of(kind)])
        for kind in KINDS
    }


@of_pass
@torch.inference_mode()
def score_parts(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    kind: Literal["encoder", "decoder"],
) -> ScoreParts:
    """Split the self-attention scores of the encoder's or decoder's first layer exactly.

    The layer's input is x = c + p, with c = embedding·√d_model and p = PE. If a norm comes first
    (after the embeddings, before the projections, or both), its σ is held at that of its input
    (core.analysis.residual_stream), which makes it linear, and its β counts towards the bias parts.
    Call it with (translator, record, kind), or with (model, source, target, kind) and ids that end
    with <eos>.
    """
    (trace,) = traces(model, [source], [target])
    site = trace.site(kind, 0)
    token_ND, position_ND, *shifts = trace.queries(kind, 0).parts
    shift_ND = np.sum(shifts, axis=0) if shifts else np.zeros_like(token_ND)
    parts_3ND = np.stack((token_ND, position_ND, shift_ND))
    with_bias_311 = np.array([False, False, True])[:, None, None]
    q, k = (
        (
            heads_of(parts_3ND @ weight.T + with_bias_311 * bias, site.num_heads).swapaxes(0, 1),
            heads_of(input_ND @ weight.T + bias, site.num_heads),
        )
        for weight, bias, input_ND in (
            (site.to_query, site.query_bias, site.inputs_QD),
            (site.to_key, site.key_bias, site.memory_KD),
        )
    )
    products_HQK = q[1] @ k[1].swapaxes(-1, -2) / site.divisor
    distance_HQK = np.zeros_like(products_HQK) if site.bias_HQK is None else site.bias_HQK
    return ScoreParts(
        parts=q[0][:, None] @ k[0].swapaxes(-1, -2) / site.divisor,
        distance=distance_HQK,
        scores=products_HQK + distance_HQK,
        weights=site.maps_HQK,
        mask=site.mask_QK,
        norm_first=model.config.norm_first,
    )


@of_side
@torch.inference_mode()
def embedded(
    model: Seq2Seq, ids: Sequence[int], side: Literal["source", "target"]
) -> tuple[Doubles, Doubles]:
    """Return the two summands of the first layer's input: embedding·√d_model and PE, both [N, D].

    Call it with (translator, record, side), or with (model, ids, side) and the ids fed to that
    side.
    """
    embeddings = model.embeddings
    positions = getattr(embeddings, f"{side}_positions")
    ids_1N = torch.tensor([list(ids)], device=next(model.parameters()).device)
    table = embeddings.source_table.weight if side == "source" else embeddings.target_weight
    return double(embeddings.look_up(ids_1N, table)[0]), double(positions(len(ids)))
