"""One teacher-forced pass over a known target that yields everything a record holds.

Causality makes it exact: row t of a full pass sees what step t of the search saw.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from core.data.batches import pad
from core.model.interface import Embeddings, Seq2Seq
from core.model.positions import LearnedPositions
from core.record.capture import capture
from core.record.edits import Edits, edited, source_mask, target_mask
from core.record.evidence import Evidence
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
def replay(
    model: Seq2Seq,
    source: list[int],
    target: list[int],
    edits: Edits = Edits(),
    hypotheses: Sequence[Sequence[int]] = (),
) -> Replay:
    """Feed `source` and `target` ids once, both with their <eos>, and look everywhere.

    A second pass looks nowhere: its logits tell whether looking changed anything, and it adds up
    the log-probabilities of the `hypotheses`. With edits, both passes run under them, and masks and
    positions are the edited ones.
    """
    with edited(model, edits):
        return _replay(model, source, target, edits, [list(ids) for ids in hypotheses])


def _replay(
    model: Seq2Seq,
    source: list[int],
    target: list[int],
    edits: Edits,
    hypotheses: list[list[int]],
) -> Replay:
    device = next(model.parameters()).device
    source_1S = torch.tensor([source], device=device)
    target_in_1T = torch.tensor([[BOS, *target[:-1]]], device=device)
    with capture(model) as captured:
        logits_TV = model(source_1S, target_in_1T)[0]
    rows = [target, *(ids for ids in hypotheses if ids != target)]
    unwatched = _unwatched(model, source_1S, rows)
    sums = {tuple(ids): _log_prob(unwatched[rows.index(ids)], ids) for ids in hypotheses}
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
        evidence=Evidence.of(
            captured, logits_TV, unwatched[0], sums, _learned_positions(model.embeddings)
        ),
    )


def _unwatched(model: Seq2Seq, source_1S: Tensor, rows: list[list[int]]) -> list[Tensor]:
    """One teacher-forced pass over several targets of a source: logits [length, V] of each."""
    memory_1SD, source_mask = model.encode(source_1S)
    target_KT = pad(rows).to(source_1S.device)
    first_K1 = target_KT.new_full((len(rows), 1), BOS)
    hidden_KTD = model.decode(
        torch.cat((first_K1, target_KT[:, :-1]), dim=1),
        memory_1SD.expand(len(rows), -1, -1),
        source_mask.expand(len(rows), -1, -1, -1),
    )
    written = torch.cat([hidden[: len(ids)] for hidden, ids in zip(hidden_KTD, rows, strict=True)])
    return list(model.classify(written).split([len(ids) for ids in rows]))


def _log_prob(logits_TV: Tensor, ids: list[int]) -> float:
    """The sum of the log-probabilities of ids, in nats."""
    ids_T1 = torch.tensor(ids, device=logits_TV.device)[:, None]
    log_probs_TV = logits_TV.float().log_softmax(dim=-1)
    return log_probs_TV.gather(1, ids_T1).sum(dtype=torch.float64).item()


def _learned_positions(embeddings: Embeddings) -> tuple[Tensor, Tensor] | None:
    source, target = embeddings.source_positions, embeddings.target_positions
    if isinstance(source, LearnedPositions) and isinstance(target, LearnedPositions):
        return source.weight.detach(), target.weight.detach()
    return None
