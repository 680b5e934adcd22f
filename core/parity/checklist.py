"""The parity checklist: the from-scratch model against torch.nn.Transformer, line by line.

See core.verify for what is compared.
"""

import copy
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.checkpoint.folder import Checkpoint
from core.config import DecodeConfig, ModelConfig
from core.data.batches import Batch, Pair
from core.kinds import KINDS
from core.model.baseline import Baseline, scratch_names
from core.model.build import Model
from core.model.interface import Seq2Seq
from core.model.transformer import Transformer
from core.parity.networks import (
    CASES,
    VARIANTS,
    case_batches,
    checkpoint_pairs,
    fresh,
    random_pairs,
    same_weights,
)
from core.record.activations import activations, masks
from core.record.capture import capture
from core.search.beam import search
from core.text.tokenizer import PAD

LIMIT = 1e-12
FLOAT32_ATOL, FLOAT32_RTOL = 1e-5, 1.3e-6  # the defaults of torch.testing.assert_close
ADAM_STEPS, ADAM_RATE, ADAM_EPS = 20, 1e-3, 1e-8
BEAM = DecodeConfig(beam=4)
COPIES, ROUNDINGS, WIDEST = 4, 10, 1e-4
"""A line that exceeds its limit may reach as many times the effect of the weights' last bits."""
_UNBOUNDED = sys.float_info.max  # replaces NaN and infinity, which JSON lacks


@dataclass(frozen=True)
class Check:
    """One line of the checklist: the largest absolute difference and its limit.

    In float32 the limit grows with the value, so both numbers describe the element that is closest
    to its limit. A count of differing items has the limit 0.
    """

    name: str
    passed: bool
    max_abs_diff: float
    limit: float
    detail: str = ""


def checklist(
    checkpoint: Checkpoint | None = None, variants: Mapping[str, ModelConfig] = VARIANTS
) -> Iterator[Check]:
    """Yield the lines for a checkpoint's weights, or for each of the `variants`.

    The checkpoint's network is not changed. Raises ValueError if the checkpoint's weights do not
    fit both implementations.
    """
    if checkpoint is not None:
        yield from compare(*same_weights(checkpoint.model), checkpoint_pairs(checkpoint))
        return
    for label, config in variants.items():
        for check in compare(*same_weights(fresh(config)), random_pairs(config)):
            yield replace(check, name=f"{label}: {check.name}")


def count_lines(
    checkpoint: Checkpoint | None = None, variants: Mapping[str, ModelConfig] = VARIANTS
) -> int:
    """Return the number of lines that `checklist` yields, for a progress bar."""

    def lines(config: ModelConfig) -> int:
        encoder, decoder = config.num_encoder_layers, config.num_decoder_layers
        structure, formula, shortcut, masks, searches = 4, 2, 1, 2, 4
        forward = (encoder + decoder + 5) * len(CASES) + 5  # 5 of them again in float32
        maps, training = encoder + 2 * decoder, 4 + config.qkv_bias
        return structure + formula + forward + shortcut + masks + maps + training + searches

    configs = variants.values() if checkpoint is None else [checkpoint.card.model]
    return sum(map(lines, configs))


def compare(baseline: Baseline, scratch: Transformer, pairs: list[Pair]) -> Iterator[Check]:
    """Yield all lines for two networks that should be equivalent; neither is changed.

    A passed line shows agreement on these batches, not on all inputs.
    """
    batches = case_batches(pairs)
    padded = batches["with padding"]
    yield from _structure(baseline, scratch, padded)
    yield from _formula(scratch, padded)
    for case, batch in batches.items():
        yield from _forward(baseline, scratch, case, batch)
    yield _shortcut(baseline, scratch, padded)
    yield from _masks(baseline, scratch, padded)
    yield from _maps(baseline, scratch, padded)
    yield from _rounded(_training, baseline, scratch, padded)
    yield from _searches(baseline, scratch, padded.source)
    yield from _rounded(_forward_float32, baseline, scratch, batches)


