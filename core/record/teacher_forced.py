"""Teacher-forced pass over a known target, which yields everything that a record holds.

The causal mask makes it exact: row t of the pass sees the tokens that step t of decoding sees.
"""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.data.batches import pad
from core.kinds import KINDS, Kind
from core.model.interface import Embeddings, Seq2Seq, Side
from core.model.positions import LearnedPositions
from core.record.activations import States, hidden_states
from core.record.capture import Captured, capture
from core.record.editing import Means, edited, source_mask, target_mask
from core.record.edits import Edits
from core.record.evidence import Evidence, SiteEvidence
from core.record.hidden_states import Activations
from core.record.states import Jacobians
from core.text.tokenizer import BOS

ALTERNATIVES = 5


@dataclass(frozen=True)
class TeacherForcedPass:
    """One sentence's pass: maps [L, H, Q, K], masks [Q, K], positions [·, D], log-probabilities.

    `evidence` is what core.record.checks needs to verify all other fields.
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
    activations: Activations | None = None


class PassInput(NamedTuple):
    """One sentence to feed: ids of the source, the target and the hypotheses of the search.

    Each sequence ends with <eos>, unless it was cut at a length limit. The first `forced` ids of a
    hypothesis do not count in its log-probability.
    """

    source: Sequence[int]
    target: Sequence[int]
    hypotheses: Sequence[Sequence[int]] = ()
    forced: int = 0

    @property
    def rows(self) -> list[list[int]]:
        """The target, then each other hypothesis: the decoder rows of the pass without hooks."""
        target = list(self.target)
        return [target, *(list(ids) for ids in self.hypotheses if list(ids) != target)]

    @property
    def longest(self) -> int:
        return max(len(self.source), *map(len, self.rows))


def teacher_forced_pass(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    edits: Edits = Edits(),
    hypotheses: Sequence[Sequence[int]] = (),
    activations: bool = False,
    means: Means | None = None,
    lens: Jacobians | None = None,
) -> TeacherForcedPass:
    """Feed `source` and `target` ids once, both with their <eos>, and capture everything.

    A second pass runs without hooks: its logits show whether recording changed anything, and it
    yields the log-probabilities of the `hypotheses`. Both passes run under the edits; the captured
    masks and positions are the edited ones. `means` are needed for mean-ablated heads, `lens` for
    pushes towards a token.
    """
    return teacher_forced_passes(
        model, [PassInput(source, target, hypotheses)], edits, activations, means, lens
    )[0]


@torch.inference_mode()
def teacher_forced_passes(
    model: Seq2Seq,
    inputs: Sequence[PassInput],
    edits: Edits = Edits(),
    activations: bool = False,
    means: Means | None = None,
    lens: Jacobians | None = None,
) -> list[TeacherForcedPass]:
    """Run several sentences as one padded batch; the results contain no padding.

    Each result equals that of a pass over the sentence alone, except for rounding.
    """
    device = next(model.parameters()).device
    source_BS = pad([list(one.source) for one in inputs]).to(device)
    target_in_BT = pad([[BOS, *one.target[:-1]] for one in inputs]).to(device)
    with edited(model, edits, means, lens):
        with capture(model) as captured, ExitStack() as stack:
            states = stack.enter_context(hidden_states(model)) if activations else None
            logits_BTV = model(source_BS, target_in_BT)
        plain = _plain_logits(model, source_BS, [one.rows for one in inputs])
        maps = {kind: captured.maps(kind) for kind in KINDS}
        masks = source_mask(source_BS, edits), target_mask(target_in_BT, edits)
        return [
            _one(model, one, b, captured, maps, masks, logits_BTV[b], plain[b], states)
            for b, one in enumerate(inputs)
        ]


def plan_batches(inputs: Sequence[PassInput], batch_tokens: int) -> list[list[int]]:
    """Return the indices of the inputs in each batch of at most `batch_tokens` padded tokens.

    Inputs of similar length share a batch. All rows count, including those of the hypotheses. An
    input above the limit is a batch by itself.
    """
    batches: list[list[int]] = []
    rows = 0
    for i in sorted(range(len(inputs)), key=lambda i: inputs[i].longest):
        added = 1 + len(inputs[i].rows)
        if batches and (rows + added) * inputs[i].longest <= batch_tokens:
            batches[-1].append(i)
            rows += added
        else:
            batches.append([i])
            rows = added
    return batches


def _one(
    model: Seq2Seq,
    inputs: PassInput,
    row: int,
    captured: Captured,
    maps: dict[Kind, Tensor],
    masks: tuple[Tensor, Tensor],
    logits_TV: Tensor,
    plain: list[Tensor],
    states: States | None,
) -> TeacherForcedPass:
    """Return the results of one batch row, without its padding."""
    rows, target = inputs.rows, list(inputs.target)
    S, T = len(inputs.source), len(target)
    logits_TV = logits_TV[:T]
    sums = {
        tuple(ids): _log_prob(plain[rows.index(list(ids))], ids, inputs.forced)
        for ids in inputs.hypotheses
    }
    log_probs_TV = logits_TV.float().log_softmax(dim=-1)
    best = log_probs_TV.topk(ALTERNATIVES, dim=-1)
    target_T1 = torch.tensor(target, device=logits_TV.device)[:, None]
    source_keys, target_keys = masks[0][row, 0, :, :S], masks[1][row, 0, :T, :T]
    evidence = Evidence.of(
        *(captured, row, (S, T), logits_TV, plain[0], sums),
        *(_learned_positions(model.embeddings), model.config),
    )
    return TeacherForcedPass(
        encoder=maps["encoder"][:, row, :, :S, :S],
        decoder=maps["decoder"][:, row, :, :T, :T],
        cross=maps["cross"][:, row, :, :T, :S],
        encoder_mask=source_keys.expand(S, S),
        decoder_mask=target_keys,
        cross_mask=source_keys.expand(T, S),
        source_positions=model.embeddings.source_positions(S).detach(),
        target_positions=model.embeddings.target_positions(T).detach(),
        log_probs=log_probs_TV.gather(1, target_T1)[:, 0],
        alternatives=best.indices,
        alternative_log_probs=best.values,
        evidence=evidence,
        activations=None if states is None else _activations(states, row, S, T, evidence),
    )


def _activations(states: States, row: int, S: int, T: int, evidence: Evidence) -> Activations:
    """Return one row's hidden states, and its scores as recomputed from the inputs of each site."""
    lengths: dict[Side, int] = {"encoder": S, "decoder": T}
    scores = {}
    for kind in KINDS:
        scaled = evidence.config.scale_scores
        by_layer = [site_scores(site, scaled) for site in evidence.sites_of(kind)]
        scores[f"{kind}_scores"] = np.stack(by_layer).astype(np.float32)

    def numbers(state: Tensor, side: Side) -> NDArray[np.float32]:
        return state[..., row, : lengths[side], :].float().cpu().numpy()

    return Activations(
        source_embeddings=numbers(states.embeddings["encoder"], "encoder"),
        target_embeddings=numbers(states.embeddings["decoder"], "decoder"),
        encoder_states=numbers(states.sublayers("encoder"), "encoder"),
        decoder_states=numbers(states.sublayers("decoder"), "decoder"),
        encoder_output=numbers(states.outputs["encoder"], "encoder"),
        decoder_output=numbers(states.outputs["decoder"], "decoder"),
        **scores,
    )


