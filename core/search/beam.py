"""Greedy and beam search with the length penalty; they see no tokenizer and no recorder.

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

    `log_prob` is the sum of its tokens' log-probabilities in nats, `score` that sum after the
    length penalty: what a beam compares.
    """

    ids: tuple[int, ...]
    log_prob: float
    score: float


def length_limit(source_length: int, max_length: int) -> int:
    """How many tokens a translation may have: 50 more than the source (Vaswani et al. 2017, §6.1).

    Of a short source no more than twice its number and 20; never more than the model's.
    """
    return min(source_length + 50, 2 * source_length + 20, max_length)


def penalised(log_prob: float, length: int, alpha: float) -> float:
    """log P / ((5 + length) / 6)^alpha (Wu et al. 2016, eq. 14)."""
    return log_prob / ((5 + length) / 6) ** alpha


@torch.inference_mode()
def search(model: Seq2Seq, source_NS: Tensor, config: DecodeConfig) -> list[list[Hypothesis]]:
    """The finished hypotheses of each source row, best first: one if greedy, else up to `beam`."""
    return greedy(model, source_NS) if config.beam == 1 else beam(model, source_NS, config)


@torch.inference_mode()
def greedy(model: Seq2Seq, source_NS: Tensor) -> list[list[Hypothesis]]:
    """The likeliest token at each step, until every row has written <eos>."""
    lengths = (source_NS != PAD).sum(dim=1).tolist()
    limits = [length_limit(length, model.config.max_length) for length in lengths]
    state = model.start(source_NS)
    token_N = torch.full((len(source_NS),), BOS, device=source_NS.device)
    written: list[list[int]] = [[] for _ in lengths]
    log_prob = [0.0] * len(lengths)
    active = list(range(len(lengths)))  # the sentences of the state's rows
    while active:
        logits, state = model.step(token_N, state)
        best_N, token_N = model.top_tokens.best(logits)
        left = []
        for row, (n, token, lp) in enumerate(
            zip(active, token_N.tolist(), best_N.tolist(), strict=True)
        ):
            written[n].append(token)
            log_prob[n] += lp
            if token != EOS and len(written[n]) < limits[n]:
                left.append(row)
        if not left:
            break
        if len(left) < len(active):
            rows = torch.tensor(left, dtype=torch.int64, device=source_NS.device)
            state, token_N = state.select(rows), token_N[rows]
            active = [active[row] for row in left]
    return [
        [Hypothesis(tuple(ids), lp, penalised(lp, len(ids), 0.0))]
        for ids, lp in zip(written, log_prob, strict=True)
    ]


class BeamState(NamedTuple):
    """One sentence's beam between two steps.

    `prefixes` are the K open ones, best first, each with the sum of its log-probabilities in
    `totals` and, in `rows`, the row of the state before that it continues. A row that only fills
    the beam is empty, and its sum is −∞. `finished` are the K best so far, best first.
    """

    prefixes: Sequence[tuple[int, ...]]
    totals: Sequence[float]
    rows: Sequence[int]
    finished: list[Hypothesis]
    done: bool


class Candidate(NamedTuple):
    """A prefix of a beam, by its row, with one more token; `total` is the sum with that token."""

    total: float
    row: int
    id: int


class Step(NamedTuple):
    """One step of a beam search, sentence by sentence: logits, candidates, beams.

    The beams are those of all sentences; the rest is of those that were still active, in their
    order.
    """

    logits_NKV: Tensor
    candidates: list[list[Candidate]]
    beams: list[BeamState]

    def log_probs(self) -> Tensor:
        """Of all tokens, [N, K, V]: who only searches needs a few of them."""
        return log_probabilities(self.logits_NKV)


def first_beam_state(beam: int) -> BeamState:
    """Before the first step all K prefixes are the same, so only one of them counts."""
    filling = beam - 1
    return BeamState([()] * beam, [0.0] + [-math.inf] * filling, [0] * beam, [], False)


