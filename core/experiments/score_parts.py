"""Scores before the mask, and the split of a first layer's scores into content and position.

Axes: L layer, H head, Q query, K key, N token, D d_model, E size of one head.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from core.experiments.asking import about_pass, about_side
from core.model.interface import KINDS, Kind, Seq2Seq, Side
from core.record.checks import masks_of, scores_of
from core.record.edits import Edits
from core.record.teacher_forced import replay

Floats = NDArray[np.float64]
SOURCES = ("content", "position", "bias")


@dataclass(frozen=True, eq=False)
class ScoreParts:
    """A first layer's scores q·k/√d_k, taken apart by where query and key come from.

    `parts` [3, 3, H, Q, K] are in the order of SOURCES, first of the query, then of the key; their
    sum is `scores` [H, Q, K], which are worked out from what the layer was fed. `weights` are the
    pass's own, `mask` [Q, K] says True = may attend. `norm_first` says that a LayerNorm stands
    between the sum and the projections.
    """

    parts: Floats
    scores: Floats
    weights: NDArray[np.float32]
    mask: NDArray[np.bool_]
    norm_first: bool

    def part(self, query: str, key: str) -> Floats:
        """One of the nine parts, [H, Q, K], such as ("content", "position")."""
        return self.parts[SOURCES.index(query), SOURCES.index(key)]

    @property
    def with_bias(self) -> Floats:
        """The five parts in which a bias takes part, added up: [H, Q, K]."""
        return self.parts[2].sum(0) + self.parts[:2, 2].sum(0)

    @property
    def largest_error(self) -> float:
        """How far the sum of the parts is from the score, at most."""
        return float(np.abs(self.parts.sum((0, 1)) - self.scores).max())


@about_pass
def scores(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> dict[Kind, Floats]:
    """The scores q·k/√d_k of every head before any mask, by kind: [L, H, Q, K].

    Also of the cells that the mask then closes. Asked of (translator, record); or of a network and
    ids with their <eos>.
    """
    evidence = replay(model, source, target).evidence
    return {kind: scores_of([s for s in evidence.sites if s.kind == kind]) for kind in KINDS}


@about_pass
@torch.inference_mode()
def score_parts(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    kind: Literal["encoder", "decoder"],
    edits: Edits = Edits(),
) -> ScoreParts:
    """Split the self-attention scores of the first layer of the encoder or the decoder exactly.

    The layer sees x = c + p, with c = embedding·√d_model and p = PE. Where a LayerNorm comes first,
    LN(c + p) = γ(c − mean c)/σ + γ(p − mean p)/σ + β, with the σ of the whole sum: a part for the
    content, one for the position, and β, which joins the biases of the projections.
    Asked of (translator, record, kind); or of a network, ids with their <eos>, kind, and the edits
    that the network runs under already: the mask is theirs.
    """
    seen = replay(model, source, target)
    site = next(s for s in seen.evidence.sites if (s.kind, s.layer) == (kind, 0))
    ids = seen.evidence.source_ids if kind == "encoder" else seen.evidence.target_ids
    content, position = embedded(model, ids, "source" if kind == "encoder" else "target")
    parts = _normed(model, kind, content, position)
    q, k = (
        [_project(x, to, site.num_heads, bias) for x, bias in zip(parts, _BIASES, strict=True)]
        for to in (site.to_query, site.to_key)
    )
    size = math.sqrt(q[0].shape[-1])
    return ScoreParts(
        parts=np.stack([[a @ b.swapaxes(1, 2) / size for b in k] for a in q]),
        scores=scores_of([site])[0],
        weights=getattr(seen, kind)[0].cpu().numpy(),
        mask=np.array(masks_of(seen.evidence.source_ids, seen.evidence.target_ids, edits)[kind]),
        norm_first=model.config.norm_first,
    )


_BIASES = (False, False, True)  # a projection's own bias goes to the third part


@about_side
@torch.inference_mode()
def embedded(
    model: Seq2Seq, ids: Sequence[int], side: Literal["source", "target"]
) -> tuple[Floats, Floats]:
    """What is added up before the first layer: embedding·√d_model [N, D], and PE [N, D].

    Asked of (translator, record, side); or of a network, the ids that a side is fed, and side.
    """
    table = getattr(model.embeddings, f"{side}_positions")
    ids_1N = torch.tensor([list(ids)], device=next(model.parameters()).device)
    words = model.embeddings
    rows = words.source_table.weight if side == "source" else words.target_weight
    return _double(words.look_up(ids_1N, rows)[0]), _double(table(len(ids)))


def _normed(model: Seq2Seq, kind: Side, content: Floats, position: Floats) -> tuple[Floats, ...]:
    """What of the layer's input is content, position, and neither; each [N, D]."""
    if not model.config.norm_first:
        return content, position, np.zeros_like(content)
    norm = model.stack(kind).layers[0].get_submodule("norm1")
    assert isinstance(norm, nn.LayerNorm)
    gain, shift = _double(norm.weight), _double(norm.bias)
    spread = np.sqrt((content + position).var(-1, keepdims=True) + norm.eps)
    centred = [x - x.mean(-1, keepdims=True) for x in (content, position)]
    return *(gain * x / spread for x in centred), np.broadcast_to(shift, content.shape)


def _project(
    x_ND: Floats, to: tuple[Tensor, Tensor | None], num_heads: int, with_bias: bool
) -> Floats:
    """One projection of [N, D], cut into heads: [H, N, E]."""
    weight, bias = to
    y_ND = x_ND @ _double(weight).T
    if with_bias and bias is not None:
        y_ND = y_ND + _double(bias)
    return y_ND.reshape(len(x_ND), num_heads, -1).swapaxes(0, 1)


def _double(tensor: Tensor) -> Floats:
    return tensor.detach().cpu().numpy().astype(np.float64)