def site_scores(site: SiteEvidence, scaled: bool = True) -> NDArray[np.float64]:
    """Compute q·k/√d_k of one site before any mask, [H, Q, K], in float64 from its inputs.

    If not `scaled`, nothing is divided. The bias by distance is added if there is one.
    """

    def heads(x_ND: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        projected = x_ND.cpu().double() @ weight.detach().cpu().double().T
        if bias is not None:
            projected = projected + bias.detach().cpu().double()
        return projected.unflatten(-1, (site.num_heads, -1)).transpose(0, 1)

    q_HQE, k_HKE = heads(site.query_QD, *site.to_query), heads(site.memory_KD, *site.to_key)
    scores_HQK = q_HQE @ k_HKE.mT / (math.sqrt(q_HQE.shape[-1]) if scaled else 1.0)
    if site.bias_HQK is not None:
        scores_HQK = scores_HQK + site.bias_HQK.detach().cpu().double()
    return scores_HQK.numpy()


def _plain_logits(
    model: Seq2Seq, source_BS: Tensor, targets: Sequence[list[list[int]]]
) -> list[list[Tensor]]:
    """Run the targets of each source without hooks; return each target's logits [length, V]."""
    memory_BSD, source_mask = model.encode(source_BS)
    counts, rows = list(map(len, targets)), list(chain.from_iterable(targets))
    target_KT = pad(rows).to(source_BS.device)
    first_K1 = target_KT.new_full((len(rows), 1), BOS)
    owner_K = torch.repeat_interleave(torch.tensor(counts, device=source_BS.device))
    hidden_KTD = model.decode(
        torch.cat((first_K1, target_KT[:, :-1]), dim=1), memory_BSD[owner_K], source_mask[owner_K]
    )
    unpadded = torch.cat([hidden[: len(ids)] for hidden, ids in zip(hidden_KTD, rows, strict=True)])
    logits = iter(model.classify(unpadded).split([len(ids) for ids in rows]))
    return [list(islice(logits, count)) for count in counts]


def _log_prob(logits_TV: Tensor, ids: Sequence[int], forced: int) -> float:
    """Return the sum of the log-probabilities of the ids after the forced ones, in nats."""
    ids_T1 = torch.tensor(list(ids), device=logits_TV.device)[:, None]
    log_probs_TV = logits_TV.float().log_softmax(dim=-1)
    return log_probs_TV.gather(1, ids_T1)[forced:].cpu().sum(dtype=torch.float64).item()


def _learned_positions(embeddings: Embeddings) -> tuple[Tensor, Tensor] | None:
    source, target = embeddings.source_positions, embeddings.target_positions
    if isinstance(source, LearnedPositions) and isinstance(target, LearnedPositions):
        return source.weight.detach(), target.weight.detach()
    return None
