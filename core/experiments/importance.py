"""Head importance: the change in loss when an attention head is ablated.

Axes: B sentences, H heads, Q queries, D d_model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from core.data.batches import Batch, Pair, collate, plan
from core.experiments.head_effects import heads_of
from core.experiments.values import head_outputs
from core.kinds import Kind
from core.model.interface import AttentionSite, Call, Seq2Seq
from core.record.capture import AttentionCall, after_attention, capture, explicit_attention
from core.record.editing import edited
from core.record.edits import Edits, Head
from core.text.tokenizer import PAD

Method = Literal["zero", "mean", "gradient"]
METHODS: tuple[Method, ...] = ("zero", "mean", "gradient")

_SAMPLES = 2000  # bootstrap resamples
_TOKENS = 2048  # per batch, with padding

OnProgress = Callable[[int], object]


@dataclass(frozen=True)
class Importance:
    """One head, counted from 0, and the change in loss, in nats per target token.

    `low` and `high` bound the 95 % percentile bootstrap interval over sentences. An interval that
    contains 0 does not prove that the head has no effect; with few sentences it is too narrow.
    """

    kind: Kind
    layer: int
    head: int
    loss_change: float
    low: float
    high: float


def importance(
    model: Seq2Seq,
    pairs: Sequence[Pair],
    method: Method = "zero",
    device: str = "cpu",
    on_progress: OnProgress = lambda count: None,
) -> tuple[float, list[Importance]]:
    """Return the loss on pairs of ids, and the change in loss for each ablated head.

    *zero* removes a head's output (Michel, Levy & Neubig 2019); *mean* replaces it by its mean over
    all queries. *gradient* is a first-order estimate of *zero* from one backward pass: the signed
    slope −∂loss/∂ξ, where ξ scales the head's output. It is the Taylor criterion of Molchanov et
    al. 2017 without the absolute value. It misses nonlinear effects: a head whose removal costs
    much may have a slope near 0.

    `on_progress` is called with the number of newly completed heads. Hooks are process-wide: the
    caller must hold the model's lock. Raises ValueError for no pairs.
    """
    if not pairs:
        raise ValueError("there is no sentence pair: at least 1 is needed")
    batches = batches_of(pairs, device)
    with torch.inference_mode():
        before_B = _losses(model, batches)
    tokens_B = np.concatenate([(b.target_out != PAD).sum(-1).cpu().numpy() for b in batches])
    if method == "gradient":
        changes = _by_gradient(model, batches, on_progress)
    else:
        means = head_means(model, batches) if method == "mean" else {}
        changes = {}
        for head in heads_of(model):
            one = frozenset({head})
            edits = Edits(heads_mean=one) if means else Edits(heads_off=one)
            with edited(model, edits, means), torch.inference_mode():
                changes[head] = _losses(model, batches) - before_B
            on_progress(1)
    drawn = np.random.default_rng(1).integers(len(tokens_B), size=(_SAMPLES, len(tokens_B)))
    rows = []
    for (kind, layer, head), change_B in changes.items():
        sampled = change_B[drawn].sum(-1) / tokens_B[drawn].sum(-1)
        low, high = np.quantile(sampled, (0.025, 0.975))
        mean = change_B.sum() / tokens_B.sum()
        rows.append(Importance(kind, layer, head, float(mean), float(low), float(high)))
    return float(before_B.sum() / tokens_B.sum()), rows


def batches_of(pairs: Sequence[Pair], device: str = "cpu") -> list[Batch]:
    """Collate pairs of ids into padded batches of similar length, on a device."""
    return [collate([pairs[i] for i in indices]).to(device) for indices in plan(pairs, _TOKENS)]


def _token_losses(model: Seq2Seq, batch: Batch) -> Tensor:
    """Return the loss of each target token in nats [B, T]; 0 at padding."""
    logits_BTV = model(batch.source, batch.target_in)
    return F.cross_entropy(
        logits_BTV.float().transpose(1, 2), batch.target_out, ignore_index=PAD, reduction="none"
    )


def _losses(model: Seq2Seq, batches: list[Batch]) -> np.ndarray:
    """Return the summed loss of each sentence in nats [B], over all batches."""
    sums = [_token_losses(model, batch).double().sum(-1) for batch in batches]
    return torch.cat(sums).cpu().numpy()


def _queries(site: AttentionSite, batch: Batch) -> Tensor:
    """Return which queries [B, Q] of a site are not padding."""
    return (batch.source if site.kind == "encoder" else batch.target_in) != PAD


@torch.inference_mode()
def head_means(
    model: Seq2Seq, batches: Sequence[Batch], on_progress: OnProgress = lambda count: None
) -> dict[tuple[Kind, int], Tensor]:
    """Return each site's mean head outputs over all queries that are not padding: [H, D].

    `on_progress` is called with the number of newly completed sentences. The caller must hold the
    model's lock.
    """
    sums, counts = head_sums(model, batches, on_progress)
    return {site: (total / counts[site]).float() for site, total in sums.items()}


@torch.inference_mode()
def head_sums(
    model: Seq2Seq, batches: Sequence[Batch], on_progress: OnProgress = lambda count: None
) -> tuple[dict[tuple[Kind, int], Tensor], dict[tuple[Kind, int], int]]:
    """Return the sums behind `head_means`, float64 [H, D] by site, and the number of queries."""
    sums: dict[tuple[Kind, int], Tensor] = {}
    counts: dict[tuple[Kind, int], int] = {}
    for batch in batches:
        with capture(model) as captured:
            model(batch.source, batch.target_in)
        for call in captured.calls():
            key = call.site.kind, call.site.layer
            real_BQ = _queries(call.site, batch)
            parts_BHQD = head_outputs(call)
            sum_HD = parts_BHQD.masked_fill(~real_BQ[:, None, :, None], 0).double().sum((0, 2))
            sums[key] = sums[key] + sum_HD if key in sums else sum_HD
            counts[key] = counts.get(key, 0) + int(real_BQ.sum())
        on_progress(len(batch.source))
    return sums, counts


def _by_gradient(
    model: Seq2Seq, batches: list[Batch], on_progress: OnProgress
) -> dict[Head, np.ndarray]:
    """Return −∂loss/∂ξ of each sentence [B], where ξ = 1 scales a head's output.

    A site's output is the sum of its heads' outputs and a bias, so ∂loss/∂ξ is the dot product of a
    head's output and the gradient at the site's output. That gradient is 0 at padded queries, since
    nothing attends to them.
    """
    slopes: dict[Head, list[np.ndarray]] = {}
    for batch in batches:
        calls: list[tuple[AttentionCall, Tensor]] = []  # and their outputs, with autograd graphs
        record = partial(_record, calls)
        sites = model.attention_sites()
        with explicit_attention(sites), torch.enable_grad(), after_attention(sites, record):
            total = _token_losses(model, batch).sum()
            gradients = torch.autograd.grad(total, [output for _, output in calls])
        for (call, _), gradient_BQD in zip(calls, gradients, strict=True):
            with torch.no_grad():
                slope_BH = torch.einsum("bqd,bhqd->bh", gradient_BQD, head_outputs(call)).double()
            for head, slope_B in enumerate(slope_BH.T.cpu().numpy()):
                key = call.site.kind, call.site.layer, head
                slopes.setdefault(key, []).append(-slope_B)
    on_progress(len(slopes))
    return {head: np.concatenate(slopes[head]) for head in heads_of(model)}


def _record(
    calls: list[tuple[AttentionCall, Tensor]],
    site: AttentionSite,
    call: Call,
    output: tuple[Tensor, Tensor],
) -> None:
    calls.append((AttentionCall.of(site, call, output[1]), output[0]))
