"""Greedy and beam search with length penalty, independent of tokenizers and of recording.

Axes: N sentences, K beam, V vocabulary.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from core.config import DecodeConfig
from core.model.interface import Seq2Seq
from core.model.top_tokens import TopTokens, log_probabilities
from core.text.tokenizer import BOS, EOS, PAD


@dataclass(frozen=True)
class Hypothesis:
    """One finished translation: ids without <bos>, with <eos> unless it hit the length limit.

    `log_prob` is the sum of its tokens' log-probabilities in nats; `score`, which the beam
    compares, is that sum after the length penalty.
    """

    ids: tuple[int, ...]
    log_prob: float
    score: float


def length_limit(source_length: int, max_length: int) -> int:
    """Return the maximum output length: the source length + 50 (Vaswani et al. 2017, §6.1).

    Short sources get at most twice their length + 20. The limit never exceeds `max_length`.
    """
    return min(source_length + 50, 2 * source_length + 20, max_length)


def penalised(log_prob: float, length: int, alpha: float) -> float:
    """Return log P / ((5 + length) / 6)^alpha (Wu et al. 2016, eq. 14)."""
    return log_prob / ((5 + length) / 6) ** alpha


@torch.inference_mode()
def search(
    model: Seq2Seq, source_NS: Tensor, config: DecodeConfig, forced: tuple[int, ...] = ()
) -> list[list[Hypothesis]]:
    """Return each row's finished hypotheses, best first: one if greedy, else up to `beam`.

    Every translation begins with the `forced` ids, whatever their probability. They count as
    certain, as in transformers: no score contains it.
    """
    if config.beam == 1:
        return greedy(model, source_NS, forced)
    return beam(model, source_NS, config, forced)


@torch.inference_mode()
def greedy(
    model: Seq2Seq, source_NS: Tensor, forced: tuple[int, ...] = ()
) -> list[list[Hypothesis]]:
    """Take the most likely token at each step, after the forced ones, until <eos> or the limit."""
    lengths = (source_NS != PAD).sum(dim=1).tolist()
    limits = [length_limit(length, model.config.max_length) for length in lengths]
    state = model.start(source_NS)
    token_N = torch.full((len(source_NS),), BOS, device=source_NS.device)
    written: list[list[int]] = [[] for _ in lengths]
    log_prob = [0.0] * len(lengths)
    active = list(range(len(lengths)))  # the sentence of each row of the state
    while active:
        logits, state = model.step(token_N, state)
        best_N, token_N = model.top_tokens.best(logits)
        if (step := len(written[active[0]])) < len(forced):
            token_N = torch.full_like(token_N, forced[step])
            best_N = torch.zeros_like(best_N)
        open_rows = []
        for row, (n, token, lp) in enumerate(
            zip(active, token_N.tolist(), best_N.tolist(), strict=True)
        ):
            written[n].append(token)
            log_prob[n] += lp
            if token != EOS and len(written[n]) < limits[n]:
                open_rows.append(row)
        if not open_rows:
            break
        if len(open_rows) < len(active):
            rows = torch.tensor(open_rows, dtype=torch.int64, device=source_NS.device)
            state, token_N = state.select(rows), token_N[rows]
            active = [active[row] for row in open_rows]
    return [
        [Hypothesis(tuple(ids), lp, penalised(lp, len(ids), 0.0))]
        for ids, lp in zip(written, log_prob, strict=True)
    ]


class BeamState(NamedTuple):
    """One sentence's beam between two steps.

    `prefixes` are the K open hypotheses, best first; `totals` are the sums of their
    log-probabilities, `rows` the rows of the previous state that they extend. Unused slots have an
    empty prefix and a total of −∞. `finished` are the K best finished hypotheses so far, best
    first.
    """

    prefixes: Sequence[tuple[int, ...]]
    totals: Sequence[float]
    rows: Sequence[int]
    finished: list[Hypothesis]
    done: bool


class Candidate(NamedTuple):
    """The prefix in `row` of a beam extended by one token; `total` includes that token."""

    total: float
    row: int
    id: int


class Step(NamedTuple):
    """One step of a beam search.

    `beams` covers all sentences; logits and candidates only those that were active, in order.
    """

    logits_NKV: Tensor
    candidates: list[list[Candidate]]
    beams: list[BeamState]

    def log_probs(self) -> Tensor:
        """Return the log-probabilities of all tokens, [N, K, V], which only a search tree needs."""
        return log_probabilities(self.logits_NKV)


def first_beam_state(beam: int) -> BeamState:
    """Return the initial beam: all K prefixes are equal, so only one gets a finite total."""
    unused = beam - 1
    return BeamState([()] * beam, [0.0] + [-math.inf] * unused, [0] * beam, [], False)


@torch.inference_mode()
def beam(
    model: Seq2Seq, source_NS: Tensor, config: DecodeConfig, forced: tuple[int, ...] = ()
) -> list[list[Hypothesis]]:
    """Run beam search (Sutskever et al. 2014, §3.2) with the length penalty of Wu et al. 2016."""
    for step in steps(model, source_NS, config, forced, len(forced)):
        beams = step.beams
    return [state.finished for state in beams]


def steps(
    model: Seq2Seq,
    source_NS: Tensor,
    config: DecodeConfig,
    prefix: tuple[int, ...] = (),
    certain: int = 0,
) -> Iterator[Step]:
    """Yield each step of a beam search; the last one holds the results.

    Call it in inference mode: entering that mode at every step costs more than a matmul.
    A forced `prefix` of ids is followed first, whatever its probability; that of its first
    `certain` ids is not counted.
    """
    device, N, K = source_NS.device, len(source_NS), config.beam
    lengths = (source_NS != PAD).sum(dim=1).tolist()
    limits = [length_limit(length, model.config.max_length) for length in lengths]
    state = model.start(source_NS).select(torch.arange(N, device=device).repeat_interleave(K))
    token = torch.full((N * K,), BOS, device=device)
    beams = [first_beam_state(K)] * N
    active = list(range(N))  # the sentences in the state, K rows each
    step = 0
    while active:
        logits, state = model.step(token, state)
        logits_NKV = logits.view(len(active), K, -1)
        # Sum in float64, so that a long sentence's score does not depend on rounding.
        totals = [beams[n].totals for n in active]
        if step < len(prefix):
            forced = log_probabilities(logits_NKV[:, 0])[:, prefix[step]].tolist()
            if step < certain:
                forced = [0.0] * len(forced)
            candidates = [
                [Candidate(total[0] + log_prob, 0, prefix[step])]
                for total, log_prob in zip(totals, forced, strict=True)
            ]
        else:
            total_NK = torch.tensor(totals, dtype=torch.float64, device="cpu")
            candidates = _candidates(total_NK, logits_NKV, model.top_tokens)
        step += 1
        beams = list(beams)
        for n, best in zip(active, candidates, strict=True):
            beams[n] = _advance(beams[n], best, step, limits[n], config)
        yield Step(logits_NKV, candidates, beams)
        still_open = [(i, n) for i, n in enumerate(active) if not beams[n].done]
        if not still_open:
            return
        rows = [i * K + row for i, n in still_open for row in beams[n].rows]
        state = state.select(torch.tensor(rows, dtype=torch.int64, device=device))
        active = [n for _, n in still_open]
        last = [ids[-1] if ids else EOS for n in active for ids in beams[n].prefixes]
        token = torch.tensor(last, dtype=torch.int64, device=device)


def _candidates(total_NK: Tensor, logits_NKV: Tensor, top: TopTokens) -> list[list[Candidate]]:
    """Return each sentence's max(2K, 5) best continuations, or all if there are fewer.

    At most K of them end with <eos>, one per row, so K of 2K can continue. The minimum of 5 lets
    the search tree show the alternatives of a narrow beam.
    """
    _, K, V = logits_NKV.shape
    count = max(2 * K, 5)
    per_row = min(count, V)
    best = top.beam_candidates(logits_NKV, total_NK, per_row, min(count, K * per_row))
    sentences = zip(*(x.tolist() for x in best), strict=True)
    return [list(map(Candidate, *columns)) for columns in sentences]


def _advance(
    state: BeamState, candidates: list[Candidate], step: int, limit: int, config: DecodeConfig
) -> BeamState:
    """Return a sentence's next beam state: finish candidates that end, keep the K best others.

    A sentence is done when no prefix is open, or when K hypotheses have finished and no open prefix
    can still beat the best of them.
    """
    K, alpha = config.beam, config.length_penalty
    finished, survivors = list(state.finished), []
    for rank, (total, row, id) in enumerate(candidates):
        ids = (*state.prefixes[row], id)
        if id == EOS or step == limit:
            # Only the K best may finish; a worse one would displace better open hypotheses.
            if rank < K and total > -math.inf:
                finished.append(Hypothesis(ids, total, penalised(total, len(ids), alpha)))
        elif len(survivors) < K:
            survivors.append((ids, total, row))
    survivors += [((), -math.inf, 0)] * (K - len(survivors))
    prefixes, totals, rows = zip(*survivors, strict=True)
    finished = sorted(finished, key=lambda h: -h.score)[:K]
    nothing_open = step >= limit or totals[0] == -math.inf
    done = nothing_open or _settled(finished, totals[0], limit, config)
    return BeamState(prefixes, totals, rows, finished, done)


def _settled(
    finished: list[Hypothesis], best_open: float, limit: int, config: DecodeConfig
) -> bool:
    """Return whether K hypotheses have finished and no open prefix can beat the best of them.

    Totals only fall and the length is limited, which bounds the score of every open prefix. Only
    the best result is thus certain; making the other results certain took 10 % more steps.
    """
    if len(finished) < config.beam:
        return False
    return finished[0].score >= penalised(best_open, limit, config.length_penalty)
