"""Head importance: the change in loss when an attention head is ablated.

Axes: B sentences, H heads, Q queries, D d_model.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.data.batches import Batch, Pair, collate, plan
from core.experiments.values import head_outputs
from core.kinds import KINDS, Kind
from core.model.interface import AttentionSite, Seq2Seq
from core.record.capture import AttentionCall, capture, explicit_attention
from core.record.editing import Means, edited
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
    sites = sorted(model.attention_sites(), key=lambda s: (KINDS.index(s.kind), s.layer))
    if method == "gradient":
        changes = _by_gradient(model, batches, sites, on_progress)
    else:
        means = head_means(model, batches) if method == "mean" else {}
        changes = {}
        for site in sites:
            for head in range(model.config.num_heads):
                with _without(model, site, head, means), torch.inference_mode():
                    changes[site.kind, site.layer, head] = _losses(model, batches) - before_B
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


def _without(
    model: Seq2Seq, site: AttentionSite, head: int, means: Means
) -> AbstractContextManager:
    """Ablate a head inside a block: to its mean output if `means` are given, else to zero."""
    heads: frozenset[Head] = frozenset({(site.kind, site.layer, head)})
    return edited(model, Edits(heads_mean=heads) if means else Edits(heads_off=heads), means)


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
    model: Seq2Seq, batches: list[Batch], sites: list[AttentionSite], on_progress: OnProgress
) -> dict[tuple, np.ndarray]:
    """Return −∂loss/∂ξ of each sentence [B], where ξ = 1 scales a head's output.

    A site's output is the sum of its heads' outputs and a bias, so ∂loss/∂ξ is the dot product of a
    head's output and the gradient at the site's output. That gradient is 0 at padded queries, since
    nothing attends to them.
    """
    slopes: dict[tuple, list[np.ndarray]] = {}
    for batch in batches:
        calls: list[tuple[AttentionCall, Tensor]] = []

        with ExitStack() as stack:
            stack.enter_context(explicit_attention(model))
            stack.enter_context(torch.enable_grad())
            for site in sites:
                hook = site.module.register_forward_hook(_recording(site, calls))
                stack.callback(hook.remove)
            total = _token_losses(model, batch).sum()
            gradients = torch.autograd.grad(total, [output for _, output in calls])
        for (call, _), gradient_BQD in zip(calls, gradients, strict=True):
            with torch.no_grad():
                slope_BH = torch.einsum("bqd,bhqd->bh", gradient_BQD, head_outputs(call)).double()
            for head, slope_B in enumerate(slope_BH.T.cpu().numpy()):
                key = call.site.kind, call.site.layer, head
                slopes.setdefault(key, []).append(-slope_B)
    on_progress(len(slopes))
    order = [(s.kind, s.layer, h) for s in sites for h in range(model.config.num_heads)]
    return {key: np.concatenate(slopes[key]) for key in order}


def _recording(
    site: AttentionSite, calls: list[tuple[AttentionCall, Tensor]]
) -> Callable[..., None]:
    """Return a hook that appends a site's call and its output, which keeps its autograd graph."""

    def record(module: nn.Module, args: tuple, output: tuple[Tensor, Tensor]) -> None:
        query, memory = args[:2]
        call = AttentionCall(site, query.detach(), memory.detach(), output[1].detach())
        calls.append((call, output[0]))

    return record
