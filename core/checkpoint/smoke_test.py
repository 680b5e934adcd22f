"""Translate one sentence with a loaded network, to reject a network that cannot do so."""

import math

import torch

from core.model.interface import Seq2Seq
from core.text.tokenizer import BOS, EOS, PAD, Tokenizer, encode_source

_TEXT = "Ein Test, a test: 1, 2."
_MAX_TOKENS = 8


@torch.inference_mode()
def run_smoke_test(model: Seq2Seq, source: Tokenizer, target: Tokenizer, device: str) -> None:
    """Raise ValueError for a network that has no room for a sentence, or cannot translate one.

    Greedy search has to yield a few tokens with a finite log-probability.

    The network must be in evaluation mode and on that device.
    """
    if (longest := model.config.max_length) < _MAX_TOKENS:
        raise ValueError(f"max_length is {longest}: no sentence fits into fewer than {_MAX_TOKENS}")
    ids = [*[token.id for token in encode_source(source, _TEXT)][: _MAX_TOKENS - 1], EOS]
    state = model.start(torch.tensor([ids], device=device))
    token = torch.tensor([BOS], device=device)
    written: list[int] = []
    log_prob = 0.0
    while len(written) < _MAX_TOKENS and (not written or written[-1] != EOS):
        logits, state = model.step(token, state)
        log_probs = logits.float().log_softmax(dim=-1)
        log_probs[..., [PAD, BOS]] = -torch.inf
        best, token = log_probs.max(dim=-1)
        log_prob += best.item()
        written.append(int(token.item()))
    if not math.isfinite(log_prob):
        raise ValueError(f"a test sentence has the log-probability {log_prob}")
    target.decode(written)