def _rounded(
    compare: Any, baseline: Baseline, scratch: Transformer, inputs: Any
) -> Iterator[Check]:
    """Yield a comparison's lines; widen the limits of failed ones by the network's own rounding.

    Adam and deep stacks can amplify rounding beyond a fixed limit. How far is measured on the
    library's network alone, without the from-scratch code: it is compared with `COPIES` of itself,
    in which each weight differs in its last bit, up or down at random; the largest difference
    counts, since single ones differ twentyfold. `WIDEST` is the largest limit.
    """
    lines = list(compare(baseline, scratch, inputs))
    if all(line.passed for line in lines):
        yield from lines
        return
    epsilon = torch.finfo(torch.float32 if compare is _forward_float32 else torch.float64).eps
    draw, own = torch.Generator().manual_seed(0), []
    for _ in range(COPIES):
        moved = copy.deepcopy(baseline)
        with torch.no_grad():
            for parameter in moved.parameters():
                signs = torch.randint(0, 2, parameter.shape, generator=draw).to(parameter) * 2 - 1
                parameter.mul_(1 + epsilon * signs)
        own.append([line.max_abs_diff for line in compare(baseline, moved, inputs)])
    for line, changes in zip(lines, zip(*own, strict=True), strict=True):
        limit = min(ROUNDINGS * max(changes), WIDEST)
        if not line.passed and line.max_abs_diff <= limit:
            detail = f"limit: {ROUNDINGS} × what the last bit of each weight changes"
            line = replace(line, passed=True, limit=limit, detail=detail)
        yield line


def _structure(baseline: Baseline, scratch: Transformer, batch: Batch) -> Iterator[Check]:
    """Compare the number, names, shapes and values of the parameters, and the output's shape."""
    sizes = [sum(p.numel() for p in model.parameters()) for model in (scratch, baseline)]
    yield _count("number of parameters", abs(sizes[0] - sizes[1]), f"{sizes[0]:,} and {sizes[1]:,}")
    ours = {name: p.shape for name, p in scratch.named_parameters()}
    theirs = {name: p.shape for name, p, _ in _matched(baseline, scratch, _value)}
    wrong = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
    detail = wrong[0] if wrong else f"{len(dict(baseline.named_parameters()))} names to {len(ours)}"
    yield _count("every parameter's name and shape", len(wrong), detail)
    yield _worst("every weight after copying", _matched(baseline, scratch, _value), limit=0.0)
    with torch.no_grad():
        shapes = [list(model(batch.source, batch.target_in).shape) for model in (scratch, baseline)]
    yield _count("output shape", int(shapes[0] != shapes[1]), f"{shapes[0]} and {shapes[1]}")


