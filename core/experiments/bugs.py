"""Eight classic mistakes in a Transformer, as switches on a network, with the symptoms of each.

`broken` makes a mistake in a network of either implementation inside a `with` block. The other
functions run the broken network on a sentence in a padded batch, because a missing padding mask
shows only there.
Axes: B batch, L layer, H head, Q query, K key, D d_model, E d_k, S source and T target tokens, P
padding.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from core.config import ModelConfig
from core.data.batches import pad
from core.experiments.experiment import of_pass
from core.frozen import Bools, Doubles, Floats, Frozen
from core.kinds import KINDS, Kind
from core.model.interface import AttentionSite, Call, Seq2Seq
from core.model.transformer import scaled_dot_product_attention
from core.record.capture import after_attention, capture
from core.record.editing import edited, source_mask, target_mask
from core.record.edits import Edits, PositionEdit
from core.search.beam import greedy, length_limit
from core.text.tokenizer import BOS, EOS, UNK

Bug = Literal[
    "unscaled",
    "over_queries",
    "inverted_mask",
    "no_causal_mask",
    "no_padding_mask",
    "swapped",
    "shifted",
    "reshaped",
]
BUGS: tuple[Bug, ...] = get_args(Bug)

PADDING = 3
"""How many tokens longer the other sentence pair of the batch is, in source and target."""
PROBED = 8
"""The most source tokens that are replaced, one by one, to see which of them a map depends on."""
MORE = 10
"""A broken translation is cut off at this many tokens more than the given target has."""
LONGEST = 40
"""The most tokens that a broken translation may have."""
_ROUNDING = 1e-3  # for logarithms and shares: float32 passes in two batches differ by less
_SHIFTED = PositionEdit(shift=1)
_EDITS: Mapping[Bug | None, Edits] = {
    "no_causal_mask": Edits(causal_mask=False),
    "no_padding_mask": Edits(padding_mask=False),
    "shifted": Edits(source_positions=_SHIFTED, target_positions=_SHIFTED),
}
"""The mistakes that an edit can make; the others change the attention itself."""


def possible(config: ModelConfig) -> tuple[Bug, ...]:
    """Return the mistakes that change a network; T5 scales no scores and shifts no positions."""
    without = {"unscaled": not config.scale_scores, "shifted": config.position_table == "none"}
    return tuple(bug for bug in BUGS if not without.get(bug))


@contextmanager
def broken(model: Seq2Seq, bug: Bug | None) -> Generator[None]:
    """Make one mistake in the whole network inside the block; None leaves the network unchanged.

    Use full passes only (`encode`, `decode`, `forward`): in decoding steps with a KV cache, several
    of the mistakes are impossible. The model is restored on exit, even after an exception. Threads
    share the model: the caller must hold its lock. Raises ValueError for an unknown bug,
    NestedEditsError inside conflicting edits, and, inside the block, EditError for a position
    beyond a learned table.
    """
    if bug is not None and bug not in BUGS:
        raise ValueError(f"unknown bug {str(bug)[:30]!r}: choose {', '.join(BUGS)}")
    with ExitStack() as stack:
        if bug in _EDITS:
            stack.enter_context(edited(model, _EDITS[bug]))
        elif bug is not None:
            attend = partial(_broken_attention, bug, model.config)
            stack.enter_context(after_attention(model.attention_sites(), attend))
        yield


def _broken_attention(
    bug: Bug, config: ModelConfig, site: AttentionSite, call: Call, output: Any
) -> tuple[Tensor, Tensor]:
    """Attend from x [B, Q, D] to memory [B, K, D] with one mistake."""
    (x, memory, *_), mask = call.args, site.mask(call)[:, None]
    to_query, to_key, to_value, to_output = site.projections()
    if bug == "swapped":
        to_query, to_key = to_key, to_query
    split = _reshaped if bug == "reshaped" else _split
    q, k, v = (
        split(F.linear(states, *projection), site.num_heads)
        for states, projection in ((x, to_query), (memory, to_key), (memory, to_value))
    )
    if bug == "unscaled":
        q = q * site.divisor  # the division by √d_k follows
    if bug == "inverted_mask":
        mask = ~mask
    given: Any = {"mask_score": config.mask_score, "scale": config.scale_scores}
    bias = site.bias(q.shape[-2], k.shape[-2])
    if bug == "over_queries":  # the softmax of the transposed scores, transposed back
        bias = None if bias is None else bias.mT
        weights = scaled_dot_product_attention(k, q, q, mask.mT, bias_HTS=bias, **given)[1].mT
        heads = weights @ v
    else:
        heads, weights = scaled_dot_product_attention(q, k, v, mask, bias_HTS=bias, **given)
    return F.linear(heads.transpose(1, 2).flatten(2), *to_output), weights


def _split(x_BTD: Tensor, heads: int) -> Tensor:
    """Give each head its own slice of the features: [B, T, D] → [B, H, T, E]."""
    return x_BTD.unflatten(-1, (heads, -1)).transpose(1, 2)


def _reshaped(x_BTD: Tensor, heads: int) -> Tensor:
    """Give each head a slice of the tokens, not of the features; the shape is the same."""
    B, T, _ = x_BTD.shape
    return x_BTD.reshape(B, heads, T, -1)


class _Batch(NamedTuple):
    """The sentence in row 0 and a longer one in row 1: ids [2, S+P] and [2, T+P]; S and T.

    The longer sentence is the same sentence with its first tokens repeated, so any model can read
    it. P is smaller than `PADDING` only near the model's maximum length.
    """

    source: Tensor
    target_in: Tensor
    S: int
    T: int

    @property
    def padding(self) -> int:
        return self.source.shape[1] - self.S


def _batch(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> _Batch:
    device = next(model.parameters()).device
    room = model.config.max_length - max(len(source), len(target))
    extra = max(0, min(PADDING, room))

    def longer(ids: Sequence[int]) -> list[int]:
        return [*ids[:-1], *islice(cycle(ids[:-1] or ids), extra), ids[-1]]

    rows = [list(source), longer(source)]
    targets = [[BOS, *ids[:-1]] for ids in (list(target), longer(target))]
    return _Batch(pad(rows).to(device), pad(targets).to(device), len(source), len(target))


@dataclass(frozen=True, eq=False)
class BugPass(Frozen):
    """A teacher-forced pass of a broken network over a sentence in a padded batch.

    `maps` are [L, H, Q, K] by kind and `masks` bool [Q, K], True = may attend, both with the P
    padding tokens after the S source and T target tokens. `log_probs` [T] are those of the target.
    """

    maps: Mapping[Kind, Floats]
    masks: Mapping[Kind, Bools]
    log_probs: Floats
    padding: int


@of_pass
@torch.inference_mode()
def bug_pass(
    model: Seq2Seq, source: Sequence[int], target: Sequence[int], bug: Bug | None
) -> BugPass:
    """Run a sentence and its target, both ending with <eos>, through the broken network.

    Call it with (translator, record, bug) for a record without edits, or with (model, source,
    target, bug), holding the model's lock. None as bug gives the healthy network's pass.
    """
    batch = _batch(model, source, target)
    return _pass(model, batch, target, bug)


def _pass(model: Seq2Seq, batch: _Batch, target: Sequence[int], bug: Bug | None) -> BugPass:
    with broken(model, bug), capture(model) as captured:
        logits_TV = model(batch.source, batch.target_in)[0, : batch.T]
    target_T1 = torch.tensor(list(target), device=logits_TV.device)[:, None]
    log_probs = logits_TV.float().log_softmax(-1).gather(1, target_T1)[:, 0]
    maps = {kind: captured.maps(kind)[:, 0].float().cpu().numpy() for kind in KINDS}
    return BugPass(maps, _masks(batch, bug), log_probs.cpu().numpy(), batch.padding)


def _masks(batch: _Batch, bug: Bug | None) -> dict[Kind, Bools]:
    """Return the masks [Q, K] that apply to the sentence's maps."""
    edits = _EDITS.get(bug, Edits())
    keys = source_mask(batch.source, edits)[0, 0].cpu().numpy()  # [1, S+P]
    masks: dict[Kind, Bools] = {
        "encoder": np.broadcast_to(keys, (keys.shape[1], keys.shape[1])),
        "decoder": target_mask(batch.target_in, edits)[0, 0].cpu().numpy(),
        "cross": np.broadcast_to(keys, (batch.target_in.shape[1], keys.shape[1])),
    }
    return {kind: ~mask if bug == "inverted_mask" else mask for kind, mask in masks.items()}