@torch.inference_mode()
def beam(model: Seq2Seq, source_NS: Tensor, config: DecodeConfig) -> list[list[Hypothesis]]:
    """Beam search (Sutskever et al. 2014, §3.2) with the length penalty of Wu et al. 2016."""
    for step in steps(model, source_NS, config):
        beams = step.beams
    return [state.finished for state in beams]


def steps(
    model: Seq2Seq, source_NS: Tensor, config: DecodeConfig, prefix: tuple[int, ...] = ()
) -> Iterator[Step]:
    """A beam search step by step, each one as it was decided; the last holds what was found.

    The caller is in inference mode: to enter it anew for each step takes longer than a product.
    A `prefix` of ids is followed, whatever its probability, before the search may choose.
    """
    device, N, K = source_NS.device, len(source_NS), config.beam
    lengths = (source_NS != PAD).sum(dim=1).tolist()
    limits = [length_limit(length, model.config.max_length) for length in lengths]
    state = model.start(source_NS).select(torch.arange(N, device=device).repeat_interleave(K))
    token = torch.full((N * K,), BOS, device=device)
    beams = [first_beam_state(K)] * N
    active = list(range(N))  # the sentences of the state's rows, K rows each
    step = 0
    while active:
        logits, state = model.step(token, state)
        logits_NKV = logits.view(len(active), K, -1)
        # Sums in float64: a long sentence's score must not depend on the order of its additions.
        totals = [beams[n].totals for n in active]
        if step < len(prefix):
            forced = log_probabilities(logits_NKV[:, 0])[:, prefix[step]].tolist()
            candidates = [
                [Candidate(total[0] + log_prob, 0, prefix[step])]
                for total, log_prob in zip(totals, forced, strict=True)
            ]
        else:
            total_NK = torch.tensor(totals, dtype=torch.float64, device="cpu")
            candidates = _best(total_NK, logits_NKV, model.top_tokens)
        step += 1
        beams = list(beams)
        for n, best in zip(active, candidates, strict=True):
            beams[n] = _advance(beams[n], best, step, limits[n], config)
        yield Step(logits_NKV, candidates, beams)
        left = [(place, n) for place, n in enumerate(active) if not beams[n].done]
        if not left:
            return
        rows = [place * K + row for place, n in left for row in beams[n].rows]
        state = state.select(torch.tensor(rows, dtype=torch.int64, device=device))
        active = [n for _, n in left]
        last = [ids[-1] if ids else EOS for n in active for ids in beams[n].prefixes]
        token = torch.tensor(last, dtype=torch.int64, device=device)


def _best(total_NK: Tensor, logits_NKV: Tensor, top: TopTokens) -> list[list[Candidate]]:
    """Return each sentence's best 2K continuations: at most K of them end, so K can go on.

    Never fewer than 5, so that a narrow beam still shows what it chose from.
    """
    _, K, V = logits_NKV.shape
    wanted = max(2 * K, 5)
    each = min(wanted, V)
    found = top.continuations(logits_NKV, total_NK, each, min(wanted, K * each))
    sentences = zip(*(x.tolist() for x in found), strict=True)
    return [list(map(Candidate, *columns)) for columns in sentences]


def _advance(
    state: BeamState, candidates: list[Candidate], step: int, limit: int, config: DecodeConfig
) -> BeamState:
    """One sentence's next beam state: candidates that end are finished, the best K others go on.

    A sentence is done when K hypotheses have finished and no open one can still beat the best.
    """
    K, alpha = config.beam, config.length_penalty
    finished, survivors = list(state.finished), []
    for rank, (total, row, id) in enumerate(candidates):
        ids = (*state.prefixes[row], id)
        if id == EOS or step == limit:
            # Only the best K may end here: a worse one would crowd out better open ones.
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
    """Whether the beam is full and its best can't be beaten: sums only fall, lengths have a limit.

    That proves the translation. The others are the best that have finished by then: to prove them
    as well took a tenth more steps.
    """
    if len(finished) < config.beam:
        return False
    return finished[0].score >= penalised(best_open, limit, config.length_penalty)
