"""One sentence, translated once a network is loaded: what cannot do that is not let in."""

import math

import torch

from core.model.interface import Seq2Seq
from core.text.tokenizer import BOS, EOS, PAD, Tokenizer

_TEXT = "Ein Test, a test: 1, 2."
_MOST_TOKENS = 8


@torch.inference_mode()
def try_out(model: Seq2Seq, source: Tokenizer, target: Tokenizer, device: str) -> None:
    """Raises ValueError unless a greedy search writes a finite hypothesis of a few tokens.

    The network is in evaluation mode, on that device.
    """
    most = min(_MOST_TOKENS, model.config.max_length)
    ids = [*[token.id for token in source.encode(_TEXT)][: most - 1], EOS]
    state = model.start(torch.tensor([ids], device=device))
    token = torch.tensor([BOS], device=device)
    written: list[int] = []
    log_prob = 0.0
    while len(written) < most and (not written or written[-1] != EOS):
        logits, state = model.step(token, state)
        log_probs = logits.float().log_softmax(dim=-1)
        log_probs[..., [PAD, BOS]] = -torch.inf
        best, token = log_probs.max(dim=-1)
        log_prob += best.item()
        written.append(int(token.item()))
    if not math.isfinite(log_prob):
        raise ValueError(f"a trial sentence has the log-probability {log_prob}")
    target.decode(written)
