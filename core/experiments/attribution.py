"""Attribute target tokens to source words by many methods, and by Shapley values as reference.

Axes: B row, T target token, S source token, K key, L layer, H head, D d_model, n source words.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from core.analysis.attribution import MAX_LIVE, Attributions, Shapley, Subsets, Words
from core.analysis.rollout import cumulative, with_residual
from core.experiments.experiment import (
    Borrow,
    Ids,
    Progress,
    Steps,
    model_inputs,
    of_words_in_batches,
    row_batches,
)
from core.experiments.log_probs import target_log_probs, widened
from core.experiments.relevance import Relevances, relevances
from core.experiments.values import norms_of, transformed_values
from core.frozen import Doubles
from core.model.interface import AttentionSite, Call, Seq2Seq
from core.record.activations import hidden_states
from core.record.capture import AttentionCall, after_attention, capture, explicit_attention

Positions = tuple[int, ...]

METHODS = (
    "weights",
    "norms",
    "rollout",
    "norm rollout",
    "gradient × input",
    "relevance (AttnLRP)",
    "value zeroing, all layers",
    "leave-one-out",
)

_TOKENS = 768  # per batch, counted on the longer side


@of_words_in_batches
def attributions(borrow: Borrow, source: Ids, target: Ids, words: Words) -> Steps[Attributions]:
    """Attribute each target token to the source words by each of `METHODS`: [T, n] each.

    *weights* are the cross-attention's and *norms* are ‖α v W^O‖ of the same cells (Kobayashi et
    al. 2020), both averaged over layers and heads. *rollout* multiplies the weights by the
    encoder's rollout (Abnar & Zuidema 2020). *norm rollout* uses norms instead of weights: an
    encoder layer mixes tokens in proportion to ‖Σ_h α v W^O + residual path‖ (Kobayashi et al.
    2021). Norm rollout ignores the feed-forward layers and, unlike Kobayashi et al., the layer norm
    after the sum, which matters for post-norm models. Neither rollout is the attention flow of
    Abnar & Zuidema, which is a maximum flow. These four methods need a single forward pass; a
    word's score is the sum over its tokens.
    *gradient × input* is ∂ log P/∂x · x of the scaled embeddings. *relevance* is the part of the
    token's logit that comes from the word by layer-wise relevance propagation; `Attributions.parts`
    has the rest of the logit (see `core.experiments.relevance`). *value zeroing, all layers* is
    log P minus log P with the word's values set to 0 in every layer of the encoder and the
    cross-attention. Later layers recompute their weights from the changed states. Mohebbi et al.
    (2023) instead zero one layer at a time and compare that layer's states by cosine.
    *leave-one-out* is log P minus log P with the word hidden. These methods are in nats, but
    *relevance* in logits.

    Call it with (translator, record), or with (model, source, target, words) and ids that end with
    <eos>. Tokens outside any word, such as <eos>, are never hidden. Raises ValueError for no words
    and for positions out of range.
    """
    _check(source, words)
    scores: dict[str, Doubles] = {}
    tokens = row_batches(range(len(target)), source, target, _TOKENS)
    removed = row_batches(words, source, target, _TOKENS)
    parts: dict[str, Doubles] = {}
    total, done = 1 + 2 * len(tokens) + 2 * len(removed), 0

    def so_far() -> Attributions:
        in_order = {method: scores[method] for method in METHODS if method in scores}
        return Attributions(words, tuple(target), in_order, parts)

    def progress() -> Progress:
        nonlocal done
        done += 1
        return Progress(done, total, so_far())

    with borrow() as model:
        scores |= _from_one_pass(model, source, target, words)
    yield progress()
    gradients: list[Doubles] = []
    for batch in tokens:
        with borrow() as model:
            gradients.append(input_gradients(model, source, target, batch))
        if batch is tokens[-1]:
            scores["gradient × input"] = np.concatenate(gradients) @ _membership(source, words)
        yield progress()
    found: list[Relevances] = []
    for batch in tokens:
        with borrow() as model:
            found.append(relevances(model, source, target, batch))
        if batch is tokens[-1]:
            of_tokens = np.concatenate([one.source for one in found])
            scores["relevance (AttnLRP)"] = of_tokens @ _membership(source, words)
            parts = {
                name: np.concatenate([one.parts[name] for one in found]) for name in found[0].parts
            }
        yield progress()
    for method, log_probs in (
        ("value zeroing, all layers", _zeroed),
        ("leave-one-out", _hidden),
    ):
        losses: list[Doubles] = []
        for batch in removed:
            with borrow() as model:
                everything_T, *rest = log_probs(model, source, target, batch)
            losses.append((everything_T - np.stack(rest)).T)
            if batch is removed[-1]:
                scores[method] = np.concatenate(losses, axis=1)
            yield progress()
    return so_far()


@of_words_in_batches
def shapley(
    borrow: Borrow,
    source: Ids,
    target: Ids,
    words: Words,
    exact: bool | None = None,
    permutations: int = 64,
    seed: int = 0,
) -> Steps[Shapley]:
    """Compute Shapley values of the source words for log P of each target token: [T, n], in nats.

    Words outside a subset are hidden as by `Edits(hidden_source=…)`: no query of the encoder or
    the decoder attends to them, and positions are kept. All 2ⁿ subsets are evaluated for up to
    `MAX_LIVE` words, and with exact=True for up to `MAX_EXACT`. Otherwise, and with exact=False,
    the values are estimated from `permutations` random orders (`seed`), with a 95 % interval that
    is too narrow for few orders (see `Shapley`).

    Call it as `attributions`; progress counts subsets. Raises ValueError for no words, for
    positions out of range, for exact=True with more than `MAX_EXACT` words, and for `permutations`
    that are odd or below 4.
    """
    _check(source, words)
    if exact is None:
        exact = len(words) <= MAX_LIVE
    subsets = Subsets.every(words) if exact else Subsets.sampled(words, permutations, seed)
    in_word = _membership(source, subsets.words).astype(bool)
    visible_NS = ~in_word.any(-1) | (subsets.visible @ in_word.T)
    order = visible_NS.sum(-1).argsort(kind="stable")  # rows of equal length need no padding
    values_NT = np.empty((len(order), len(target)))
    done = 0
    for batch in row_batches(order, source, target, _TOKENS):
        visible = [tuple(np.flatnonzero(row).tolist()) for row in visible_NS[batch]]
        with borrow() as model:
            values_NT[batch] = log_probs_seeing(model, source, target, visible)
        done += len(batch)
        yield Progress(done, len(order))
    return subsets.shapley(values_NT, tuple(target))


@torch.inference_mode()
def log_probs_seeing(
    model: Seq2Seq, source: Sequence[int], target: Sequence[int], visible: Sequence[Positions]
) -> Doubles:
    """Return log P of each target token, in nats, for each set of visible source positions.

    The result is [len(visible), T]. Hidden tokens are dropped from the input and the visible ones
    keep their positions, which gives the same result as masking the hidden ones for every query.
    Hooks are process-wide: the caller must hold the model's lock. Raises ValueError if no position
    is visible.
    """
    ids_1S, target_in_1T = model_inputs(model, source, target)
    log_probs = np.empty((len(visible), len(target)))
    for length in sorted(set(map(len, visible))):
        if not length:
            raise ValueError("every source token is hidden: leave at least one visible")
        rows = [i for i, positions in enumerate(visible) if len(positions) == length]
        positions_BS = torch.tensor([visible[i] for i in rows], device=ids_1S.device)
        table_SD = model.embeddings.source_positions(int(positions_BS.max()) + 1)
        with model.embeddings.source_positions.register_forward_hook(
            lambda module, args, output, at=table_SD[positions_BS]: at
        ):
            memory_BSD, mask = model.encode(ids_1S[0, positions_BS])
        with widened(model):
            hidden_BTD = model.decode(target_in_1T, memory_BSD, mask)
        log_probs[rows] = target_log_probs(model, hidden_BTD, target).cpu().numpy()
    return log_probs


def _check(source: Ids, words: Words) -> None:
    positions = [position for word in words for position in word]
    if not words or not all(words):
        raise ValueError("there is no source word to attribute to: at least 1 is needed")
    if len(set(positions)) < len(positions) or not set(positions) < set(range(len(source))):
        raise ValueError(
            f"words at {words} do not fit {len(source)} source tokens: list each position once, "
            "and leave <eos> out"
        )


def _membership(source: Ids, words: Words) -> Doubles:
    """Return [S, n], 1 where the token belongs to the word."""
    members_Sn = np.zeros((len(source), len(words)))
    for number, word in enumerate(words):
        members_Sn[list(word), number] = 1
    return members_Sn


@torch.inference_mode()
def _from_one_pass(model: Seq2Seq, source: Ids, target: Ids, words: Words) -> dict[str, Doubles]:
    """Compute the four methods that need a single forward pass."""
    with capture(model) as captured, hidden_states(model) as states:
        model(*model_inputs(model, source, target))
    encoder, cross = captured.of_kind("encoder"), captured.of_kind("cross")
    x_LSD = torch.cat((states.embeddings["encoder"], states.sublayers("encoder")[:-1, 1, 0]))
    mixed = [_normalised(_mixing(call, x_SD)) for call, x_SD in zip(encoder, x_LSD, strict=True)]
    weights, norms = _mean([call.weights[0] for call in cross]), _mean(list(map(norms_of, cross)))
    by_weights = with_residual(captured.maps("encoder")[:, 0].cpu().numpy())
    scores = {
        "weights": weights,
        "norms": norms,
        "rollout": weights @ cumulative(by_weights)[-1],
        "norm rollout": _normalised(norms) @ cumulative(mixed)[-1],
    }
    return {method: score @ _membership(source, words) for method, score in scores.items()}


def _mean(maps: list[Tensor]) -> Doubles:
    """Average maps [H, Q, K] over layers and heads: [Q, K]."""
    return torch.stack(maps).double().mean((0, 1)).cpu().numpy()


def _mixing(call: AttentionCall, x_SD: Tensor) -> Doubles:
    """Return ‖Σ_h α v W^O‖ of each cell, with the residual path added on the diagonal: [S, S]."""
    parts_SSD = torch.einsum("hqk,hkd->qkd", call.weights[0], transformed_values(call))
    parts_SSD[range(len(x_SD)), range(len(x_SD))] += x_SD
    return parts_SSD.double().norm(dim=-1).cpu().numpy()


def _normalised(map_QK: Doubles) -> Doubles:
    return map_QK / map_QK.sum(-1, keepdims=True)


def input_gradients(model: Seq2Seq, source: Ids, target: Ids, tokens: Sequence[int]) -> Doubles:
    """Return ∂ log P(target[t])/∂x_s · x_s for the scaled embeddings x and each t: [tokens, S].

    The first layer's input is x plus the position, so its gradient equals the gradient at x.
    """
    rows, at = range(len(tokens)), list(tokens)
    entered: list[Tensor] = []

    def enter(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        entered.append(args[0].detach().clone().requires_grad_())
        return entered[0], *args[1:]

    hook = model.stack("encoder").layers[0].register_forward_pre_hook(enter)
    with hook, torch.inference_mode(False), torch.enable_grad():
        inputs = model_inputs(model, source, target)
        source_BS, target_in_BT = (ids.expand(len(at), -1) for ids in inputs)
        hidden_BTD = model.decode(target_in_BT, *model.encode(source_BS))
        logits_BV = model.classify(hidden_BTD[rows, at])
        total = logits_BV.log_softmax(-1)[rows, [target[t] for t in at]].sum()
        (gradient_BSD,) = torch.autograd.grad(total, entered)
        table = model.embeddings.source_table.weight
        x_SD = model.embeddings.look_up(source_BS[:1], table)[0].detach()
        return (gradient_BSD.double() * x_SD).sum(-1).cpu().numpy()


def _hidden(model: Seq2Seq, source: Ids, target: Ids, words: Sequence[Positions]) -> Doubles:
    """Return log P of the target tokens, unedited and with each word hidden: [1 + n, T]."""
    every = range(len(source))
    visible = [tuple(every), *(tuple(k for k in every if k not in word) for word in words)]
    return log_probs_seeing(model, source, target, visible)


@torch.inference_mode()
def _zeroed(model: Seq2Seq, source: Ids, target: Ids, words: Sequence[Positions]) -> Doubles:
    """Return log P of the target tokens, unedited and with each word's values at 0: [1 + n, T]."""
    parameter, B = next(model.parameters()), 1 + len(words)
    source_BS, target_in_BT = (ids.expand(B, -1) for ids in model_inputs(model, source, target))
    zeroed_BK = parameter.new_zeros(B, len(source))
    for row, word in enumerate(words, start=1):
        zeroed_BK[row, list(word)] = 1

    def zero(
        site: AttentionSite, call: Call, output: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Subtract the contribution of each row's zeroed values from a site's output."""
        (result, weights), memory = output, call.args[1]
        *_, value, out = site.projections()
        v_BHKE = nn.functional.linear(memory, *value).unflatten(-1, (site.num_heads, -1))
        parts_BHQE = (weights * zeroed_BK[:, None, None]) @ v_BHKE.transpose(1, 2)
        part = nn.functional.linear(parts_BHQE.transpose(1, 2).flatten(2), out.weight)
        return result - part, weights

    sites = model.attention_sites()
    of_source = [site for site in sites if site.kind != "decoder"]
    with explicit_attention(sites), after_attention(of_source, zero):
        hidden_BTD = model.decode(target_in_BT, *model.encode(source_BS))
    return target_log_probs(model, hidden_BTD, target).cpu().numpy()
