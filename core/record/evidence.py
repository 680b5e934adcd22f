"""What one pass was seen to be fed: all that is needed to check it from outside the model.

Axes: Q query, K key, D d_model, T target token, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from core.kinds import Kind
from core.record.capture import AttentionCall, Captured
from core.text.tokenizer import PAD


@dataclass(frozen=True)
class SiteEvidence:
    """What one attention site was fed in the pass, and the weights of its query and key maps."""

    kind: Kind
    layer: int
    num_heads: int
    query_QD: Tensor
    memory_KD: Tensor
    to_query: tuple[Tensor, Tensor | None]
    to_key: tuple[Tensor, Tensor | None]


@dataclass(frozen=True)
class Evidence:
    """All that is needed to check one pass: sites in the order in which they ran, ids, logits.

    `log_probs` are the sums of whole targets, by their ids, from a teacher-forced pass that nobody
    watched; `learned_positions` are the two sides' tables [max_length, D], None of sinusoids.
    """

    sites: tuple[SiteEvidence, ...]
    source_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    logits_TV: Tensor
    unwatched_TV: Tensor
    log_probs: Mapping[tuple[int, ...], float]
    learned_positions: tuple[Tensor, Tensor] | None

    @classmethod
    def of(
        cls,
        captured: Captured,
        row: int,
        lengths: tuple[int, int],
        logits_TV: Tensor,
        unwatched_TV: Tensor,
        log_probs: Mapping[tuple[int, ...], float],
        learned_positions: tuple[Tensor, Tensor] | None,
    ) -> Evidence:
        """The evidence of one row of a pass, `lengths` tokens of its source and its target.

        The caller still holds the model's lock. Raises RuntimeError if the pass did not embed one
        source and then one target, or if more than padding stands behind these lengths.
        """
        if len(captured.embedded) != 2:
            raise RuntimeError(f"the pass embedded {len(captured.embedded)} sequences, not 2")
        source, target = (
            _row(ids[row].tolist(), length)
            for ids, length in zip(captured.embedded, lengths, strict=True)
        )
        S, T = lengths
        sizes: dict[Kind, tuple[int, int]] = {"encoder": (S, S), "decoder": (T, T), "cross": (T, S)}
        sites = tuple(
            _site_evidence(call, row, *sizes[call.site.kind]) for call in captured.calls()
        )
        return cls(sites, source, target, logits_TV, unwatched_TV, log_probs, learned_positions)


def _row(ids: list[int], length: int) -> tuple[int, ...]:
    if any(id != PAD for id in ids[length:]):
        raise RuntimeError(f"a row of {length} tokens was fed with more behind it")
    return tuple(ids[:length])


def _site_evidence(call: AttentionCall, row: int, queries: int, keys: int) -> SiteEvidence:
    site = call.site
    to_query, to_key, *_ = site.projections()
    query, memory = call.query[row, :queries], call.memory[row, :keys]
    return SiteEvidence(site.kind, site.layer, site.num_heads, query, memory, to_query, to_key)
