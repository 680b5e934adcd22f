"""Greedy and beam search over a model's start/step; they see no tokenizer and no recorder.

Axes: N sentences, K beam, V vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from core.config import DecodeConfig
from core.model.interface import Seq2Seq
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
    """How many tokens a translation may have: twice the source's and 20, at most the model's."""
    return min(2 * source_length + 20, max_length)


def penalised(log_prob: float, length: int, alpha: float) -> float:
    """log P / ((5 + length) / 6)^alpha (Wu et al. 2016, eq. 14)."""
    return log_prob / ((5 + length) / 6) ** alpha


@torch.inference_mode()
def search(model: Seq2Seq, source_NS: Tensor, config: DecodeConfig) -> list[list[Hypothesis]]:
    """The finished hypotheses of each source row, best first: one if greedy, else up to `beam`."""
    return greedy(model, source_NS) if config.beam == 1 else beam(model, source_NS, config)


def _next_log_probs(logits: Tensor) -> Tensor:
    """Log-probabilities, at least in float32; <pad> and <bos> can never be written."""
    log_probs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    log_probs[..., [PAD, BOS]] = -torch.inf
    return log_probs


@torch.inference_mode()
def greedy(model: Seq2Seq, source_NS: Tensor) -> list[list[Hypothesis]]:
    """The likeliest token at each step, until every row has written <eos>."""
    lengths = (source_NS != PAD).sum(dim=1).tolist()
    limits = [length_limit(length, model.config.max_length) for length in lengths]
    state = model.start(source_NS)
    token_N = torch.full((len(source_NS),), BOS, device=source_NS.device)
    written: list[list[int]] = [[] for _ in lengths]
    log_prob = [0.0] * len(lengths)
    open_rows = set(range(len(lengths)))
    while open_rows:
        logits, state = model.step(token_N, state)
        best_N, token_N = _next_log_probs(logits).max(dim=-1)
        for row, (token, lp) in enumerate(zip(token_N.tolist(), best_N.tolist(), strict=True)):
            if row in open_rows:
                written[row].append(token)
                log_prob[row] += lp
                if token == EOS or len(written[row]) == limits[row]:
                    open_rows.discard(row)
    return [
        [Hypothesis(tuple(ids), lp, penalised(lp, len(ids), 0.0))]
        for ids, lp in zip(written, log_prob, strict=True)
    ]


@torch.inference_mode()
def beam(model: Seq2Seq, source_NS: Tensor, config: DecodeConfig) -> list[list[Hypothesis]]:
    """Beam search (Sutskever et al. 2014, §3.2) with the length penalty of Wu et al. 2016.

    At each step the best 2K continuations of a sentence's K prefixes are looked at: those that end
    are finished, the best K that do not go on. A sentence is done when its K-th best finished
    hypothesis beats what the best open one could still score.
    """
    device, (N, K, alpha) = source_NS.device, (len(source_NS), config.beam, config.length_penalty)
    lengths = (source_NS != PAD).sum(dim=1).tolist()
    limits = [length_limit(length, model.config.max_length) for length in lengths]
    state = model.start(source_NS).select(torch.arange(N, device=device).repeat_interleave(K))
    token = torch.full((N * K,), BOS, device=device)
    # Sums in float64: a long sentence's score must not depend on the order of its additions.
    total_NK = torch.full((N, K), -torch.inf, dtype=torch.float64, device=device)
    total_NK[:, 0] = 0.0  # all K prefixes are the same at first: only one of them counts
    prefixes: list[list[tuple[int, ...]]] = [[()] * K for _ in range(N)]
    finished: list[list[Hypothesis]] = [[] for _ in range(N)]
    done = [False] * N
    step = 0
    while not all(done):
        step += 1
        logits, state = model.step(token, state)
        log_probs = _next_log_probs(logits).view(N, K, -1)
        V = log_probs.shape[-1]
        best_N2K, index_N2K = (total_NK[:, :, None] + log_probs).flatten(1).topk(2 * K, dim=1)
        best, index = best_N2K.tolist(), index_N2K.tolist()
        rows, tokens, totals = [], [], []
        for n in range(N):
            survivors = []
            for rank, (value, flat) in enumerate(zip(best[n], index[n], strict=True)):
                parent, id = divmod(flat, V)
                ids = (*prefixes[n][parent], id)
                if id == EOS or step == limits[n]:
                    # Only the best K may end here: a worse one would crowd out better open ones.
                    if rank < K and not done[n] and value > -torch.inf:
                        score = penalised(value, len(ids), alpha)
                        finished[n].append(Hypothesis(ids, value, score))
                elif len(survivors) < K:
                    survivors.append((parent, id, value, ids))
            survivors += [(0, EOS, -torch.inf, ())] * (K - len(survivors))
            prefixes[n] = [ids for *_, ids in survivors]
            rows += [n * K + parent for parent, *_ in survivors]
            tokens += [id for _, id, *_ in survivors]
            totals.append([value for _, _, value, _ in survivors])
            finished[n] = sorted(finished[n], key=lambda h: -h.score)[:K]
            done[n] = (
                done[n]
                or step >= limits[n]
                or _settled(finished[n], totals[n][0], limits[n], config)
            )
        state = state.select(torch.tensor(rows, device=device))
        token = torch.tensor(tokens, device=device)
        total_NK = torch.tensor(totals, dtype=torch.float64, device=device)
    return finished


def _settled(
    finished: list[Hypothesis], best_open: float, limit: int, config: DecodeConfig
) -> bool:
    """Whether no open prefix can still enter the beam: sums only fall, the divisor has a limit."""
    if len(finished) < config.beam:
        return False
    return finished[-1].score >= penalised(best_open, limit, config.length_penalty)