@of_pass
@torch.inference_mode()
def bug_translation(
    model: Seq2Seq, source: Sequence[int], target: Sequence[int], bug: Bug | None, forced: int = 0
) -> tuple[int, ...]:
    """Translate greedily with the broken network; return the ids, with <eos> unless cut off.

    For each token, the broken network runs the whole prefix again, as in training: with a KV cache
    no query could see a later token, whatever the mask. The healthy network writes the same tokens
    either way, so it uses the cache. The source is padded as in `bug_pass`; `target` limits the
    length of the broken translation (see `MORE`), and its first `forced` ids begin both. Call it
    like `bug_pass`.
    """
    batch = _batch(model, source, target)
    if bug is None:
        return greedy(model, batch.source[:1], tuple(target[:forced]))[0][0].ids
    limit = min(length_limit(batch.S, model.config.max_length), len(target) + MORE, LONGEST)
    ids = [BOS, *target[:forced]]
    with broken(model, bug):
        memory, mask = model.encode(batch.source)
        while len(ids) <= limit and ids[-1] != EOS:
            prefix = torch.tensor([ids], device=memory.device)
            hidden = model.decode(prefix, memory[:1], mask[:1])[:, -1]
            ids.append(int(model.top_tokens.best(model.classify(hidden))[1]))
    return tuple(ids[1:])


