"""Ablate sets of heads on one sentence: each set is one row of a batch.

Axes: R batch row, T target token, D d_model; [L, H] layers and heads of a kind.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from core.analysis.head_effects import HeadEffects, PairEffects, products_without
from core.config import ModelConfig
from core.experiments.experiment import (
    Borrow,
    Ids,
    Progress,
    Steps,
    model_inputs,
    of_pass_in_batches,
    row_batches,
)
from core.experiments.log_probs import target_log_probs, widened
from core.experiments.values import head_output
from core.frozen import Doubles
from core.kinds import KINDS, Kind
from core.model.interface import AttentionSite, Call, Seq2Seq, Side
from core.record.capture import AttentionCall, after_attention, explicit_attention
from core.record.editing import Means
from core.record.edits import Head

Off = frozenset[Head]

_TOKENS = 1280  # of a batch, counted on the longer side (source or target)
_PRODUCTS = 5e10  # of a batch: few rows of a large network, which take about two seconds


@of_pass_in_batches
def head_effects(borrow: Borrow, source: Ids, target: Ids) -> Steps[HeadEffects]:
    """Ablate each head alone; return the change in each target token's log-probability.

    A head is zero-ablated by removing its part of the attention's output, as by
    `Edits(heads_off=…)` (Michel, Levy & Neubig 2019); the pass is teacher-forced. Call it with
    (translator, record), or with (model, source, target) and ids that end with <eos>. The 48 heads
    of a shipped network fit one batch if neither side has more than 26 tokens, with <eos>; longer
    sentences take several. The last layers come first: they need the least recomputation, so
    `Progress.so_far` fills quickly. Its values are NaN for heads that have not been ablated yet.
    """
    with borrow() as model:
        heads, config = heads_of(model, KINDS)[::-1], model.config
    shapes = {
        kind: (1 + max(layer for of, layer, _ in heads if of == kind), -1, len(target))
        for kind in KINDS
    }
    choices: list[Off] = [frozenset(), *(frozenset({head}) for head in heads)]
    rows = np.full((len(choices), len(target)), np.nan)
    done = 0
    for part in choice_batches(config, choices, source, target):
        rows[done : done + len(part)] = _ablated(borrow, source, target, part)
        done += len(part)
        unedited_T, of_head = rows[0], dict(zip(heads, rows[1:], strict=True))
        changes = {
            kind: np.stack([of_head[head] for head in heads[::-1] if head[0] == kind])
            for kind in KINDS
        }
        so_far = HeadEffects(
            unedited_T,
            {kind: (of - unedited_T).reshape(shapes[kind]) for kind, of in changes.items()},
        )
        yield Progress(done, len(choices), so_far)
    return so_far


@of_pass_in_batches
def pair_effects(borrow: Borrow, source: Ids, target: Ids, kind: Kind) -> Steps[PairEffects]:
    """Ablate every pair of heads of a kind, to find heads that are redundant or need each other.

    Call it with (translator, record, kind), or with (model, source, target, kind). Progress counts
    ablations of one or two heads. Raises ValueError for an unknown kind.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}: choose encoder, decoder or cross")
    with borrow() as model:
        heads, config = heads_of(model, (kind,)), model.config
    pairs = list(combinations_with_replacement(range(len(heads)), 2))
    choices = [frozenset({heads[a], heads[b]}) for a, b in pairs]
    found_NNT = np.empty((len(heads), len(heads), len(target)))
    unedited_T = _ablated(borrow, source, target, [frozenset()])[0]
    done = 0
    for part in choice_batches(config, choices, source, target):
        changes = _ablated(borrow, source, target, part) - unedited_T
        for (a, b), change_T in zip(pairs[done : done + len(part)], changes, strict=True):
            found_NNT[a, b] = found_NNT[b, a] = change_T
        done += len(part)
        yield Progress(done, len(pairs))
    H = config.heads(kind)
    return PairEffects(kind, len(heads) // H, H, found_NNT)


def heads_of(model: Seq2Seq, kinds: Sequence[Kind] = KINDS) -> list[Head]:
    """Return every head of these kinds, sorted by kind, layer and number."""
    sites = [site for site in model.attention_sites() if site.kind in kinds]
    sites.sort(key=lambda site: (KINDS.index(site.kind), site.layer))
    return [(site.kind, site.layer, head) for site in sites for head in range(site.num_heads)]


def choice_batches(
    config: ModelConfig, choices: Sequence[Off], source: Ids, target: Ids
) -> list[Sequence[Off]]:
    """Split choices into batches, to bound the memory and time that `log_probs_without` needs."""
    lengths = len(source), len(target)
    rows = _PRODUCTS // products_without(config, "encoder", 0, *lengths)
    return row_batches(choices, source, target, min(_TOKENS, int(rows) * max(lengths)))


def _ablated(borrow: Borrow, source: Ids, target: Ids, choices: Sequence[Off]) -> Doubles:
    with borrow() as model:
        return log_probs_without(model, source, target, choices)


@torch.inference_mode()
def log_probs_without(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    choices: Sequence[Off],
    means: Means | None = None,
) -> Doubles:
    """Return log P of each target token with each choice of heads ablated: [choices, T], nats.

    Heads are zero-ablated or, if `means` are given, mean-ablated. Rows are identical up to their
    first ablated head, so the batch forks there and only the rest is recomputed. Hooks are
    process-wide: the caller must hold the model's lock.
    """
    source_1S, target_in_1T = model_inputs(model, source, target)
    forks = _Forks(model, choices, means)
    with forks.running():
        hidden_RTD = model.decode(target_in_1T, *model.encode(source_1S))
    log_probs_RT = target_log_probs(model, hidden_RTD, target).cpu().numpy()
    return log_probs_RT[[forks.rows.index(choice) for choice in choices]]


class _Forks:
    """A pass of one sentence whose batch grows from layer to layer, one row per distinct choice.

    `rows` holds the set of heads ablated so far in each row; at first there is one empty set.
    """

    def __init__(self, model: Seq2Seq, choices: Sequence[Off], means: Means | None = None):
        self._model = model
        self._choices = choices
        self._means = means
        self._off: Off = frozenset().union(*choices)
        self._encoded: list[Off] = []
        self.rows: list[Off] = [frozenset()]

    @contextmanager
    def running(self) -> Generator[None]:
        """Fork the batch of one `encode` and one `decode` inside the block; then remove hooks."""
        sides: tuple[Side, ...] = ("encoder", "decoder")
        with ExitStack() as stack:
            for side in sides:
                for number, layer in enumerate(self._model.stack(side).layers):
                    hook = self._forking(side, number)
                    stack.enter_context(layer.register_forward_pre_hook(hook))
            stack.enter_context(widened(self._model))
            off = {_at(head) for head in self._off}
            sites = [s for s in self._model.attention_sites() if (s.kind, s.layer) in off]
            stack.enter_context(explicit_attention(sites))
            stack.enter_context(after_attention(sites, self._subtract))
            yield

    def _forking(self, side: Side, number: int) -> Callable[..., tuple[Any, ...]]:
        """Return a hook that forks a layer's input: one row per set of heads ablated so far."""
        at = _stage((side, number, 0))
        starts_decoder = (side, number) == ("decoder", 0)

        def fork(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Any, ...]:
            x, *rest = args
            before = {row: i for i, row in enumerate(self.rows)}
            if starts_decoder:  # all rows share the target, so the decoder starts from a single row
                self._encoded, before = self.rows, dict.fromkeys(self.rows, 0)
            so_far = (_only(choice, lambda head: _stage(head) <= at) for choice in self._choices)
            self.rows = list(dict.fromkeys(so_far))
            parents = [before[_only(row, lambda head: _stage(head) < at)] for row in self.rows]
            if side == "decoder":
                encoded = {row: i for i, row in enumerate(self._encoded)}
                memory = [
                    encoded[_only(row, lambda head: head[0] == "encoder")] for row in self.rows
                ]
                rest[0] = rest[0][memory]
            if starts_decoder and not any(_at(head) == ("decoder", 0) for head in self._off):
                return x, *rest  # a single row suffices up to the first cross-attention
            return x[parents], *rest

        return fork

    def _subtract(self, site: AttentionSite, call: Call, output: tuple[Tensor, Tensor]) -> None:
        """Subtract each head's output from the rows in which it is ablated.

        With `means`, add the head's mean output to these rows.
        """
        (result, weights), (query, memory, *_) = output, call.args
        for head in range(site.num_heads):
            off = [i for i, row in enumerate(self.rows) if (site.kind, site.layer, head) in row]
            if off:
                ablated = AttentionCall(site, query[off], memory[off], weights[off])
                result[off] -= head_output(ablated, head)
                if self._means is not None:
                    mean_HD = self._means[site.kind, site.layer]
                    result[off] += mean_HD[head].to(result)


def _at(head: Head) -> tuple[Kind, int]:
    return head[:2]


def _stage(head: Head) -> tuple[bool, int]:
    """Return a sort key for a head's layer in the order of a forward pass."""
    kind, layer, _ = head
    return kind != "encoder", layer


def _only(row: Off, condition: Callable[[Head], bool]) -> Off:
    return frozenset(filter(condition, row))
