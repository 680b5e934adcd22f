"""Check a record from outside the model: its maps worked out a second time, in numpy and float64.

Nothing here runs the model or its attention. The evidence is what the pass itself was seen to be
fed; masks are drawn again from the ids, and the paper's formula is written out again below.
Axes: L layer, H head, Q query, K key, D d_model, E size of one head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from core.capture import Captured, Look
from core.edits import Edits
from core.model.interface import KINDS, Kind
from core.record import RecordCheck, TranslationRecord
from core.text.tokenizer import PAD

WEIGHT_LIMIT = 1e-5
"""Float32 against float64 differs by about 1e-6 at most; any mix-up by a thousand times more."""
LOGIT_LIMIT = 1e-4
"""Unwatched attention runs in a fused kernel that adds in another order: the last digits differ."""

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class SiteEvidence:
    """What one attention site was fed in the pass, and the weights of its query and key maps."""

    kind: Kind
    layer: int
    num_heads: int
    query_QD: Tensor
    memory_KD: Tensor
    to_query: tuple[Tensor, Tensor | None]
    to_key: tuple[Tensor, Tensor | None]


@dataclass(frozen=True)
class Evidence:
    """All that is needed to check one pass: sites in the order in which they ran, ids, logits."""

    sites: tuple[SiteEvidence, ...]
    source_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    logits_TV: Tensor
    unwatched_TV: Tensor

    @classmethod
    def of(cls, captured: Captured, logits_TV: Tensor, unwatched_TV: Tensor) -> Evidence:
        """The evidence of a pass over one sentence; the caller still holds the model's lock.

        Raises RuntimeError if the pass did not embed one source and then one target.
        """
        if len(captured.embedded) != 2:
            raise RuntimeError(f"the pass embedded {len(captured.embedded)} sequences, not 2")
        source, target = (tuple(ids[0].tolist()) for ids in captured.embedded)
        sites = tuple(_site_evidence(look) for look in captured.looks())
        return cls(sites, source, target, logits_TV, unwatched_TV)


def _site_evidence(look: Look) -> SiteEvidence:
    site = look.site
    to_query, to_key, *_ = site.projections()
    heads = int(site.module.num_heads)
    return SiteEvidence(
        site.kind, site.layer, heads, look.query[0], look.memory[0], to_query, to_key
    )


def check(
    record: TranslationRecord, evidence: Evidence, edits: Edits = Edits()
) -> tuple[RecordCheck, ...]:
    """The five checks of a record, made under these edits, in the order in which they are shown."""
    masks = masks_of(evidence.source_ids, evidence.target_ids, edits)
    return (
        _recomputed(record, evidence, masks),
        _rows(record, masks),
        _masked(record, masks, edits),
        _labels(record, evidence),
        _untouched(record, evidence),
    )


def masks_of(
    source_ids: tuple[int, ...], target_ids: tuple[int, ...], edits: Edits = Edits()
) -> dict[Kind, Bools]:
    """Which cells [Q, K] are open: no padding, and in the decoder nothing that is yet to come.

    Unless an edit took one of the two masks away, or closed a place of the source.
    """
    source, target = np.array(source_ids) != PAD, np.array(target_ids) != PAD
    S, T = len(source), len(target)
    past = np.arange(T)[None, :] <= np.arange(T)[:, None]
    if not edits.padding_mask:
        source, target = np.ones(S, bool), np.ones(T, bool)
    if not edits.causal_mask:
        past = np.ones((T, T), bool)
    source = source & ~np.isin(np.arange(S), edits.hidden_source)
    return {
        "encoder": np.broadcast_to(source, (S, S)),
        "decoder": past & target,
        "cross": np.broadcast_to(source, (T, S)),
    }


def recompute(sites: list[SiteEvidence], mask: Bools) -> Doubles:
    """softmax(QKᵀ/√d_k + mask) of all layers of one kind (paper eq. 1): weights [L, H, Q, K]."""

    def project(inputs: list[Tensor], maps: list[tuple[Tensor, Tensor | None]]) -> Doubles:
        x_LND = _double(inputs) @ _double([weight for weight, _ in maps]).swapaxes(1, 2)
        if maps[0][1] is not None:
            x_LND += _double([bias for _, bias in maps])[:, None]
        L, N, _ = x_LND.shape
        return x_LND.reshape(L, N, sites[0].num_heads, -1).swapaxes(1, 2)

    q_LHQE = project([s.query_QD for s in sites], [s.to_query for s in sites])
    k_LHKE = project([s.memory_KD for s in sites], [s.to_key for s in sites])
    scores = q_LHQE @ k_LHKE.swapaxes(2, 3) / math.sqrt(q_LHQE.shape[-1])
    scores = np.where(mask, scores, -np.inf)
    peak = scores.max(-1, keepdims=True)
    shares = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    total = shares.sum(-1, keepdims=True)
    return shares / np.where(total > 0, total, 1)  # a row that may look nowhere stays 0


def _double(tensors: list[Tensor]) -> Doubles:
    return np.stack([t.detach().cpu().numpy() for t in tensors]).astype(np.float64)


def _largest(differences: ArrayLike) -> float:
    """The largest of some differences, 0 of none; NaN stays NaN, which passes no limit."""
    return float(np.abs(differences).max(initial=0.0))


def _line(name: str, figure: float, limit: float, words: str) -> RecordCheck:
    return RecordCheck(name, figure <= limit, figure, limit, words)


def _recomputed(
    record: TranslationRecord, evidence: Evidence, masks: dict[Kind, Bools]
) -> RecordCheck:
    differences, head_size = [], 0
    for kind in KINDS:
        sites = sorted((s for s in evidence.sites if s.kind == kind), key=lambda s: s.layer)
        again, drawn = recompute(sites, masks[kind]), record.maps(kind)
        differences.append(_largest(again - drawn) if again.shape == drawn.shape else math.inf)
        head_size = len(sites[0].to_query[0]) // sites[0].num_heads
    cells = sum(record.maps(kind).size for kind in KINDS)
    return _line(
        "Recomputed outside the model",
        _largest(differences),
        WEIGHT_LIMIT,
        f"All {cells:,} weights, worked out again in 64 bits from what each layer was fed: "
        f"softmax(QKᵀ/√{head_size} + mask). Shown: the largest difference.",
    )


def _rows(record: TranslationRecord, masks: dict[Kind, Bools]) -> RecordCheck:
    sums_by_kind = [
        record.maps(kind).sum(-1, dtype=np.float64)[..., mask.any(-1)].ravel()
        for kind, mask in masks.items()
    ]
    sums = np.concatenate(sums_by_kind)
    return _line(
        "Every row sums to 1",
        _largest(sums - 1),
        WEIGHT_LIMIT,
        f"Each of {len(sums):,} rows hands out all of its attention. Shown: the largest deviation.",
    )


def _masked(record: TranslationRecord, masks: dict[Kind, Bools], edits: Edits) -> RecordCheck:
    what = "padding, and what is not yet written"
    if edits != Edits():
        what += ", but for the edits"
    closed = wrong = 0
    for kind, mask in masks.items():
        weights = record.maps(kind)[..., ~mask]
        closed += weights.size
        wrong += np.count_nonzero(weights) + np.count_nonzero(record.mask(kind) != mask)
    return _line(
        "A masked cell is exactly 0",
        float(wrong),
        0.0,
        f"{closed:,} cells are closed, found again from the pieces: {what}. Shown: how many break "
        "this.",
    )


def _labels(record: TranslationRecord, evidence: Evidence) -> RecordCheck:
    shown = [
        ([t.id for t in record.source], evidence.source_ids),
        ([t.id for t in record.target_in], evidence.target_ids),
    ]
    if record.hypotheses:
        shown.append(([t.id for t in record.target_out], record.hypotheses[0].ids))
    decoder = range(len(record.decoder))
    layers = [("encoder", layer) for layer in range(len(record.encoder))]
    layers += [(kind, layer) for layer in decoder for kind in ("decoder", "cross")]
    shown.append((layers, [(site.kind, site.layer) for site in evidence.sites]))
    wrong = sum(_unequal(labels, truth) for labels, truth in shown)
    pieces = len(evidence.source_ids) + len(evidence.target_ids)
    return _line(
        "Labels are what was fed",
        float(wrong),
        0.0,
        f"Against the {pieces:,} pieces that entered the model, their sides and order, and the "
        "order in which its layers ran. Shown: how many labels differ.",
    )


def _unequal(labels: list, truth: tuple | list) -> int:
    return sum(a != b for a, b in zip(labels, truth, strict=False)) + abs(len(labels) - len(truth))


def _untouched(record: TranslationRecord, evidence: Evidence) -> RecordCheck:
    change = (evidence.logits_TV - evidence.unwatched_TV).detach().cpu().numpy()
    differences = [_largest(change)]
    words = "The same pass without looking gives the same scores for the next piece"
    if record.hypotheses:
        replayed = float(record.log_probs.sum(dtype=np.float64))
        differences.append(abs(replayed - record.hypotheses[0].log_prob))
        words += ", and the search the same log-probability"
    return _line(
        "Looking changed nothing",
        _largest(differences),
        LOGIT_LIMIT,
        f"{words}. Shown: the largest difference; faster code adds in another order, so the last "
        "digits may differ.",
    )