@dataclass(frozen=True)
class Symptoms:
    """Numbers that tell the mistakes apart, measured on a broken network and one sentence.

    A share is a fraction of the total weight over all layers, heads and queries that are not
    padding. A number is NaN if there is no weight to measure.
    """

    loss: float
    """Nats per token of the given target."""
    row_sums: tuple[float, float]
    """The smallest and the largest sum of a row, in all maps."""
    column_sums: tuple[float, float]
    """The smallest and the largest sum over the column of a key that is not padding, in all maps;
    the column includes the rows of padding."""
    on_allowed: float
    """The share on cells that the correct mask allows, in all maps."""
    on_future: float
    """The share of the decoder's self-attention on later tokens of the sentence."""
    on_padding: float
    """The share of the encoder's attention on padding."""
    entropy: float
    """The mean entropy of a row of the encoder's first layer, in bits."""
    scale: float
    """The least-squares slope of the log-weights in the encoder's first layer against the healthy
    network's scores, both centred by row; 1 for the healthy network."""
    same: float
    """The correlation of these log-weights with the healthy scores."""
    transposed: float
    """The correlation of these log-weights with the healthy scores with query and key swapped."""
    position: float
    """The position, counted from 0, that was added to the first source token. Its row of the table
    is the nearest to the token's input vector minus the token's embedding. NaN without a table."""
    tokens_read: int
    """The number of probed source tokens on which a head's map in the first encoder layer depends;
    the smallest such number over the heads."""
    tokens_probed: int
    """How many source tokens were replaced one by one: at most `PROBED`, evenly spaced."""

    def agree(self, other: Symptoms) -> bool:
        """Return whether all numbers are equal, except for rounding in float32."""
        pairs = zip(*(np.hstack(list(vars(one).values())) for one in (self, other)), strict=True)
        return all(a == b or abs(a - b) < _ROUNDING or (a != a and b != b) for a, b in pairs)


@of_pass
@torch.inference_mode()
def bug_symptoms(
    model: Seq2Seq, source: Sequence[int], target: Sequence[int], bug: Bug | None
) -> Symptoms:
    """Measure the symptoms of a mistake on a sentence and its target. Call it like `bug_pass`."""
    batch = _batch(model, source, target)
    S, T = batch.S, batch.T
    run = _pass(model, batch, target, bug)
    right = _masks(batch, None)
    real: dict[Kind, tuple[int, int]] = {"encoder": (S, S), "decoder": (T, T), "cross": (T, S)}
    maps = {kind: found.astype(np.float64) for kind, found in run.maps.items()}
    rows = [maps[kind][..., :Q, :].sum(-1) for kind, (Q, _) in real.items()]
    columns = [maps[kind][..., :K].sum(-2) for kind, (_, K) in real.items()]
    allowed, masked = (
        sum((maps[kind][..., :Q, :] * cells[kind][:Q]).sum() for kind, (Q, _) in real.items())
        for cells in (right, {kind: ~mask for kind, mask in right.items()})
    )
    decoder, encoder = maps["decoder"][..., :T, :], maps["encoder"][..., :S, :]
    future = np.triu(np.ones((T, T + batch.padding), bool), 1)
    future[:, T:] = False
    weights_HSS = maps["encoder"][0, :, :S, :S]
    scale, same, transposed = _against_scores(weights_HSS, _healthy_scores(model, batch))
    read, probed = _tokens_read(model, batch, bug)
    return Symptoms(
        loss=-float(run.log_probs.astype(np.float64).mean()),
        row_sums=_range(rows),
        column_sums=_range(columns),
        on_allowed=_share(allowed, masked),
        on_future=_share((decoder * future).sum(), (decoder * ~future).sum()),
        on_padding=_share(encoder[..., S:].sum(), encoder[..., :S].sum()),
        entropy=_entropy(encoder[0]),
        scale=scale,
        same=same,
        transposed=transposed,
        position=_first_position(model, batch, bug),
        tokens_read=read,
        tokens_probed=probed,
    )


