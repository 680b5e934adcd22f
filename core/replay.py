"""Replay: one teacher-forced pass over a known target that yields everything a record holds.

Causality makes it exact: row t of a full pass sees what step t of the search saw.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from core.capture import capture
from core.check import Evidence
from core.edits import Edits, edited, source_mask, target_mask
from core.model.interface import Seq2Seq
from core.text.tokenizer import BOS

ALTERNATIVES = 5


@dataclass(frozen=True)
class Replay:
    """One sentence's pass: maps [L, H, Q, K], masks [Q, K], positions [·, D], log-probabilities.

    `evidence` is what an outsider needs to check the rest.
    """

    encoder: Tensor
    decoder: Tensor
    cross: Tensor
    encoder_mask: Tensor
    decoder_mask: Tensor
    cross_mask: Tensor
    source_positions: Tensor
    target_positions: Tensor
    log_probs: Tensor
    alternatives: Tensor
    alternative_log_probs: Tensor
    evidence: Evidence


@torch.inference_mode()
def replay(model: Seq2Seq, source: list[int], target: list[int], edits: Edits = Edits()) -> Replay:
    """Feed `source` and `target` ids once, both with their <eos>, and look everywhere.

    A second pass looks nowhere: its logits tell whether looking changed anything. With edits, both
    passes run under them, and masks and positions are the edited ones.
    """
    with edited(model, edits):
        return _replay(model, source, target, edits)


def _replay(model: Seq2Seq, source: list[int], target: list[int], edits: Edits) -> Replay:
    device = next(model.parameters()).device
    source_1S = torch.tensor([source], device=device)
    target_in_1T = torch.tensor([[BOS, *target[:-1]]], device=device)
    with capture(model) as captured:
        logits_TV = model(source_1S, target_in_1T)[0]
    unwatched_TV = model(source_1S, target_in_1T)[0]
    log_probs_TV = logits_TV.float().log_softmax(dim=-1)
    best = log_probs_TV.topk(ALTERNATIVES, dim=-1)
    target_T1 = torch.tensor(target, device=device)[:, None]
    source_keys = source_mask(source_1S, edits)[0, 0]
    S, T = len(source), len(target)
    return Replay(
        encoder=captured.maps("encoder")[:, 0],
        decoder=captured.maps("decoder")[:, 0],
        cross=captured.maps("cross")[:, 0],
        encoder_mask=source_keys.expand(S, S),
        decoder_mask=target_mask(target_in_1T, edits)[0, 0],
        cross_mask=source_keys.expand(T, S),
        source_positions=model.embeddings.source_positions(S).detach(),
        target_positions=model.embeddings.target_positions(T).detach(),
        log_probs=log_probs_TV.gather(1, target_T1)[:, 0],
        alternatives=best.indices,
        alternative_log_probs=best.values,
        evidence=Evidence.of(captured, logits_TV, unwatched_TV),
    )
