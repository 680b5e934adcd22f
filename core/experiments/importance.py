"""What each attention head is worth: how the loss changes without it.

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

_SAMPLES = 2000  # of the bootstrap
_TOKENS = 2048  # padded, a batch

Done = Callable[[int], object]


@dataclass(frozen=True)
class Importance:
    """One head, counted from 0: the change of the loss in nats per target token.

    `low` and `high` bound the 95 % percentile bootstrap interval over sentences. An interval that
    contains 0 does not show that the head changes nothing; one of a few sentences is too narrow.
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
    done: Done = lambda count: None,
) -> tuple[float, list[Importance]]:
    """The loss on pairs of ids, and for each head how it changes without that head.

    *zero* removes a head's part from its attention's output (Michel, Levy & Neubig 2019), *mean*
    replaces it by its mean over all queries. *gradient* is the first-order estimate of *zero*: the
    signed slope −∂loss/∂ξ of the factor ξ of the head's part, by one backward pass. It is the
    Taylor criterion of Molchanov et al. 2017 without their absolute value. It misses what is not
    linear: a head that costs much when removed may have a slope near 0.
    `done` is called with how many more heads are done. Hooks are process-wide: the caller holds the
    model's lock. Raises ValueError for no pair.
    """
    if not pairs:
        raise ValueError("there is no sentence pair: at least 1 is needed")
    batches = batches_of(pairs, device)
    with torch.inference_mode():
        before_B = _losses(model, batches)
    tokens_B = np.concatenate([(b.target_out != PAD).sum(-1).cpu().numpy() for b in batches])
    sites = sorted(model.attention_sites(), key=lambda s: (KINDS.index(s.kind), s.layer))
    if method == "gradient":
        changes = _by_gradient(model, batches, sites, done)
    else:
        means = head_means(model, batches) if method == "mean" else {}
        changes = {}
        for site in sites:
            for head in range(model.config.num_heads):
                with _without(model, site, head, means), torch.inference_mode():
                    changes[site.kind, site.layer, head] = _losses(model, batches) - before_B
                done(1)
    drawn = np.random.default_rng(1).integers(len(tokens_B), size=(_SAMPLES, len(tokens_B)))
    rows = []
    for (kind, layer, head), change_B in changes.items():
        sampled = change_B[drawn].sum(-1) / tokens_B[drawn].sum(-1)
        low, high = np.quantile(sampled, (0.025, 0.975))
        mean = change_B.sum() / tokens_B.sum()
        rows.append(Importance(kind, layer, head, float(mean), float(low), float(high)))
    return float(before_B.sum() / tokens_B.sum()), rows


def batches_of(pairs: Sequence[Pair], device: str = "cpu") -> list[Batch]:
    """Pairs of ids in padded batches of like length, on a device."""
    return [collate([pairs[i] for i in indices]).to(device) for indices in plan(pairs, _TOKENS)]


def _token_losses(model: Seq2Seq, batch: Batch) -> Tensor:
    """Nats of each target token [B, T], 0 of padding."""
    logits_BTV = model(batch.source, batch.target_in)
    return F.cross_entropy(
        logits_BTV.float().transpose(1, 2), batch.target_out, ignore_index=PAD, reduction="none"
    )


def _losses(model: Seq2Seq, batches: list[Batch]) -> np.ndarray:
    """Nats of each sentence [B], over all batches."""
    sums = [_token_losses(model, batch).double().sum(-1) for batch in batches]
    return torch.cat(sums).cpu().numpy()


def _without(
    model: Seq2Seq, site: AttentionSite, head: int, means: Means
) -> AbstractContextManager:
    """The model without a head, or with its mean part in its place."""
    heads: frozenset[Head] = frozenset({(site.kind, site.layer, head)})
    return edited(model, Edits(heads_mean=heads) if means else Edits(heads_off=heads), means)


def _queries(site: AttentionSite, batch: Batch) -> Tensor:
    """Which queries [B, Q] of a site are no padding."""
    return (batch.source if site.kind == "encoder" else batch.target_in) != PAD


@torch.inference_mode()
def head_means(
    model: Seq2Seq, batches: Sequence[Batch], done: Done = lambda count: None
) -> dict[tuple[Kind, int], Tensor]:
    """The mean part of each head of a site over all queries that are no padding, [H, D].

    `done` is called with how many more sentences are done. The caller holds the model's lock.
    """
    sums: dict[tuple[Kind, int], Tensor] = {}
    counts: dict[tuple[Kind, int], int] = {}
    for batch in batches:
        with capture(model) as captured:
            model(batch.source, batch.target_in)
        for call in captured.calls():
            key = call.site.kind, call.site.layer
            real_BQ = _queries(call.site, batch)
            parts_BHQD = head_outputs(call)
            found_HD = parts_BHQD.masked_fill(~real_BQ[:, None, :, None], 0).double().sum((0, 2))
            sums[key] = sums[key] + found_HD if key in sums else found_HD
            counts[key] = counts.get(key, 0) + int(real_BQ.sum())
        done(len(batch.source))
    return {key: (total / counts[key]).float() for key, total in sums.items()}


def _by_gradient(
    model: Seq2Seq, batches: list[Batch], sites: list[AttentionSite], done: Done
) -> dict[tuple, np.ndarray]:
    """−∂loss/∂ξ of each sentence [B], ξ = 1 being what a head's part is multiplied by.

    The output of a site is the sum of its heads' parts and a bias, so ∂loss/∂ξ is the product of a
    part and the gradient at the output; which is 0 at padded queries, for nothing looks at them.
    """
    found: dict[tuple, list[np.ndarray]] = {}
    for batch in batches:
        calls: list[tuple[AttentionCall, Tensor]] = []

        with ExitStack() as stack:
            stack.enter_context(explicit_attention(model))
            stack.enter_context(torch.enable_grad())
            for site in sites:
                hook = site.module.register_forward_hook(_keeping(site, calls))
                stack.callback(hook.remove)
            total = _token_losses(model, batch).sum()
            gradients = torch.autograd.grad(total, [output for _, output in calls])
        for (call, _), gradient_BQD in zip(calls, gradients, strict=True):
            with torch.no_grad():
                slope_BH = torch.einsum("bqd,bhqd->bh", gradient_BQD, head_outputs(call)).double()
            for head, slope_B in enumerate(slope_BH.T.cpu().numpy()):
                key = call.site.kind, call.site.layer, head
                found.setdefault(key, []).append(-slope_B)
    done(len(found))
    order = [(s.kind, s.layer, h) for s in sites for h in range(model.config.num_heads)]
    return {key: np.concatenate(found[key]) for key in order}


def _keeping(site: AttentionSite, calls: list[tuple[AttentionCall, Tensor]]) -> Callable[..., None]:
    """A hook that keeps what a site saw, and its output with what led to it."""

    def keep(module: nn.Module, args: tuple, output: tuple[Tensor, Tensor]) -> None:
        query, memory = args[:2]
        call = AttentionCall(site, query.detach(), memory.detach(), output[1].detach())
        calls.append((call, output[0]))

    return keep