def _range(sums: Sequence[Doubles]) -> tuple[float, float]:
    return float(min(map(np.min, sums))), float(max(map(np.max, sums)))


def _share(part: float, rest: float) -> float:
    """Return part / (part + rest), exactly 0 or 1 if either is 0; NaN if both are 0."""
    return float(part / (part + rest)) if part + rest > 0 else math.nan


def _entropy(weights_HQK: Doubles) -> float:
    """Return the mean entropy in bits of the rows that hold any weight."""
    totals = weights_HQK.sum(-1, keepdims=True)
    p = weights_HQK / np.where(totals > 0, totals, 1)
    bits_HQ = -(p * np.log2(np.where(p > 0, p, 1))).sum(-1)
    held = totals[..., 0] > 0
    return float(bits_HQ[held].mean()) if held.any() else math.nan


def _healthy_scores(model: Seq2Seq, batch: _Batch) -> Doubles:
    """Return q·k/√d_k of the encoder's first layer between real tokens, [H, S, S]."""
    with capture(model) as captured:
        model.encode(batch.source[:1])
    call = captured.calls()[0]
    to_query, to_key, *_ = call.site.projections()
    x_1SD = call.query[:, : batch.S]
    q, k = (_split(F.linear(x_1SD, *to), call.site.num_heads)[0] for to in (to_query, to_key))
    scores_HSS = (q @ k.mT) / call.site.divisor
    bias_HSS = call.site.bias(batch.S, batch.S)
    return (scores_HSS if bias_HSS is None else scores_HSS + bias_HSS).double().cpu().numpy()


def _against_scores(weights_HQK: Doubles, scores_HQK: Doubles) -> tuple[float, float, float]:
    """Return the slope of log-weights against scores, and two correlations.

    The log-weights are correlated with the scores, then with the transposed scores. All are centred
    by row, over the cells whose weight is positive: a softmax fixes a row's log-weights only up to
    a constant.
    """
    cells = weights_HQK > 0
    logs = _centred(np.log(np.where(cells, weights_HQK, 1)), cells)
    same, transposed = (
        _centred(scores, cells) for scores in (scores_HQK, scores_HQK.swapaxes(1, 2))
    )
    variance = float((same**2).sum())
    scale = float((logs * same).sum()) / variance if logs.any() and variance > 0 else math.nan
    return scale, _correlation(logs, same), _correlation(logs, transposed)


def _centred(values_HQK: Doubles, cells_HQK: Bools) -> Doubles:
    """Subtract each row's mean over some cells; the other cells become 0."""
    counts = np.maximum(cells_HQK.sum(-1, keepdims=True), 1)
    means = (values_HQK * cells_HQK).sum(-1, keepdims=True) / counts
    return (values_HQK - means) * cells_HQK


def _correlation(first: Doubles, second: Doubles) -> float:
    norm = math.sqrt(float((first**2).sum() * (second**2).sum()))
    return float((first * second).sum()) / norm if norm > 0 else math.nan


def _first_position(model: Seq2Seq, batch: _Batch, bug: Bug | None) -> float:
    """Return the position whose encoding the first source token's input vector contains."""
    if model.config.position_table == "none":
        return math.nan
    embeddings = model.embeddings
    table = embeddings.source_positions(min(batch.S + 2, model.config.max_length))
    first = batch.source[:1]
    with broken(model, bug):
        added = embeddings.source(first) - embeddings.look_up(first, embeddings.source_table.weight)
    return int((table - added[0, 0]).square().sum(-1).argmin())


def _tokens_read(model: Seq2Seq, batch: _Batch, bug: Bug | None) -> tuple[int, int]:
    """Replace source tokens one by one; count those on which each map of the first layer depends.

    Return the smallest count over the heads, and how many tokens were replaced. A map depends on a
    token if the logarithm of any weight changes; weights that are 0 before or after do not count.
    """
    S = batch.S
    places = sorted({round(i) for i in np.linspace(0, S - 1, min(S, PROBED))})
    ids = batch.source[:1].repeat(1 + len(places), 1)
    for row, place in enumerate(places, start=1):
        ids[row, place] = UNK if ids[row, place] != UNK else EOS
    with broken(model, bug), capture(model) as captured:
        model.encode(ids)
    weights = captured.calls()[0].weights[..., :S, :].double().cpu().numpy()
    cells = (weights[:1] > 0) & (weights[1:] > 0)
    logs = np.log(np.where(weights > 0, weights, 1))
    changed = (np.abs(logs[1:] - logs[:1]) * cells).max((-2, -1)) > _ROUNDING  # [place, H]
    return int(changed.sum(0).min()), len(places)