def _formula(scratch: Transformer, batch: Batch) -> Iterator[Check]:
    """Check embedding·√d_model + position against the paper's formula, and a norm of the sum.

    Both models share the embedding class, so comparing them would show nothing. Sinusoids are in
    float32, as in the models.
    """
    embeddings, width = scratch.embeddings, scratch.config.d_model
    scale = math.sqrt(width) if scratch.config.scale_embeddings else 1.0
    for side, ids, table in [
        ("source", batch.source, embeddings.source_table.weight),
        ("target", batch.target_in, embeddings.target_weight),
    ]:
        real, length = ids != PAD, ids.shape[1]
        if scratch.config.learned_positions:
            positions = getattr(embeddings, f"{side}_positions").weight[:length]
        else:
            first = 2 * (scratch.config.position_table == "fairseq")  # as core.model.positions says
            angles = [
                [t / 10_000 ** (i // 2 * 2 / (width - first)) for i in range(width)]
                for t in range(first, first + length)
            ]
            waves = [[(math.sin, math.cos)[i % 2](a) for i, a in enumerate(row)] for row in angles]
            positions = torch.tensor(waves, dtype=torch.float32)
        with torch.no_grad():
            embedded = getattr(embeddings, side)(ids)
            expected = table[ids] * scale + positions
            if scratch.config.embedding_norm:
                norm = getattr(embeddings, f"{side}_norm")
                expected = F.layer_norm(expected, (width,), norm.weight, norm.bias, norm.eps)
        name = f"{side} embeddings against the paper's formula"
        yield _close(name, embedded[real], expected[real])


def _forward(baseline: Baseline, scratch: Transformer, case: str, batch: Batch) -> Iterator[Check]:
    """Compare all activations of a forward pass, from the embeddings to the logits."""
    training = case == CASES[3]
    ours, theirs = (activations(model.train(training), batch) for model in (scratch, baseline))
    for model in (scratch, baseline):
        model.eval()
    detail = "" if case == CASES[0] else "real positions only"
    for name, values in ours.items():
        yield replace(_close(f"{name}, {case}", values, theirs[name]), detail=detail)


def _forward_float32(
    baseline: Baseline, scratch: Transformer, batches: dict[str, Batch]
) -> Iterator[Check]:
    """Compare the stacks' outputs in float32 over all cases, under torch's default tolerances.

    Single layers are compared in float64 only. In a pre-norm stack the residual stream grows, and
    its rounding exceeds the tolerance of 1e-5 for values near 0.
    """
    models = [copy.deepcopy(model).float() for model in (scratch, baseline)]
    passes = [[activations(model, batch) for batch in batches.values()] for model in models]
    for name in (name for name in passes[0][0] if " layer " not in name):
        ours, theirs = (torch.cat([p[name] for p in each]) for each in passes)
        yield _close_float32(f"{name}, float32", ours, theirs)


def _shortcut(baseline: Baseline, scratch: Transformer, batch: Batch) -> Check:
    """Compare logits without hooks or gradients, so that torch fuses its encoder layers."""
    real = batch.target_in != PAD
    with torch.inference_mode():
        logits = [model(batch.source, batch.target_in)[real] for model in (scratch, baseline)]
    return _close("logits, the library's inference shortcut", *logits)


def _masks(baseline: Baseline, scratch: Transformer, batch: Batch) -> Iterator[Check]:
    """Check the mask passed to every attention against its definition."""
    source, target = batch.source != PAD, batch.target_in != PAD
    t = torch.arange(target.shape[1])
    padding, causal = source[:, None, :], target[:, None, :] & (t[None, :] <= t[:, None])
    passed = [*masks(scratch, batch), *masks(baseline, batch)]
    for name, kinds, expected in [
        ("padding mask (encoder, cross)", ("encoder", "cross"), padding),
        ("causal and padding mask (decoder)", ("decoder",), causal),
    ]:
        of_kinds = [mask for kind, mask in passed if kind in kinds]
        wrong = sum(int((mask != expected.expand_as(mask)).sum()) for mask in of_kinds)
        cells = sum(mask.numel() for mask in of_kinds)
        yield _count(name, wrong, f"{cells:,} cells in {len(of_kinds)} attentions")


def _maps(baseline: Baseline, scratch: Transformer, batch: Batch) -> Iterator[Check]:
    """Compare every head's attention weights at non-padding queries."""
    passes = []
    for model in (scratch, baseline):
        with torch.no_grad(), capture(model) as captured:
            model(batch.source, batch.target_in)
        passes.append(captured)
    ours, theirs = passes
    calls = {(call.site.kind, call.site.layer): call.weights for call in theirs.calls()}
    for kind in KINDS:
        real = (batch.source if kind == "encoder" else batch.target_in) != PAD
        for layer, maps in enumerate(ours.maps(kind)):
            # Compare stacked maps with single calls, so that a wrong layer order is noticed.
            mine, its = maps.transpose(1, 2), calls[kind, layer].transpose(1, 2)
            heads = (mine[real] - its[real]).abs().amax(dim=(0, 2))
            check = _close(f"{kind} attention maps, layer {layer + 1}", mine[real], its[real])
            largest = heads.argmax().item() + 1
            detail = f"{len(heads)} heads, real queries only, largest in head {largest}"
            yield replace(check, detail=detail)


def _training(baseline: Baseline, scratch: Transformer, batch: Batch) -> Iterator[Check]:
    """Compare the loss, its gradients, and weights and logits after 20 Adam steps.

    A key bias adds an equal value to all scores of a query, which the softmax ignores. So its true
    gradient is 0, but the computed one is about 1e-18. Adam divides by √v + eps and amplifies this
    rounding up to the limit used here. All other weights and the logits have the limit 1e-12.
    """
    models = copy.deepcopy(baseline).train(), copy.deepcopy(scratch).train()
    theirs, ours = (_loss(model, batch) for model in models)
    yield _close("loss", ours.detach(), theirs.detach())
    (theirs + ours).backward()
    yield _worst("every gradient after one backward", _matched(*models, _gradient))
    for model in models:
        _adam(model, batch)
    weights = list(_matched(*models, _value))
    after = f"after {ADAM_STEPS} Adam steps"
    others = [w for w in weights if not w[0].endswith("key.bias")]
    yield _worst(f"every weight but key biases {after}", others)
    if len(others) < len(weights):
        amplified = ADAM_STEPS * ADAM_RATE * LIMIT / ADAM_EPS
        keys = [w for w in weights if w[0].endswith("key.bias")]
        yield _worst(f"key biases, which nothing depends on, {after}", keys, limit=amplified)
    real = batch.target_in != PAD
    with torch.no_grad():
        theirs, ours = (model(batch.source, batch.target_in)[real] for model in models)
    yield _close(f"logits {after}", ours, theirs)


def _searches(baseline: Baseline, scratch: Transformer, source_NS: Tensor) -> Iterator[Check]:
    """Compare search results and scores; only the scratch model uses a KV cache."""
    for decode in (DecodeConfig(beam=1), BEAM):
        ours, theirs = (search(model, source_NS, decode) for model in (scratch, baseline))
        differing = sum(
            [h.ids for h in mine] != [h.ids for h in its]
            for mine, its in zip(ours, theirs, strict=True)
        )
        written = sum(len(h.ids) for hypotheses in ours for h in hypotheses)
        detail = f"{len(ours)} sentences, {written} tokens in all hypotheses"
        yield _count(f"{decode.label}: the same tokens", differing, detail)
        scores = (
            torch.tensor(
                [(h.log_prob, h.score) for each in results for h in each], dtype=torch.float64
            )
            for results in (ours, theirs)
        )
        name = f"{decode.label}: the same scores"
        yield replace(_close(name, *scores), detail="sums and scores of all hypotheses")


def _loss(model: Seq2Seq, batch: Batch) -> Tensor:
    """Return the label-smoothed mean training loss over non-padding tokens."""
    logits = model(batch.source, batch.target_in).flatten(0, 1)
    target = batch.target_out.flatten()
    return F.cross_entropy(logits, target, ignore_index=PAD, label_smoothing=0.1)


def _adam(model: Model, batch: Batch) -> None:
    optimiser = torch.optim.Adam(model.parameters(), lr=ADAM_RATE, eps=ADAM_EPS, fused=True)
    for _ in range(ADAM_STEPS):
        optimiser.zero_grad()
        _loss(model, batch).backward()
        optimiser.step()


def _value(parameter: nn.Parameter) -> Tensor:
    return parameter.detach()


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


Named = tuple[str, Tensor, Tensor]


def _matched(
    baseline: Baseline, scratch: Model, of: Callable[[nn.Parameter], Tensor]
) -> Iterator[Named]:
    """Yield (scratch name, baseline value, scratch value) of each parameter.

    Packed parameters of the baseline are split. The scratch value is NaN if that model lacks
    the name.
    """
    ours = _named(scratch, of)
    for name, part in _named(baseline, of).items():
        yield name, part, ours.get(name, part.new_full((), torch.nan))


def _named(model: Model, of: Callable[[nn.Parameter], Tensor]) -> dict[str, Tensor]:
    """Return values by the names of scratch parameters."""
    found: dict[str, Tensor] = {}
    for theirs, parameter in model.named_parameters():
        names = scratch_names(theirs) if isinstance(model, Baseline) else [theirs]
        found |= zip(names, of(parameter).chunk(len(names)), strict=True)
    return found


def _gap(ours: Tensor, theirs: Tensor) -> float:
    """Return the largest absolute difference; _UNBOUNDED for different shapes, NaN or infinity."""
    if ours.shape != theirs.shape:
        return _UNBOUNDED
    gap = (ours - theirs).abs().max()
    return gap.item() if gap.isfinite() else _UNBOUNDED


def _close(name: str, ours: Tensor, theirs: Tensor) -> Check:
    gap = _gap(ours, theirs)
    return Check(name, gap <= LIMIT, gap, LIMIT)


def _close_float32(name: str, ours: Tensor, theirs: Tensor) -> Check:
    """Apply the rule of torch.testing.assert_close to the element closest to its limit."""
    gap = (ours - theirs).abs().nan_to_num(torch.inf).flatten()
    limits = (FLOAT32_ATOL + FLOAT32_RTOL * theirs.abs()).nan_to_num(FLOAT32_ATOL).flatten()
    nearest = (gap / limits).argmax()
    worst, limit = min(gap[nearest].item(), _UNBOUNDED), limits[nearest].item()
    return Check(name, worst <= limit, worst, limit, "assert_close: 1e-5 + 1.3e-6·|value|")


def _worst(name: str, values: Iterable[Named], limit: float = LIMIT) -> Check:
    """Combine many tensors into one line; the detail names the one that differs most."""
    gaps = {each: _gap(ours, theirs) for each, theirs, ours in values}
    worst = max(gaps, key=gaps.__getitem__)
    detail = f"{len(gaps)} tensors, largest in {worst}" if gaps[worst] else f"{len(gaps)} tensors"
    return Check(name, gaps[worst] <= limit, gaps[worst], limit, detail)


def _count(name: str, differing: int, detail: str) -> Check:
    return Check(name, differing == 0, float(differing), 0.0, detail)
